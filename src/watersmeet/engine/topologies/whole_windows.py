"""One window for each side: what ``kang`` and ``panjoin`` have in common, and how they give results in portions.

*Without an order.* The left batch probes the right window. Pairs are gathered and returned a table at a time, while the
probe waits. Then the left batch is inserted, and the right batch does the same.

*With an order.* Of a pair the later row finds the earlier one. Rows probe in the order of arrival, as many at a time as
have pairs for one table. If rows of both batches arrive in turn, both batches are inserted first, and rows that came
after the probing row are excluded by number. The right number of rows can only be found by trying: a probe changes
nothing, so one that finds too many pairs is abandoned, and fewer rows probe again. Probing costs at most a few times
more. A single row's pairs are gathered in the order in which their rows arrived, a table at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Bools, Int64s
from watersmeet.columns.widths import cuts_at, same_width
from watersmeet.engine import result
from watersmeet.engine.intake import Slice
from watersmeet.engine.result import in_tables, pair_widths
from watersmeet.engine.row_numbers import numbers_of
from watersmeet.engine.topologies.contract import Layout, Topology, drained
from watersmeet.spec.expression import StreamName
from watersmeet.spec.ordering import Relaxed
from watersmeet.subwindow import contract
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.plan import OTHER_SIDE
from watersmeet.window.stream_window import Match, StreamWindow

__all__ = ["WholeWindows"]

FEWER: Final = 8
"""If rows have too many pairs, this many times fewer rows try again; if they have few, more rows follow."""


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
                found = self._layout.wanted(batch, self._windows[OTHER_SIDE[batch.side]].probe(batch))
                for matches in in_tables(batch, found):
                    yield self._layout.gather(batch, matches)
            self._insert(batch)

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
        begin, rows = 0, len(arrivals)
        while begin < len(arrivals):
            rows = min(rows, len(arrivals) - begin)
            probing = [_from_to(batch, arrivals[begin], arrivals[begin + rows - 1]) for batch in batches]
            found = self._earlier_rows(probing, fits=rows > 1)
            if found is None:
                rows = max(1, rows // FEWER)
                continue
            if rows == 1:
                for batch, matches in zip(probing, found.matches, strict=True):
                    yield from (
                        self._layout.gather(batch, some) for some in (_in_turn(batch, matches) if matches else ())
                    )
            else:
                yield [
                    table
                    for batch, matches in zip(probing, found.matches, strict=True)
                    for table in self._layout.gather(batch, matches)
                ]
            begin += rows
            if found.pairs * FEWER <= contract.PAIRS_AT_ONCE and found.nbytes * FEWER <= result.BYTES_AT_ONCE:
                rows *= FEWER

    def _earlier_rows(self, probing: Sequence[KeyedBatch], *, fits: bool) -> _Earlier | None:
        """Return the pairs of numbered rows with earlier ones; None if they must fit into a table and do not."""
        found = _Earlier()
        for batch in probing:
            matches = []
            numbers = numbers_of(batch.rows)
            for match in self._windows[OTHER_SIDE[batch.side]].probe(batch):
                kept = _kept(match, numbers_of(match.stored)[match.row] < numbers[match.who])
                if kept.count:
                    matches.append(kept)
                    found.pairs += kept.count
                    found.nbytes += int(same_width(pair_widths(batch, kept), len(kept.who)).sum())
                if fits and (found.pairs > contract.PAIRS_AT_ONCE or found.nbytes > result.BYTES_AT_ONCE):
                    return None
            found.matches.append(matches)
        return found


@dataclass(slots=True)
class _Earlier:
    """The pairs that batches find with earlier rows, and how much they are."""

    matches: list[list[Match]] = field(default_factory=list)
    pairs: int = 0
    nbytes: int = 0


def _from_to(batch: KeyedBatch, first: int, last: int) -> KeyedBatch:
    """Return the rows of a batch with the numbers from ``first`` to ``last``."""
    begin, end = np.searchsorted(numbers_of(batch.rows), (first, last + 1))
    return batch.slice(int(begin), int(end))


def _in_turn(batch: KeyedBatch, matches: list[Match]) -> Iterator[list[Match]]:
    """Yield the pairs of a single row, those of a table at a time, in the order in which their rows arrived."""
    arrived = [numbers_of(match.stored)[match.row] for match in matches]
    together = np.concatenate(arrived)
    order = np.argsort(together)
    widths = np.concatenate([same_width(pair_widths(batch, match), len(match.who)) for match in matches])
    for part in cuts_at(widths[order], result.BYTES_AT_ONCE):
        first, last = together[order[part.start]], together[order[part.stop - 1]]
        some = [_kept(match, (first <= own) & (own <= last)) for match, own in zip(matches, arrived, strict=True)]
        yield [match for match in some if match.count]


def _kept(match: Match, keep: Bools) -> Match:
    return match if keep.all() else Match(match.who[keep], match.stored, match.row[keep])
