"""Scan: rows as they come, and a nested loop over all of them.

The papers' baseline and our naive structure: too simple to be wrong, so the other structures can be held against it.
Rows are appended to two arrays that grow geometrically. No order, no index, no memory beyond the rows.

Cost. Insert: a copy. Probe: stored * probes comparisons (vectorised and cache-blocked,
:mod:`watersmeet.kernels.scan`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels import scan, sorted_run
from watersmeet.subwindow import contract
from watersmeet.subwindow.contract import Entries, Matches, Pairs, Probes

__all__ = ["Scan", "scanned_pairs", "sorted_entries"]

FIRST_ROWS = 1024


def sorted_entries(key: Int64s, row: Int32s) -> Entries:
    """Return unsorted rows as sorted entries."""
    order = sorted_run.sort_keys(key, np.arange(len(key), dtype=np.int32))
    return Entries(key[order], row[order])


def scanned_pairs(key: Int64s, row: Int32s, probes: Probes) -> Iterator[Pairs]:
    """Yield the pairs of some probes (at least one) with rows in any order, a bounded number at once."""
    at = 0
    while at >= 0:
        pair_who, pair_row, at = scan.nested_loop(
            key, row, probes.lo, probes.hi, probes.who, at, contract.PAIRS_AT_ONCE
        )
        if len(pair_who):
            yield Pairs(pair_who, pair_row)


class Scan:
    """An unsorted subwindow that answers by comparing everything with everything.

    Parameters
    ----------
    capacity
        The most rows that will ever be inserted.
    predecessor
        The subwindow before this one; a scan has nothing to learn from it.
    """

    supports_groups: ClassVar[bool] = False
    equality_only: ClassVar[bool] = False
    fixed_capacity: ClassVar[bool] = False
    scans: ClassVar[bool] = True

    def __init__(self, capacity: int, predecessor: Scan | None = None) -> None:  # noqa: ARG002 -- the shared signature
        rows = max(1, min(capacity, FIRST_ROWS))
        self._key = np.empty(rows, np.int64)
        self._row = np.empty(rows, np.int32)
        self._size = 0

    def insert(self, entries: Entries) -> None:
        """Append a batch."""
        self._key = scan.reserve(self._key, self._size, len(entries))
        self._row = scan.reserve(self._row, self._size, len(entries))
        end = self._size + len(entries)
        self._key[self._size : end] = entries.key
        self._row[self._size : end] = entries.row
        self._size = end

    def probe(self, probes: Probes) -> Iterator[Matches]:
        """Yield all matches of a batch of probes."""
        if self._size and len(probes):
            yield from scanned_pairs(self._key[: self._size], self._row[: self._size], probes)

    def seal(self) -> None:
        """Give back the room left for growth."""
        self._key = self._key[: self._size].copy()
        self._row = self._row[: self._size].copy()

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self._key.nbytes + self._row.nbytes

    def snapshot(self) -> Entries:
        """Return every stored row, sorted."""
        return sorted_entries(self._key[: self._size], self._row[: self._size])
