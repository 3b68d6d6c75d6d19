"""BI-Sort: a sorted main array with an index, and an insertion buffer (PanJoin, section III-D).

Design. Rows lie in sorted *runs*. The first and largest is the paper's main array; the others together are its
insertion buffer. Every run has a two-level index of each eighth key. A probe's answer is a range of positions in each
run.

Departures. The paper's buffer is unsorted and scanned, since its tuples may come one by one; here a batch arrives
sorted, so the buffer is a few sorted runs, searched like the main array. A batch is merged with the last run as long
as that is less than ``RATIO`` times its size, so runs shrink by that factor from one to the next.

Invariant: each run is sorted by ``(group, key)`` and at least ``RATIO`` times as large as the next.

Cost. A row is merged about ``RATIO / 2`` times per run; there are at most ``log(rows / batch) / log(RATIO) + 1`` runs,
and a probe searches each once, or its batch is merged with a run that is hardly longer. Memory: 12 bytes a row (key,
row number), an eighth of a key for the index, 8 more with groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels import ranges, sorted_run
from watersmeet.subwindow.contract import Entries, Matches, Probes, Ranges

__all__ = ["BiSort"]

RATIO: Final = 8
MERGED: Final = 2
MERGED_IN_GROUPS: Final = 8
"""Rows of a run per probe up to which merging is faster than searching, without groups and with."""
PADDING: Final = np.int64(2**63 - 1)


@dataclass(frozen=True, slots=True)
class _Run:
    """``size`` sorted keys and their rows; key and group arrays are padded by one block."""

    key: Int64s
    row: Int32s
    group: Int64s | None
    size: int
    index: Int64s
    group_index: Int64s | None
    top: Int64s
    group_top: Int64s | None

    @property
    def nbytes(self) -> int:
        arrays = (self.key, self.row, self.group, self.index, self.group_index, self.top, self.group_top)
        return sum(array.nbytes for array in arrays if array is not None)

    def find(self, probes: Probes, start: Int64s, end: Int64s, who: Int32s) -> tuple[int, int]:
        """Write the probes' ranges that are not empty; return how many there are, and how many rows lie in them."""
        wanted = probes.lo, probes.hi, probes.group, probes.who
        if self.size <= len(probes) * (MERGED if self.group is None else MERGED_IN_GROUPS):
            return ranges.merge_ranges(self.key, self.group, self.size, *wanted, start, end, who)
        levels = self.index, self.group_index, self.top, self.group_top
        return ranges.find_ranges(self.key, self.group, self.size, *levels, *wanted, start, end, who)


class BiSort:
    """Sorted runs; see the module's header."""

    supports_groups: ClassVar[bool] = True
    equality_only: ClassVar[bool] = False
    fixed_capacity: ClassVar[bool] = False
    scans: ClassVar[bool] = False

    def __init__(self, capacity: int, predecessor: BiSort | None = None) -> None:
        del capacity, predecessor  # runs are allocated as they are needed, and nothing is learnt from earlier rows
        self._runs: list[_Run] = []

    def insert(self, entries: Entries) -> None:
        if len(entries) == 0:
            return
        run = _padded(entries)
        while self._runs and self._runs[-1].size < RATIO * run.size:
            run = _merged(self._runs.pop(), run)
        self._runs.append(run)

    def probe(self, probes: Probes) -> Iterator[Matches]:
        for run in self._runs:
            start, end = np.empty(len(probes), np.int64), np.empty(len(probes), np.int64)
            who = np.empty(len(probes), np.int32)
            hits, count = run.find(probes, start, end, who)
            if count:
                yield Ranges(start[:hits], end[:hits], count, who[:hits], run.row)

    def seal(self) -> None:
        while len(self._runs) > 1:
            run = self._runs.pop()
            self._runs.append(_merged(self._runs.pop(), run))

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self._runs)

    def snapshot(self) -> Entries:
        if not self._runs:
            return Entries(np.empty(0, np.int64), np.empty(0, np.int32))
        whole = self._runs[0]
        for run in self._runs[1:]:
            whole = _merged(whole, run)
        group = None if whole.group is None else whole.group[: whole.size]
        return Entries(whole.key[: whole.size], whole.row, group)


def _padded(entries: Entries) -> _Run:
    """Return a batch as a run."""
    group = None if entries.group is None else _copied(entries.group)
    return _indexed(_copied(entries.key), entries.row, group, len(entries))


def _copied(keys: Int64s) -> Int64s:
    run = sorted_run.empty_run(len(keys))
    run[: len(keys)] = keys
    run[len(keys) :] = PADDING
    return run


def _merged(a: _Run, b: _Run) -> _Run:
    n = a.size + b.size
    key = sorted_run.empty_run(n)
    row = np.empty(n, np.int32)
    group = None if a.group is None else sorted_run.empty_run(n)
    sorted_run.merge_runs(a.key, a.row, a.group, a.size, b.key, b.row, b.group, b.size, key, row, group)
    return _indexed(key, row, group, n)


def _indexed(key: Int64s, row: Int32s, group: Int64s | None, size: int) -> _Run:
    index, top = _levels(key, size)
    group_index, group_top = (None, None) if group is None else _levels(group, size)
    return _Run(key, row, group, size, index, group_index, top, group_top)


def _levels(keys: Int64s, size: int) -> tuple[Int64s, Int64s]:
    """Return the index of a run, and the index of that."""
    index = sorted_run.sample_run(keys, size)
    return index, sorted_run.sample_run(index, len(index) - sorted_run.BLOCK)
