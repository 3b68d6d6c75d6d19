"""One window for each side: what ``kang`` and ``panjoin`` have in common, and how they give results in portions.

*Without an order.* The left batch probes the right window. Pairs are gathered and returned a table at a time, while the
probe waits. Then the left batch is inserted, and the right batch does the same.

*With an order.* Of a pair the later row finds the earlier one. Rows probe in the order of arrival, as many at a time as
have pairs for one table. If rows of both batches arrive in turn, both batches are inserted first, and rows that came
after the probing row are excluded by number. The right number of rows can only be found by trying: a probe changes
nothing, so one that finds too many pairs is abandoned, and fewer rows probe again. Every pair is found once, and
probing costs at most a few times more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.engine.intake import Slice
from watersmeet.engine.result import pairs_at_once
from watersmeet.engine.row_numbers import numbers_of
from watersmeet.engine.topologies.contract import Layout, Topology, drained
from watersmeet.spec.expression import StreamName
from watersmeet.spec.ordering import Relaxed
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.plan import OTHER_SIDE
from watersmeet.window.stream_window import Match, StreamWindow

__all__ = ["WholeWindows"]

FEWER: Final = 8
"""If rows have too many pairs, this many times fewer rows try again; if they have few, more rows follow."""
FEW: Final = 1 << 10
"""Pairs that fit into nearly any table."""


class WholeWindows(Topology):
    """A topology with one window for each side."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._windows: dict[StreamName, StreamWindow] = {side: StreamWindow(layout.plan, side) for side in OTHER_SIDE}
        self._found: deque[pa.Table] = deque()
        self._met: dict[StreamName, int] = dict.fromkeys(OTHER_SIDE, 0)

    def settle(self) -> None:
        """Nothing moves."""

    def poll(self) -> list[pa.Table]:
        """Return what has been found, slice by slice."""
        return drained(self._found)

    def complete(self) -> dict[StreamName, int]:
        """Return how many rows have met."""
        return dict(self._met)

    def _have_met(self, part: Slice) -> None:
        """Take note that a slice's pairs have been found."""
        for batch in (part.left, part.right):
            self._met[batch.side] += len(batch)

    def windows(self, side: StreamName) -> Sequence[StreamWindow]:
        """Return the one window of a side."""
        return [self._windows[side]]

    def load(self, side: StreamName, rows: pa.RecordBatch, sequence: Int64s | None) -> None:
        """Add a segment of saved rows."""
        self._windows[side].load(rows, sequence)

    def in_portions(self, part: Slice, order: Relaxed | None) -> Iterator[list[pa.Table]]:
        """Join a slice; yield the pairs a table at a time."""
        yield from self._as_found(part) if order is None else self._by_arrival(part)
        self._have_met(part)

    def _as_found(self, part: Slice) -> Iterator[list[pa.Table]]:
        """Let each batch probe, and then insert it; yield the pairs a table at a time, other forms at once."""
        for batch in (part.left, part.right):
            if self._layout.form is not None:
                yield self._layout.results(self._windows[OTHER_SIDE[batch.side]], batch)
            else:
                for matches in self._tables_of(batch):
                    yield self._layout.gather(batch, matches)
            self._insert(batch)

    def _tables_of(self, batch: KeyedBatch) -> Iterator[list[Match]]:
        """Yield the pairs that a batch finds, those of a table at a time."""
        some: list[Match] = []
        count, most = 0, 0
        for match in self._windows[OTHER_SIDE[batch.side]].probe(batch):
            some.append(match)
            count += len(match.who)
            if count <= FEW:
                continue
            most = most or self._pairs_at_once(batch)
            while count > most:
                first, some = _split(some, most)
                count -= most
                yield first
        if count:
            yield some

    def _pairs_at_once(self, batch: KeyedBatch) -> int:
        window = self._windows[OTHER_SIDE[batch.side]]
        stored = sum(segment.payload.nbytes for segment in window.segments) // max(1, window.rows)
        return pairs_at_once(stored + batch.rows.nbytes // max(1, len(batch)))

    def _by_arrival(self, part: Slice) -> Iterator[list[pa.Table]]:
        """Let every row, in the order of arrival, find the rows before it; insert both batches."""
        left, right = part.left, part.right
        if len(left) and len(right) and numbers_of(left.rows)[-1] > numbers_of(right.rows)[0]:
            self._insert(left)
            self._insert(right)
            yield from self._finding_earlier(left, right)
        else:
            for batch in (left, right):
                yield from self._finding_earlier(batch)
                self._insert(batch)

    def _insert(self, batch: KeyedBatch) -> None:
        """Insert a batch; the window creates a segment if the newest is full."""
        self._windows[batch.side].insert(batch, self._windows[OTHER_SIDE[batch.side]])

    def _finding_earlier(self, *batches: KeyedBatch) -> Iterator[list[pa.Table]]:
        arrivals = np.sort(np.concatenate([numbers_of(batch.rows) for batch in batches]))
        most = min(map(self._pairs_at_once, batches))
        begin, rows = 0, len(arrivals)
        while begin < len(arrivals):
            rows = min(rows, len(arrivals) - begin)
            probing = [_from_to(batch, arrivals[begin], arrivals[begin + rows - 1]) for batch in batches]
            found = self._earlier_rows(probing, most if rows > 1 else None)
            if found is None:
                rows = max(1, rows // FEWER)
                continue
            yield [
                table
                for batch, matches in zip(probing, found, strict=True)
                for table in self._layout.gather(batch, matches)
            ]
            begin += rows
            pairs = sum(len(match.who) for matches in found for match in matches)
            if pairs * FEWER <= most:
                rows *= FEWER

    def _earlier_rows(self, probing: Sequence[KeyedBatch], most: int | None) -> list[list[Match]] | None:
        """Return the pairs of numbered rows with earlier ones, or None if there are more than ``most``."""
        found: list[list[Match]] = []
        count = 0
        for batch in probing:
            matches = []
            numbers = numbers_of(batch.rows)
            for match in self._windows[OTHER_SIDE[batch.side]].probe(batch):
                keep = numbers_of(match.stored)[match.row] < numbers[match.who]
                kept = int(np.count_nonzero(keep))
                count += kept
                if kept:
                    all_kept = kept == len(keep)
                    matches.append(match if all_kept else Match(match.who[keep], match.stored, match.row[keep]))
                if most is not None and count > most:
                    return None
            found.append(matches)
        return found


def _from_to(batch: KeyedBatch, first: int, last: int) -> KeyedBatch:
    """Return the rows of a batch with the numbers from ``first`` to ``last``."""
    begin, end = np.searchsorted(numbers_of(batch.rows), (first, last + 1))
    return batch.slice(int(begin), int(end))


def _split(matches: list[Match], at: int) -> tuple[list[Match], list[Match]]:
    """Return the first ``at`` pairs, and the rest."""
    whole: list[Match] = []
    for match in matches:
        if len(match.who) > at:
            first = Match(match.who[:at], match.stored, match.row[:at])
            rest = Match(match.who[at:], match.stored, match.row[at:])
            return [*whole, first] if at else whole, [rest, *matches[len(whole) + 1 :]]
        whole.append(match)
        at -= len(match.who)
    return whole, []
