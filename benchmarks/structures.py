"""Subwindow structures under test: made, filled and probed at their own contract, without windows or columns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from watersmeet.arrays import Int64s
from watersmeet.spec.options import StructureName
from watersmeet.subwindow.choose import STRUCTURES
from watersmeet.subwindow.contract import Entries, Probes, Subwindow
from watersmeet.subwindow.rap_table import RapTable
from watersmeet.subwindow.wib_tree import WibTree

__all__ = ["PAPER", "entries_of", "fill", "make", "probes_of", "time_insertions", "warm_up"]

PAPER: Final[tuple[StructureName, ...]] = ("rap_table", "wib_tree", "bi_sort")
"""The paper's three."""
FILL_BATCH: Final = 1 << 18


def make(
    name: StructureName, capacity: int, *, partitions: int | None = None, before: Int64s | None = None
) -> Subwindow:
    """Return an empty subwindow of about ``partitions`` partitions; ``before`` are the keys of the one before it.

    A RaP-Table learns its splitters from those, as it does inside a window. The tree's leaves are made as wide as
    that many full ones would be. The other structures have no such number.
    """
    match name:
        case "rap_table":
            if before is None:
                return RapTable(capacity, partitions=partitions)
            predecessor = RapTable(max(capacity, len(before)), partitions=partitions)
            predecessor.insert(next(entries_of(before, len(before))))
            return RapTable(capacity, predecessor, partitions)
        case "wib_tree":
            return WibTree(capacity, leaf_width=None if partitions is None else capacity // partitions)
        case _:
            return STRUCTURES[name](capacity)  # type: ignore[call-arg]


def entries_of(keys: Int64s, batch: int, first_row: int = 0) -> Iterator[Entries]:
    """Yield ``keys`` in sorted batches; what is left over at the end makes a last, shorter one."""
    for begin in range(0, len(keys), batch):
        part = keys[begin : begin + batch]
        order = np.argsort(part)
        yield Entries(part[order], (first_row + begin + order).astype(np.int32))


def fill(structure: Subwindow, keys: Int64s, *, seal: bool) -> Subwindow:
    """Insert ``keys`` in large batches, seal if wanted, and return the structure."""
    for entries in entries_of(keys, FILL_BATCH):
        structure.insert(entries)
    if seal:
        structure.seal()
    return structure


def probes_of(keys: Int64s, half_width: int) -> Probes:
    """Return the probes of a batch for a band (0: equality)."""
    order = np.argsort(keys)
    key = keys[order]
    return Probes(key - half_width, key + half_width, order.astype(np.int32))


def time_insertions(
    structure: Subwindow, keys: Int64s, batch: int, *, repetitions: int, limit: float
) -> list[tuple[int, float]]:
    """Insert ``keys`` in ``repetitions`` portions, none longer than ``limit`` seconds; return rows and seconds of each.

    Batches are sorted beforehand: the paper's manager does that, and so does our window, once for all structures.
    """
    portion = max(1, len(keys) // repetitions // batch) * batch
    figures = []
    for number in range(repetitions):
        rows, seconds = 0, 0.0
        begin = number * portion
        for entries in entries_of(keys[begin : begin + portion], batch, begin):
            start = time.perf_counter()
            structure.insert(entries)
            seconds += time.perf_counter() - start
            rows += len(entries)
            if seconds > limit:
                break
        if rows:
            figures.append((rows, seconds))
    return figures


def warm_up() -> None:
    """Compile every kernel that the structures use, before anything is timed."""
    keys = np.random.default_rng(0).integers(0, 10_000, 5_000)
    names: tuple[StructureName, ...] = (*PAPER, "hash", "scan")
    for name in names:
        structure = make(name, len(keys), partitions=64, before=keys)
        for entries in entries_of(keys, 100):
            structure.insert(entries)
        for half_width in (0, 5):
            list(structure.probe(probes_of(keys[:200], half_width)))
        structure.seal()
        for half_width in (0, 5):
            list(structure.probe(probes_of(keys[:200], half_width)))
