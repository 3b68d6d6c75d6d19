"""Partial results: rows of some of the streams that go together, as row numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.engine.multiway.block import Block
from watersmeet.spec.expression import StreamName

__all__ = ["Expansion", "Partials", "distinct", "together"]


DENSE: Final = 8
"""Numbers are counted in a table instead of sorted if the table has at most this many entries per number."""


@dataclass(frozen=True, slots=True)
class Partials:
    """Partial results of one block. The *i*-th has row ``numbers[s][i]`` of every stream *s* that is bound."""

    block: Block
    limits: Mapping[StreamName, int]
    """For each stream the number below which rows may be added: they entered before the block."""
    numbers: dict[StreamName, Int64s]

    def __len__(self) -> int:
        return len(next(iter(self.numbers.values())))

    @property
    def bound(self) -> frozenset[StreamName]:
        """The streams that the partial results have a row of."""
        return frozenset(self.numbers)

    def picked(self, keep: Bools | Int64s | Int32s) -> Partials:
        """Return those that ``keep`` selects."""
        return Partials(self.block, self.limits, {stream: own[keep] for stream, own in self.numbers.items()})

    def extended(self, at: Int64s | Int32s | slice, more: Mapping[StreamName, Int64s]) -> Partials:
        """Return those at the positions ``at``, each with a row of more streams."""
        numbers = {stream: own[at] for stream, own in self.numbers.items()}
        return Partials(self.block, self.limits, {**numbers, **more})


def together(parts: Sequence[Partials]) -> Partials:
    """Concatenate partial results of one block that bind the same streams."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    numbers = {stream: np.concatenate([part.numbers[stream] for part in parts]) for stream in first.numbers}
    return Partials(first.block, first.limits, numbers)


@dataclass(frozen=True, slots=True)
class Expansion:
    """The partial results that share each row: those of the *i*-th row are ``order[begin[i] : begin[i + 1]]``."""

    order: Int64s
    begin: Int64s

    def sizes(self, who: Int32s) -> Int64s:
        """Return how many partial results share each row of ``who``."""
        return self.begin[1:][who] - self.begin[:-1][who]

    def expanded(self, who: Int32s, sizes: Int64s) -> tuple[Int64s, Int64s]:
        """Return the partial results that share the rows of ``who``, and the positions of these rows in ``who``."""
        source = np.repeat(np.arange(len(who)), sizes)
        within = np.arange(len(source)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.order[self.begin[who][source] + within], source


def distinct(numbers: Int64s) -> tuple[Int64s, Expansion]:
    """Return the distinct numbers (at least one), ascending, and the positions of each."""
    low = int(numbers.min())
    span = int(numbers.max()) - low + 1
    if span <= DENSE * len(numbers):
        sizes = np.bincount(numbers - low, minlength=span)
        found = np.flatnonzero(sizes)
        sizes = sizes[found]
        found = found + low
    else:
        found, sizes = np.unique(numbers, return_counts=True)
    return found, Expansion(np.argsort(numbers, kind="stable"), np.concatenate(([0], np.cumsum(sizes))))
