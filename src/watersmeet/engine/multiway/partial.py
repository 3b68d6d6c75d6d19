"""Partial results: which rows of some of the streams go together, as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.engine.multiway.block import Block
from watersmeet.spec.expression import Side

__all__ = ["Expansion", "Partials", "distinct", "together"]


DENSE: Final = 8
"""Numbers are counted in a table rather than sorted if that has at most so many places per number."""


@dataclass(frozen=True, slots=True)
class Partials:
    """Partial results of one block: row ``numbers[s][i]`` of every stream *s* that is bound belongs to the *i*-th."""

    block: Block
    limits: Mapping[Side, int]
    """Rows of each stream that entered before the block, and only those may be added."""
    numbers: dict[Side, Int64s]

    def __len__(self) -> int:
        return len(next(iter(self.numbers.values())))

    @property
    def bound(self) -> frozenset[Side]:
        """The streams whose rows are known."""
        return frozenset(self.numbers)

    def picked(self, keep: Bools | Int64s | Int32s) -> Partials:
        """Return some of them."""
        return Partials(self.block, self.limits, {stream: own[keep] for stream, own in self.numbers.items()})

    def extended(self, at: Int64s | Int32s | slice, more: Mapping[Side, Int64s]) -> Partials:
        """Return those that stand ``at``, each with a row more."""
        numbers = {stream: own[at] for stream, own in self.numbers.items()}
        return Partials(self.block, self.limits, {**numbers, **more})


def together(parts: Sequence[Partials]) -> Partials:
    """Return partial results of one block that bind the same streams as one."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    numbers = {stream: np.concatenate([part.numbers[stream] for part in parts]) for stream in first.numbers}
    return Partials(first.block, first.limits, numbers)


@dataclass(frozen=True, slots=True)
class Expansion:
    """Which partial results share a row: those of the *i*-th are ``order[begin[i] : begin[i + 1]]``."""

    order: Int64s
    begin: Int64s

    def sizes(self, who: Int32s) -> Int64s:
        """Return how many partial results each row of ``who`` stands for."""
        return self.begin[1:][who] - self.begin[:-1][who]

    def expanded(self, who: Int32s, sizes: Int64s) -> tuple[Int64s, Int64s]:
        """Return for every row of ``who`` the partial results it stands for, and which of ``who`` each comes from."""
        source = np.repeat(np.arange(len(who)), sizes)
        within = np.arange(len(source)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.order[self.begin[who][source] + within], source


def distinct(numbers: Int64s) -> tuple[Int64s, Expansion]:
    """Return the numbers that occur (at least one does), ascending, and where each does."""
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
