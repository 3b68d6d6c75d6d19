"""One link of a window's chain: rows, their index, and the extents of their places and keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int32s, Int64s
from watersmeet.subwindow import contract
from watersmeet.subwindow.choose import Choice, follow_keys
from watersmeet.subwindow.contract import (
    Entries,
    Matches,
    Pairs,
    Ranges,
    Subwindow,
    count_matches,
    pairs_of,
)
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.edge import Edge
from watersmeet.window.expiry import Departed
from watersmeet.window.payload import Extent, Payload

__all__ = ["SavedSegment", "Segment", "expanded"]

MOST_EDGES: Final = 4
"""Arrays of a segment that merge change with every insertion, so few edges are worth keeping."""

SavedSegment = tuple[pa.RecordBatch, Int64s | None]
"""Rows of a segment; in a count window with their arrival numbers."""


@dataclass(slots=True)
class Segment:
    """Rows and their index. ``place`` spans timestamps (time windows) or arrival numbers (count windows)."""

    choice: Choice
    index: Subwindow
    capacity: int
    payload: Payload
    began: int = 0
    """The newest place of the window before its first row: from there on it advances."""
    place: Extent = field(default_factory=Extent)
    keys: Extent = field(default_factory=Extent)
    others: tuple[Segment, ...] = ()
    """The same rows in other orders: one for every branch of a disjunction after the first."""
    _edges: tuple[Edge, ...] = ()
    """Of sorted arrays that reach across the window's edge."""

    @property
    def rows(self) -> int:
        """Rows ever stored here."""
        return self.payload.appended

    @property
    def advance(self) -> int:
        """How far its newest row lies ahead of all before it; its oldest may have come late, from far behind these."""
        return self.place.high - self.began

    def insert(self, batch: KeyedBatch) -> None:
        """Store a batch (not empty)."""
        for other in self.others:
            other.enter(batch.entries(other.choice.order, self.rows))
        self.store(batch.entries(self.choice.order, self.rows), batch.rows, batch.arrival, batch.place())

    def store(self, entries: Entries, rows: pa.RecordBatch, arrival: Arrival | None, place: Extent) -> None:
        """Store rows (at least one) whose sorted keys are known already."""
        self.enter(entries)
        self.place.include(place)
        self.payload.append(rows, arrival, place, entries.team)

    def enter(self, entries: Entries) -> None:
        """Put rows (at least one) into the index; they are stored elsewhere."""
        self.index.insert(entries)
        self.choice, self.index = follow_keys(self.choice, self.index)
        if entries.equality is None:
            self.keys.include(Extent(int(entries.key[0]), int(entries.key[-1])))

    def save(self) -> list[SavedSegment]:
        """Return all rows held, as one batch unless they are too many bytes; in a count window with their numbers."""
        return [(rows, None if numbers is None else numbers[0]) for rows, numbers in self.payload.save()]

    def seal(self) -> None:
        """Finish the segment: no more rows will be stored in it."""
        for part in (self, *self.others):
            part.index.seal()
        self.payload.seal()

    def expire(self, before: int) -> list[Departed]:
        """Drop the steps whose rows all lie before ``before``; return these rows."""
        left = self.payload.expire(before) if self.place.low < before else []
        if left:
            self.place = self.payload.place
        return left

    def probe(self, batch: KeyedBatch) -> Iterator[Pairs]:
        """Yield the candidates that the index finds, a bounded number at a time."""
        return expanded(self.find(batch))

    def find(self, batch: KeyedBatch) -> Iterator[Matches]:
        """Yield the candidates as the index finds them."""
        order = self.choice.order
        for probes in batch.probes(order):
            if probes.equality is None and (int(probes.lo[0]) > self.keys.high or int(probes.hi[-1]) < self.keys.low):
                continue
            yield from self.index.probe(probes)

    def edge(self, order: Int32s, places: Callable[[], Int64s]) -> Edge:
        """Return the edge in a sorted array of this segment; ``places`` computes those of all rows."""
        for edge in self._edges:
            if edge.order is order:
                return edge
        new = Edge(order, places(), self.dropped)
        self._edges = (*self._edges[1 - MOST_EDGES :], new)
        return new

    @property
    def dropped(self) -> int:
        """The number of the first row still held: those before it have expired, and the index still finds them."""
        return self.payload.appended - self.payload.held

    @property
    def nbytes(self) -> int:
        """Bytes held by indexes and rows."""
        indexes = sum(part.index.nbytes for part in (self, *self.others))
        return indexes + sum(edge.nbytes for edge in self._edges) + self.payload.nbytes


def expanded(found: Iterator[Matches]) -> Iterator[Pairs]:
    """Yield matches as index pairs, few of them together and at most a bounded number: each costs some Python."""
    together: list[Matches] = []
    for matches in (part for some in found for part in _bounded(some)):
        if together and count_matches(together) + matches.count > contract.PAIRS_AT_ONCE:
            yield pairs_of(together)
            together = []
        together.append(matches)
    if together:
        yield pairs_of(together)


def _bounded(matches: Matches) -> Iterator[Matches]:
    """Split matches that would be too many index pairs."""
    if isinstance(matches, Pairs) or matches.count <= contract.PAIRS_AT_ONCE:
        yield matches
        return
    totals = np.cumsum(matches.end - matches.start)
    cuts = np.searchsorted(
        totals, np.arange(contract.PAIRS_AT_ONCE, matches.count, contract.PAIRS_AT_ONCE), "right"
    ).tolist()
    borders = [0, *cuts, len(totals)]
    for begin, end in pairwise(borders):
        if end > begin:
            before = int(totals[begin - 1]) if begin else 0
            part = slice(begin, end)
            count = int(totals[end - 1]) - before
            yield Ranges(matches.start[part], matches.end[part], count, matches.who[part], matches.row)
