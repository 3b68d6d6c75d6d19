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
from watersmeet.kernels import ranges, sorted_keys, sorting
from watersmeet.kernels.sorted_keys import LINE
from watersmeet.kernels.team import ALONE, address_of
from watersmeet.subwindow.contract import Entries, Matches, Probes, Ranges

__all__ = ["BiSort", "SortedArray", "merged_rows"]

RATIO: Final = 8
MERGED: Final = 2
MERGED_BY_TWO_KEYS: Final = 8
"""Rows of an array per probe up to which merging is faster than searching, without and with equality keys."""


def merged_rows(probes: Probes) -> int:
    """Return the most rows of an array that is merged with probes, not searched."""
    return len(probes) * (MERGED if probes.equality is None else MERGED_BY_TWO_KEYS)


@dataclass(frozen=True, slots=True)
class SortedArray:
    """``size`` sorted keys and their rows; the arrays of keys are padded by one line."""

    key: Int64s
    row: Int32s
    equality: Int64s | None
    size: int
    index: Int64s
    equality_index: Int64s | None
    top: Int64s
    equality_top: Int64s | None
    words: tuple[int, ...]
    """The same as kernels for several arrays read it (:data:`~watersmeet.kernels.together.DESCRIBED`)."""

    def __len__(self) -> int:
        return self.size

    @property
    def nbytes(self) -> int:
        arrays = (self.key, self.row, self.equality, self.index, self.equality_index, self.top, self.equality_top)
        return sum(array.nbytes for array in arrays if array is not None)

    def find(self, probes: Probes) -> Iterator[Ranges]:
        """Yield the probes' ranges that are not empty, if there are any."""
        start, end = np.empty(len(probes), np.int64), np.empty(len(probes), np.int64)
        who = np.empty(len(probes), np.int32)
        wanted = probes.lo, probes.hi, probes.equality, probes.who
        if self.size <= merged_rows(probes):
            hits, count = ranges.merge_ranges(self.key, self.equality, self.size, *wanted, start, end, who)
        else:
            levels = self.index, self.equality_index, self.top, self.equality_top
            hits, count = ranges.find_ranges(self.key, self.equality, self.size, *levels, *wanted, start, end, who)
        if count:
            yield Ranges(start[:hits], end[:hits], count, who[:hits], self.row)


NOTHING: Final = Entries(np.empty(0, np.int64), np.empty(0, np.int32))


class BiSort:
    """Sorted arrays; see the module's header."""

    sorts_by_two_keys: ClassVar[bool] = True
    equality_only: ClassVar[bool] = False
    fixed_capacity: ClassVar[bool] = False
    scans: ClassVar[bool] = False

    def __init__(self, capacity: int, predecessor: BiSort | None = None) -> None:
        del capacity, predecessor  # arrays are allocated as needed, and nothing is learnt from earlier rows
        self.arrays: list[SortedArray] = []
        """The largest first."""
        self._team = ALONE

    def insert(self, entries: Entries) -> None:
        if len(entries) == 0:
            return
        self._team = entries.team
        array: Entries | SortedArray = _contiguous(entries)
        while self.arrays and self.arrays[-1].size < RATIO * len(array):
            array = _merged(self.arrays.pop(), array, self._team)
        self.arrays.append(array if isinstance(array, SortedArray) else _merged(array, NOTHING, self._team))

    def probe(self, probes: Probes) -> Iterator[Matches]:
        for array in self.arrays:
            yield from array.find(probes)

    def seal(self) -> None:
        while len(self.arrays) > 1:
            array = self.arrays.pop()
            self.arrays.append(_merged(self.arrays.pop(), array, self._team))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def snapshot(self) -> Entries:
        if not self.arrays:
            return Entries(np.empty(0, np.int64), np.empty(0, np.int32))
        whole = self.arrays[0]
        for array in self.arrays[1:]:
            whole = _merged(whole, array, self._team)
        equality = None if whole.equality is None else whole.equality[: whole.size]
        return Entries(whole.key[: whole.size], whole.row, equality)


def _merged(a: Entries | SortedArray, b: Entries | SortedArray, team: int) -> SortedArray:
    """Return the sorted array of all rows; of equal keys those of *a* come first."""
    size = len(a) + len(b)
    row = np.empty(size, np.int32)
    key, key_at = _levels(size)
    (key_a, equality_a, row_a), (key_b, equality_b, row_b) = _addresses(a), _addresses(b)
    words = [len(a), len(b), 0, key_a, key_b, row_a, row_b, key_at[0], address_of(row), *key_at[1:]]
    described: tuple[int, ...]
    if a.equality is None:
        sorting.merge_together(team, sorting.merge_stretch(), np.array(words, np.int64))
        described = (key_at[0], 0, size, key_at[1], 0, key_at[2], 0, address_of(row), 0)
        return SortedArray(key[0], row, None, size, key[1], None, key[2], None, described)
    equality, equality_at = _levels(size)
    words += [equality_a, equality_b, *equality_at]
    sorting.merge_together(team, sorting.merge_stretch_by_two_keys(), np.array(words, np.int64))
    addresses = [at for pair in zip(key_at, equality_at, strict=True) for at in pair]
    described = (*addresses[:2], size, *addresses[2:], address_of(row), 0)
    return SortedArray(key[0], row, equality[0], size, key[1], equality[1], key[2], equality[2], described)


def _contiguous(entries: Entries) -> Entries:
    """Return entries that kernels can read by their address: nearly always the same."""
    equality = None if entries.equality is None else np.ascontiguousarray(entries.equality, np.int64)
    key, row = np.ascontiguousarray(entries.key, np.int64), np.ascontiguousarray(entries.row, np.int32)
    return Entries(key, row, equality, entries.team)


def _addresses(rows: Entries | SortedArray) -> tuple[int, int, int]:
    """Return where keys, equality keys and row numbers are."""
    if isinstance(rows, SortedArray):
        return rows.words[0], rows.words[1], rows.words[7]
    equality = 0 if rows.equality is None else address_of(rows.equality)
    return address_of(rows.key), equality, address_of(rows.row)


def _levels(size: int) -> tuple[list[Int64s], list[int]]:
    """Return room for sorted keys, their index and the index of that, each on a cache line; and their addresses."""
    indexed = -(-size // LINE)
    sizes = (size, indexed, -(-indexed // LINE))
    room = sorted_keys.empty_keys(sum(sizes) + 5 * LINE)
    at, begin = address_of(room), 0
    levels, addresses = [], []
    for some in sizes:
        levels.append(room[begin : begin + some + LINE])
        addresses.append(at + begin * room.itemsize)
        begin += -(-some // LINE) * LINE + LINE
    return levels, addresses
