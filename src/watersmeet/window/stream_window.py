"""One stream's sliding window: a chain of segments in the order of arrival (PanJoin, section III-A).

- *create*: a segment begins when the newest has no more room (see :mod:`watersmeet.window.creation`).
- *insert*: new rows go to the newest segment only.
- *probe*: a batch of the other stream probes every segment that it can match; candidates are verified (see
  :mod:`watersmeet.window.verify`).
- *expire*: the oldest segment is dropped when no row to come can meet any of its rows; its rows expire earlier, in
  steps.

Invariant: a probe gives exactly the rows that satisfy predicate and window. Rows that have expired in a segment that
has not are excluded by a check of the window, which only segments at an edge of the window need.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int32s, Int64s
from watersmeet.columns.keys import have_ends
from watersmeet.spec.expression import StreamName
from watersmeet.subwindow.contract import Matches, Pairs, Ranges
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.creation import Creator, Neighbours
from watersmeet.window.edge import pays
from watersmeet.window.expiry import Departed
from watersmeet.window.payload import Extent, Stored
from watersmeet.window.plain_rows import PlainRows
from watersmeet.window.plan import JoinPlan
from watersmeet.window.range_match import RangeMatch, complements
from watersmeet.window.sample import sample_rows
from watersmeet.window.segment import Segment, expanded
from watersmeet.window.together import can_meet_together, meet_together
from watersmeet.window.verify import Candidates, Verifier

__all__ = ["Match", "StreamWindow"]


@dataclass(frozen=True, slots=True)
class Match:
    """Verified pairs: row ``who[i]`` of the probing batch meets row ``row[i]`` of ``stored``."""

    who: Int32s
    stored: pa.RecordBatch
    row: Int32s
    source: Stored | None = None
    """What may free the memory of ``stored`` later; None: nothing does."""

    @property
    def count(self) -> int:
        """Pairs."""
        return len(self.who)


def _matches(candidates: Iterator[Candidates]) -> Iterator[Match]:
    return (Match(pairs.who, stored.rows, pairs.row, stored) for stored, pairs in candidates)


class StreamWindow:
    """The window of one side of a join."""

    def __init__(self, plan: JoinPlan, side: StreamName) -> None:
        self.plan = plan
        self.side = side
        self.segments: deque[Segment] = deque()
        self._creator = Creator(plan, side)
        self._verifier = Verifier(plan, side)
        self._newest: KeyedBatch | None = None

    @property
    def rows(self) -> int:
        """Rows held."""
        return sum(segment.payload.held for segment in self.segments)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(segment.nbytes for segment in self.segments)

    # --- create, insert -----------------------------------------------------------------------------------------------

    def announce(self, batch: KeyedBatch) -> None:
        """Sample this batch from now on; it will be inserted later."""
        self._newest = batch

    def insert(self, batch: KeyedBatch, other: StreamWindow | None) -> None:
        """Store a batch of this side's rows; ``other`` is sampled, if it is known, when a segment is created."""
        self._newest = batch
        if len(batch) == 0:
            return
        segment = self.segments[-1] if self.segments else None
        if segment is None or not self._creator.has_room(segment, batch):
            segment = self._create(batch, other, in_chunks=False)
        segment.insert(batch)

    def append(self, batch: KeyedBatch, other: StreamWindow | None) -> Segment:
        """Store a batch (not empty) as a segment of its own, and return the segment; ``other`` is sampled if known."""
        self._newest = batch
        return self._append(batch, other)

    def _append(self, batch: KeyedBatch, other: StreamWindow | None) -> Segment:
        segment = self._create(batch, other, in_chunks=True)
        segment.insert(batch)
        return segment

    def _create(self, batch: KeyedBatch, other: StreamWindow | None, *, in_chunks: bool) -> Segment:
        assert other is None or other.side != self.side, "a window is not its own opposite: its columns are others"
        newest, opposite = (window.segments[-1] if window and window.segments else None for window in (self, other))
        if newest is not None:
            newest.seal()
        beside = Neighbours(self.rows, newest, opposite, None if other is None else other.sample())
        segment = self._creator.create(batch, beside, in_chunks=in_chunks)
        self.segments.append(segment)
        return segment

    def sample(self) -> pa.RecordBatch | None:
        """Return some of the newest rows, or None if there have been none."""
        if self._newest is not None and len(self._newest):
            return sample_rows(self._newest.rows)
        return sample_rows(self.segments[-1].payload.newest) if self.segments else None

    # --- probe --------------------------------------------------------------------------------------------------------

    def probe(self, batch: KeyedBatch, segments: int | None = None) -> Iterator[Match]:
        """Yield every stored row that meets a row of ``batch``, a batch of the other side.

        Only the oldest ``segments`` are looked at, if their number is given.
        """
        reached = list(self._reached(batch, segments))
        if self._can_meet_together(reached, batch):
            yield from self._met_together(reached, batch)
            return
        candidates: Iterator[Candidates] = (
            some for segment, inside in reached for some in self._candidates(segment, batch, inside=inside)
        )
        if self.plan.residual is not None:
            candidates = self._verifier.satisfying(self.plan.residual, candidates, batch)
        yield from _matches(candidates)

    @property
    def shares_work(self) -> bool:
        """Whether a batch that probes all segments is carried out by its team."""
        return self.plan.residual is None and can_meet_together(self.segments)

    def _can_meet_together(self, reached: Sequence[tuple[Segment, bool]], batch: KeyedBatch) -> bool:
        """Tell whether nothing but keys and arrival numbers decides about the pairs with these segments."""
        if self.plan.residual is not None or not can_meet_together([segment for segment, _ in reached]):
            return False
        return not any(self._is_beyond_keys(segment, batch) for segment, _ in reached)

    def _met_together(self, reached: Sequence[tuple[Segment, bool]], batch: KeyedBatch) -> Iterator[Match]:
        for segment, inside, found in meet_together(self._verifier, reached, batch):
            if isinstance(found, Ranges):
                yield from _matches(self._verified(segment, segment, expanded(iter([found])), batch, inside=inside))
            else:
                stored = segment.payload
                assert isinstance(stored, PlainRows), "of rows in chunks a segment has no numbers"
                yield Match(found.who, stored.rows, found.row, stored)

    def find(self, batch: KeyedBatch) -> Iterator[Match | RangeMatch]:
        """Yield what :meth:`probe` does: as ranges, where the index answers with them and leaves nothing to verify.

        What reaches across the window's edge is counted row by row only where its rows are few.
        """
        if self.plan.residual is not None:
            yield from self.probe(batch)
            return
        for segment, inside in self._reached(batch, None):
            order = segment.choice.order
            is_verified = segment.others or self._is_beyond_keys(segment, batch)
            if is_verified or self._verifier.checks(order, (), window_holds=True):
                yield from _matches(self._candidates(segment, batch, inside=inside))
                continue
            crosses = self._crosses_edge(segment, inside=inside)
            wide: list[Ranges] = []
            few = self._few(segment, batch, wide, crosses=crosses)
            yield from _matches(self._verified(segment, segment, expanded(few), batch, inside=inside))
            for ranges, but in complements(wide, len(batch)):
                if crosses:
                    yield self._inside_edge(segment, batch, ranges, but=but)
                else:
                    yield RangeMatch(ranges, segment.payload, but, ranges.count)

    def _few(self, segment: Segment, batch: KeyedBatch, wide: list[Ranges], *, crosses: bool) -> Iterator[Matches]:
        """Yield the candidates that are verified one by one; add to ``wide`` those that are not."""
        can_count = crosses and self._lies_before(segment, batch)
        sealed = segment is not self.segments[-1]
        for found in segment.find(batch):
            if isinstance(found, Ranges) and (not crosses or (can_count and pays(found, sealed=sealed))):
                wide.append(found)
            else:
                yield found

    def _crosses_edge(self, segment: Segment, *, inside: bool) -> bool:
        """Tell whether the index may find rows of a segment that lie outside of the window."""
        is_indexed = self.plan.time is not None and segment.choice.order.key == self.plan.time
        return not is_indexed and (not inside or segment.dropped > 0)

    def _lies_before(self, segment: Segment, batch: KeyedBatch) -> bool:
        """Tell whether no row of the segment is too late for a row of the batch: then only early ones leave."""
        return segment.place.high <= batch.reach()[1].low

    def _inside_edge(self, segment: Segment, batch: KeyedBatch, found: Ranges, *, but: bool) -> RangeMatch:
        """Return ranges with the number of their rows inside the window."""
        bound = batch.earliest()
        edge = segment.edge(found.row, partial(self._places, segment))
        counts, count = edge.count(found, bound, segment.dropped, but=but)
        return RangeMatch(found, segment.payload, but, count, counts, bound, edge.places)

    def _places(self, segment: Segment) -> Int64s:
        """Return the places of a segment's rows, by their numbers."""
        first, *rest = segment.payload.stored()
        places = [self._verifier.places(stored) for _, stored in (first, *rest)]
        if first[0] == 0 and not rest:
            return places[0]
        return np.concatenate([np.zeros(first[0], np.int64), *places])

    def _reached(self, batch: KeyedBatch, segments: int | None) -> Iterator[tuple[Segment, bool]]:
        """Yield the segments that a batch can meet, and whether the window certainly holds for all pairs."""
        if len(batch) == 0:
            return
        for segment in islice(self.segments, segments):
            inside = self._inside(segment, batch)
            if inside is not None:
                yield segment, inside

    def _candidates(self, segment: Segment, batch: KeyedBatch, *, inside: bool) -> Iterator[Candidates]:
        """Yield the pairs with a segment's rows that satisfy the window and all of the predicate but the residual."""
        for branch, part in enumerate((segment, *segment.others)):
            yield from self._verified(segment, part, part.probe(batch), batch, inside=inside, branch=branch)

    def _verified(
        self,
        segment: Segment,
        part: Segment,
        found: Iterator[Pairs],
        batch: KeyedBatch,
        *,
        inside: bool,
        branch: int = 0,
    ) -> Iterator[Candidates]:
        """Yield what is left of candidates that a part of a segment, its index for a branch, has found."""
        order = part.choice.order
        own_axes = self.plan.branch_numbers[branch] if segment.others else ()
        checks = [(axis, order.borders) for axis in self._verifier.checks(order, own_axes, window_holds=inside)]
        is_beyond_keys = self._is_beyond_keys(segment, batch)
        for pairs in found:
            for stored, who, row in segment.payload.split(pairs.who, pairs.row):
                left = self._verifier.checked(stored, Pairs(who, row), batch, checks, window_holds=inside)
                if is_beyond_keys:
                    left = self._verifier.met_in_time(stored, left, batch)
                left = self._verifier.not_found_before(stored, left, batch, branch, order.borders)
                if left.count:
                    yield stored, left

    def _is_beyond_keys(self, segment: Segment, batch: KeyedBatch) -> bool:
        """Tell whether some timestamp may lie beyond its key, as those of two units may."""
        if self.plan.time is None:
            return False
        stored, probing = segment.place, batch.place()
        return have_ends(stored.low, stored.high) or have_ends(probing.low, probing.high)

    def _inside(self, segment: Segment, batch: KeyedBatch) -> bool | None:
        """Tell whether the window certainly holds for all pairs of segment and batch; None if it holds for none."""
        earliest, latest = batch.reach()
        place = segment.place
        if self.plan.time is None:  # a stored row may be the later one, and then it meets rows beyond the reach
            latest = Extent(latest.low, max(latest.high, place.high))
        if place.high < earliest.low or place.low > latest.high:
            return None
        return place.low >= earliest.high and place.high <= latest.low

    # --- expire, load ------------------------------------------------------------------------------------------------

    def expire(self, before: int) -> list[Departed]:
        """Drop rows that lie before ``before``, a time or a number, in whole steps; return the rows that have left."""
        left: list[Departed] = []
        while self.segments and self.segments[0].place.high < before:
            left += self.segments.popleft().expire(before)
        if self.segments:
            left += self.segments[0].expire(before)
        return left

    def load(self, rows: pa.RecordBatch, sequence: Int64s | None) -> None:
        """Add a segment of saved rows."""
        # How many rows of the other stream had come before no longer matters: every row to come arrives after these.
        arrival = None if sequence is None else Arrival(sequence, sequence)
        self._append(KeyedBatch(self.plan, self.side, rows, arrival), None)
