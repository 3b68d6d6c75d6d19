"""RaP-Table: range partitioning with splitters that are learnt from the previous subwindow.

PanJoin, section III-B. The key axis is cut by splitters into P partitions of unsorted rows, kept in an LLAT
(:mod:`watersmeet.kernels.llat`) of 2P entries of ``capacity / P * SIGMA`` rows. Every partition counts its rows and
knows its smallest and largest key. From these histograms the next subwindow computes the splitters that would have cut
this one evenly (Algorithm 1). A batch finds its partitions by a rebounding search over the splitters.

Invariant. ``splitters`` is non-decreasing and row ``r`` is in partition ``p`` iff ``splitters[p-1] < key[r] <=
splitters[p]``. So all rows of one value share a partition, and a partition strictly inside a probed range is copied
without comparing.

Entries. A reserved entry is linked only behind a full one. If all P were linked and one more were needed, P entries of
``W >= capacity / P * SIGMA`` rows would be full, which is more rows than the capacity. Rounding W up only helps.

Cost. Insert: amortised O(1) search steps per row if the batch is dense. Probe: one partition for each end of the range,
``PARTITION_ROWS`` rows or up to twice as many, plus the matches. A table that is cut badly (all rows in one partition)
is as slow as a scan. Increasing keys do that (a known issue of the paper, section III-B3), and so do keys that jump.
The table says when it is *outgrown*; unless it was asked for, a WiB+-Tree then takes its place.

Departures from the paper.

- Line 7 of Algorithm 1 lacks ``+ min_i``: ``s_j = min_i + (bal_j - sum_{i-1}) / count_i * (max_i - min_i)``.
- The first table of a stream has no histograms to learn from, and cutting the range of all int64 evenly says nothing
  about the keys. So it cuts its first batch evenly, and cuts again whenever its rows have doubled and the cut has
  become uneven (``UNEVEN``). ``splitters`` overrides that, so that the paper's convergence can be measured.
- LLAT: see there (``last`` pointers, linking on demand, packed when sealed).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels import llat, rap_table
from watersmeet.subwindow.chains import chained_pairs
from watersmeet.subwindow.contract import Entries, Matches, Probes
from watersmeet.subwindow.scan import sorted_entries

__all__ = ["RapTable"]

SIGMA_NUMERATOR, SIGMA_DENOMINATOR = 5, 4  # the paper's sigma, 1.25, as integers: no rounding surprises
PARTITION_ROWS = 32
UNEVEN = 0.5  # normalised mean absolute error from which a first table cuts itself anew
FULLEST = 1024
"""Rows of a partition from which a table is outgrown: a probe there compares as many as some twenty even partitions."""
INT64 = np.iinfo(np.int64)


class RapTable:
    """A range-partitioned subwindow.

    Parameters
    ----------
    capacity
        The most rows that will ever be inserted.
    predecessor
        The subwindow before this one: its histograms give the splitters.
    partitions
        The number of partitions P; by default about ``PARTITION_ROWS`` rows each, a power of two.
    splitters
        The P - 1 splitters themselves, non-decreasing, instead of learned ones.
    """

    sorts_by_two_keys: ClassVar[bool] = False
    equality_only: ClassVar[bool] = False
    fixed_capacity: ClassVar[bool] = True
    scans: ClassVar[bool] = False

    def __init__(
        self,
        capacity: int,
        predecessor: RapTable | None = None,
        partitions: int | None = None,
        splitters: Int64s | None = None,
    ) -> None:
        capacity = max(1, capacity)
        if partitions is None:
            partitions = len(splitters) + 1 if splitters is not None else _default_partitions(capacity)
        self._partitions = partitions
        self._width = -(-capacity * SIGMA_NUMERATOR // (partitions * SIGMA_DENOMINATOR))
        self._following: Int32s = np.arange(1, partitions + 1, dtype=np.int32)
        self._clear()
        self._splitters: Int64s | None = splitters
        if splitters is None and predecessor is not None:
            self._splitters = predecessor.adjusted_splitters(partitions)
        self._self_taught = self._splitters is None
        self._cut_at_size = 0  # rows that a self-taught table had when it last cut itself

    def _clear(self) -> None:
        self._size = 0
        self._fullest = 0
        self._table = llat.new_table(2 * self._partitions, self._width)
        self._used = self._partitions  # PtrG
        self._count: Int64s = np.zeros(self._partitions, np.int64)
        self._minimum: Int64s = np.full(self._partitions, INT64.max)
        self._maximum: Int64s = np.full(self._partitions, INT64.min)

    @property
    def splitters(self) -> Int64s:
        """The splitters; the first table has none before its first batch."""
        return np.empty(0, np.int64) if self._splitters is None else self._splitters

    @property
    def partitions(self) -> int:
        """The number of partitions P."""
        return self._partitions

    @property
    def entries_used(self) -> int:
        """The number of LLAT entries in use, of ``2 * partitions``."""
        return self._used

    @property
    def outgrown(self) -> bool:
        """Whether a partition has got far more rows than its splitters had foreseen."""
        return self._fullest > FULLEST

    def histogram(self) -> tuple[Int64s, Int64s, Int64s]:
        """Return the count, smallest and largest key of every partition; an empty one has no meaningful keys."""
        return self._count, self._minimum, self._maximum

    def normalised_mean_absolute_error(self) -> float:
        """Return the mean of ``|count_i - N/P|`` over ``N/P``: 0 is even, close to 2 is all in one partition."""
        if not self._size:
            return 0.0
        even = self._size / self._partitions
        return float(np.mean(np.abs(self._count - even)) / even)

    def adjusted_splitters(self, partitions: int) -> Int64s | None:
        """Return the splitters for a successor with ``partitions`` partitions (Algorithm 1)."""
        if self._size:
            return rap_table.adjust_splitters(self._count, self._minimum, self._maximum, partitions)
        return self._splitters if partitions == self._partitions else None

    def insert(self, entries: Entries) -> None:
        """Store a sorted batch."""
        if not len(entries):
            return
        if self._splitters is None:
            self._splitters = _even_cut(entries.key, self._partitions)
            self._cut_at_size = len(entries)
        self._append(entries, self._splitters)
        if self._self_taught and self._size >= 2 * self._cut_at_size:
            self._cut_at_size = self._size
            if self.normalised_mean_absolute_error() > UNEVEN:
                self._cut_anew()

    def _append(self, entries: Entries, splitters: Int64s) -> None:
        partition = rap_table.find_partitions(splitters, entries.key)
        self._used = rap_table.insert_rows(
            self._table,
            self._width,
            self._used,
            self._count,
            self._minimum,
            self._maximum,
            entries.key,
            entries.row,
            partition,
        )
        self._fullest = max(self._fullest, int(self._count[partition].max()))
        self._size += len(entries)

    def _cut_anew(self) -> None:
        entries = self.snapshot()
        self._clear()
        self._splitters = _even_cut(entries.key, self._partitions)
        self._append(entries, self._splitters)

    def probe(self, probes: Probes) -> Iterator[Matches]:
        """Yield all matches of a sorted batch of probes."""
        if not self._size or not len(probes):
            return
        first = rap_table.find_partitions(self.splitters, probes.lo)
        final = rap_table.find_partitions(self.splitters, probes.hi)
        yield from chained_pairs(self._table, self._following, first, final, probes)

    def seal(self) -> None:
        """Pack the partitions one behind the other. The histograms stay for the successor."""
        self._table = self._packed()
        self._self_taught = False

    def _packed(self) -> llat.Table:
        return llat.pack_chains(self._table, np.arange(self._partitions, dtype=np.int32))

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it uses."""
        arrays = (self.splitters, self._count, self._minimum, self._maximum, self._following)
        return llat.table_bytes(self._table) + sum(array.nbytes for array in arrays)

    def snapshot(self) -> Entries:
        """Return every stored row, sorted."""
        key, row, *_ = self._packed()
        return sorted_entries(key, row)


def _default_partitions(capacity: int) -> int:
    """Return the power of two that gives partitions of ``PARTITION_ROWS`` rows, or up to twice as many."""
    return 1 << max(0, (capacity // PARTITION_ROWS).bit_length() - 1)


def _even_cut(key: Int64s, partitions: int) -> Int64s:
    """Return splitters that cut the sorted ``key`` evenly.

    The keys are taken as a histogram with equally many rows per step. With fewer keys than partitions the splitters
    between two keys are interpolated.
    """
    steps = min(len(key), partitions)
    edge = np.arange(steps + 1, dtype=np.int64) * len(key) // steps
    # a step reaches up to the next one's first key, so that no splitter is lost in the gap between two steps
    maximum = np.append(key[edge[1:-1]], key[-1])
    return rap_table.adjust_splitters(np.diff(edge), key[edge[:-1]], maximum, partitions)
