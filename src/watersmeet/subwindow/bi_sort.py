"""BI-Sort: a sorted main array with an index, and an insertion buffer (PanJoin, section III-D).

Design. Rows lie in *sorted arrays*. The first and largest is the paper's main array; the others together are its
insertion buffer. Every array has a two-level index of each eighth key. A probe's answer is a range of positions in each
array.

Departures. The paper's buffer is unsorted and scanned, because its tuples may come one by one. Here a batch comes
sorted, so the buffer is a few sorted arrays that are searched like the main array. A batch is merged with the last
array if that is less than ``RATIO`` times as large, so arrays shrink by that factor from one to the next.

Invariant: each array is sorted by ``(equality, key)`` and at least ``RATIO`` times as large as the next.

Cost. A row is merged about ``RATIO / 2`` times per array. There are at most ``log(rows / batch) / log(RATIO) + 1``
arrays, and a probe searches each once; a batch that is about as long as an array is merged with it instead. Memory: 12
bytes a row (key and row number), an eighth of a key for the index, and 8 more with equality keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels import ranges, sorted_keys
from watersmeet.subwindow.contract import Entries, Matches, Probes, Ranges

__all__ = ["BiSort"]

RATIO: Final = 8
MERGED: Final = 2
MERGED_BY_TWO_KEYS: Final = 8
"""Rows of an array per probe up to which merging is faster than searching, without and with equality keys."""
PADDING: Final = np.int64(2**63 - 1)


@dataclass(frozen=True, slots=True)
class _SortedArray:
    """``size`` sorted keys and their rows; the arrays of keys are padded by one line."""

    key: Int64s
    row: Int32s
    equality: Int64s | None
    size: int
    index: Int64s
    equality_index: Int64s | None
    top: Int64s
    equality_top: Int64s | None

    @property
    def nbytes(self) -> int:
        arrays = (self.key, self.row, self.equality, self.index, self.equality_index, self.top, self.equality_top)
        return sum(array.nbytes for array in arrays if array is not None)

    def find(self, probes: Probes, start: Int64s, end: Int64s, who: Int32s) -> tuple[int, int]:
        """Write the probes' ranges that are not empty; return their number and the number of rows in them."""
        wanted = probes.lo, probes.hi, probes.equality, probes.who
        if self.size <= len(probes) * (MERGED if self.equality is None else MERGED_BY_TWO_KEYS):
            return ranges.merge_ranges(self.key, self.equality, self.size, *wanted, start, end, who)
        levels = self.index, self.equality_index, self.top, self.equality_top
        return ranges.find_ranges(self.key, self.equality, self.size, *levels, *wanted, start, end, who)


class BiSort:
    """Sorted arrays; see the module's header."""

    sorts_by_two_keys: ClassVar[bool] = True
    equality_only: ClassVar[bool] = False
    fixed_capacity: ClassVar[bool] = False
    scans: ClassVar[bool] = False

    def __init__(self, capacity: int, predecessor: BiSort | None = None) -> None:
        del capacity, predecessor  # arrays are allocated as needed, and nothing is learnt from earlier rows
        self._arrays: list[_SortedArray] = []

    def insert(self, entries: Entries) -> None:
        if len(entries) == 0:
            return
        array = _padded(entries)
        while self._arrays and self._arrays[-1].size < RATIO * array.size:
            array = _merged(self._arrays.pop(), array)
        self._arrays.append(array)

    def probe(self, probes: Probes) -> Iterator[Matches]:
        for array in self._arrays:
            start, end = np.empty(len(probes), np.int64), np.empty(len(probes), np.int64)
            who = np.empty(len(probes), np.int32)
            hits, count = array.find(probes, start, end, who)
            if count:
                yield Ranges(start[:hits], end[:hits], count, who[:hits], array.row)

    def seal(self) -> None:
        while len(self._arrays) > 1:
            array = self._arrays.pop()
            self._arrays.append(_merged(self._arrays.pop(), array))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays)

    def snapshot(self) -> Entries:
        if not self._arrays:
            return Entries(np.empty(0, np.int64), np.empty(0, np.int32))
        whole = self._arrays[0]
        for array in self._arrays[1:]:
            whole = _merged(whole, array)
        equality = None if whole.equality is None else whole.equality[: whole.size]
        return Entries(whole.key[: whole.size], whole.row, equality)


def _padded(entries: Entries) -> _SortedArray:
    """Return a batch as a sorted array."""
    equality = None if entries.equality is None else _copied(entries.equality)
    return _indexed(_copied(entries.key), entries.row, equality, len(entries))


def _copied(keys: Int64s) -> Int64s:
    array = sorted_keys.empty_keys(len(keys))
    array[: len(keys)] = keys
    array[len(keys) :] = PADDING
    return array


def _merged(a: _SortedArray, b: _SortedArray) -> _SortedArray:
    n = a.size + b.size
    key = sorted_keys.empty_keys(n)
    row = np.empty(n, np.int32)
    equality = None if a.equality is None else sorted_keys.empty_keys(n)
    sorted_keys.merge_keys(a.key, a.row, a.equality, a.size, b.key, b.row, b.equality, b.size, key, row, equality)
    return _indexed(key, row, equality, n)


def _indexed(key: Int64s, row: Int32s, equality: Int64s | None, size: int) -> _SortedArray:
    index, top = _levels(key, size)
    equality_index, equality_top = (None, None) if equality is None else _levels(equality, size)
    return _SortedArray(key, row, equality, size, index, equality_index, top, equality_top)


def _levels(keys: Int64s, size: int) -> tuple[Int64s, Int64s]:
    """Return the index of sorted keys, and the index of that index."""
    index = sorted_keys.sample_keys(keys, size)
    return index, sorted_keys.sample_keys(index, len(index) - sorted_keys.LINE)
