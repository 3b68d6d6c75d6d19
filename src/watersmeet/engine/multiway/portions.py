"""Portions of partial results: small enough to bound memory, and large enough that each costs little Python."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.engine.multiway.partial import Expansion, Partials, together

__all__ = ["in_portions", "merged"]


PORTION: Final = 1 << 17
"""Partial results of a portion: bounds memory at any match probability."""


def in_portions(
    found: Iterator[tuple[Int32s, list[Int64s]]], expansion: Expansion | None
) -> Iterator[tuple[Int64s | Int32s, list[Int64s]]]:
    """Yield the partial results to extend and the rows to add, about ``PORTION`` at a time, never empty."""
    waiting: list[tuple[Int32s, list[Int64s]]] = []
    size = 0
    for who, numbers in found:
        waiting.append((who, numbers))
        size += len(who) if expansion is None else int(expansion.sizes(who).sum())
        if size >= PORTION:
            yield from _cut(waiting, expansion)
            waiting, size = [], 0
    if size:
        yield from _cut(waiting, expansion)


def _cut(
    waiting: list[tuple[Int32s, list[Int64s]]], expansion: Expansion | None
) -> Iterator[tuple[Int64s | Int32s, list[Int64s]]]:
    who = np.concatenate([rows for rows, _ in waiting])
    numbers = [np.concatenate(parts) for parts in zip(*(own for _, own in waiting), strict=True)]
    if expansion is None:
        for begin in range(0, len(who), PORTION):
            part = slice(begin, begin + PORTION)
            yield who[part], [own[part] for own in numbers]
        return
    sizes = expansion.sizes(who)
    totals = np.cumsum(sizes)
    cuts = np.searchsorted(totals, np.arange(PORTION, totals[-1], PORTION), "left") + 1
    borders = np.unique(np.concatenate(([0], cuts, [len(who)])))
    for begin, end in pairwise(borders.tolist()):
        part = slice(begin, end)
        at, source = expansion.expanded(who[part], sizes[part])
        yield at, [own[part][source] for own in numbers]


def merged(parts: Iterator[Partials]) -> Iterator[Partials]:
    """Concatenate small portions, because each costs the next stages a fixed effort."""
    waiting: list[Partials] = []
    size = 0
    for part in parts:
        if len(part):
            waiting.append(part)
            size += len(part)
        if 2 * size >= PORTION:
            yield together(waiting)
            waiting, size = [], 0
    if waiting:
        yield together(waiting)
