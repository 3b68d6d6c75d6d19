"""One stream's sliding window: a chain of segments in the order of arrival (PanJoin, section III-A).

- *create*: a segment begins when the newest one spans half the window (and is worth an index of its own), or is full.
  How it is indexed is decided then, by :mod:`watersmeet.subwindow.choose`, from samples of both streams.
- *insert*: new rows go to the newest segment only.
- *probe*: a batch of the other stream looks into every segment that it can match; candidates are verified.
- *expire*: the oldest segment goes as a whole once no row to come can meet any of its rows; its rows even before, in
  steps.

Invariant: a probe gives exactly the rows that satisfy predicate and window. Rows that are past the window but in a
segment that is not, are excluded by the window's own check, which only segments cut by an edge of the window need.

Cost of verifying. Conditions on keys are checked by kernels, the residual in Python: so keys narrow what an index finds
as far as they can, and what is left of all segments is checked at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.columns.keys import Borders, axis_keys
from watersmeet.columns.values import is_true
from watersmeet.kernels.keys import keep_pairs_in_count_window, keep_pairs_in_ranges
from watersmeet.kernels.pairs import compress_pairs
from watersmeet.spec.expression import Column, Predicate, Side
from watersmeet.subwindow.choose import STRUCTURES, Choice, IndexOrder, choose, create, order_fraction
from watersmeet.subwindow.contract import Pairs
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.expiry import Departed
from watersmeet.window.payload import ChunkedRows, Extent, Payload, Stored, extent_of, one_array
from watersmeet.window.plain_rows import PlainRows, can_be_plain
from watersmeet.window.plan import OTHER_SIDE, JoinPlan
from watersmeet.window.sample import choose_borders, key_fractions, sample_rows
from watersmeet.window.segment import Segment

__all__ = ["Match", "StreamWindow"]

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

SEGMENTS_PER_WINDOW: Final = 2
"""A probe searches every segment, so few are better; rows expire in smaller steps than their index."""
CHUNKS_PER_SEGMENT: Final = 4
"""Steps in which a segment's rows expire: a window holds at most 1/8 more rows, and 1/2 more index, than it needs."""
STEPS_PER_SEGMENT: Final = 32
"""The same for plain columns, whose steps cost a probe nothing: at most 1/64 more rows."""
SMALLEST_SEGMENT: Final = 1 << 14
LARGEST_SEGMENT: Final = 1 << 26
LARGEST_STEP: Final = 1 << 20
ROWS_PER_CANDIDATE: Final = 4
"""With fewer candidates than one in so many stored rows the residual alone is cheaper than keys for all of them."""
BRANCH_GAIN: Final = 4
"""How many times fewer candidates than one order the branches of a disjunction must leave, to have an index each."""
CHECKED_TOGETHER: Final = 1 << 16
"""Candidates, of several segments, that are checked by the residual at once."""


@dataclass(frozen=True, slots=True)
class Match:
    """Verified pairs: row ``who[i]`` of the probing batch meets row ``row[i]`` of ``stored``."""

    who: Int32s
    stored: pa.RecordBatch
    row: Int32s


Candidates = tuple[Stored, Pairs]
"""Pairs of rows of a probing batch and rows of a piece."""


class StreamWindow:
    """The window of one side of a join."""

    def __init__(self, plan: JoinPlan, side: Side) -> None:
        self.plan = plan
        self.side = side
        self.length = plan.length(side)
        self.segments: deque[Segment] = deque()
        self._newest: KeyedBatch | None = None

    @property
    def rows(self) -> int:
        """Rows held."""
        return sum(segment.payload.held for segment in self.segments)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(segment.nbytes for segment in self.segments)

    def announce(self, batch: KeyedBatch) -> None:
        """Take note of a batch that will be inserted: it is what is sampled from now on."""
        self._newest = batch

    def insert(self, batch: KeyedBatch, other: StreamWindow | None) -> None:
        """Store a batch of this side's rows; ``other``, if it is known, is sampled when a segment has to be created."""
        self._newest = batch
        if len(batch) == 0:
            return
        place = self.place_of(batch)
        segment = self.segments[-1] if self.segments else None
        if segment is None or not self._has_room(segment, batch):
            segment = self._create(batch, place, other, self._payload(batch))
        segment.insert(batch, place)

    def probe(self, batch: KeyedBatch) -> Iterator[Match]:
        """Yield every stored row that meets a row of ``batch``, a batch of the other side."""
        candidates = self._candidates(batch)
        if self.plan.residual is not None:
            candidates = self._satisfying(self.plan.residual, candidates, batch)
        for stored, pairs in candidates:
            yield Match(pairs.who, stored.rows, pairs.row)

    def expire(self, before: int) -> list[Departed]:
        """Drop the oldest segments whose rows all lie before ``before``, a time or a number; return what has left."""
        left: list[Departed] = []
        while self.segments and self.segments[0].place.high < before:
            left += self.segments.popleft().expire(before)
        if self.segments:
            left += self.segments[0].expire(before)
        return left

    def save(self) -> list[tuple[pa.RecordBatch, Int64s | None]]:
        """Return the rows of each segment, with their arrival numbers in a count window."""
        return [segment.save() for segment in self.segments]

    def load(self, rows: pa.RecordBatch, sequence: Int64s | None) -> None:
        """Add a segment of saved rows."""
        # What these rows had seen of the other stream no longer matters: every row to come arrives after them.
        arrival = None if sequence is None else Arrival(sequence, sequence)
        self._append(KeyedBatch(self.plan, self.side, rows, arrival), None)

    def append(self, batch: KeyedBatch, other: StreamWindow | None) -> Segment:
        """Store a batch (not empty) as a segment of its own, and return that; ``other`` is sampled if it is known."""
        self._newest = batch
        return self._append(batch, other)

    # --- create -----------------------------------------------------------------------------------------------------

    def _append(self, batch: KeyedBatch, other: StreamWindow | None) -> Segment:
        place = self.place_of(batch)
        # In chunks: the rows stay where they are, be it in a file mapped to memory.
        segment = self._create(batch, place, other, ChunkedRows(self._step_rows(CHUNKS_PER_SEGMENT)))
        segment.insert(batch, place)
        return segment

    def place_of(self, batch: KeyedBatch) -> Extent:
        """Return where a batch lies in what the window is measured in: timestamps or arrival numbers."""
        if self.plan.time is not None:
            places = batch.key(self.plan.time)
        else:
            assert batch.arrival is not None
            places = batch.arrival.sequence
        return extent_of(places)

    def _has_room(self, segment: Segment, batch: KeyedBatch) -> bool:
        if segment.rows + len(batch) > segment.capacity:
            return False
        if segment.rows < SMALLEST_SEGMENT:
            return True
        return segment.place.high - segment.place.low < self.length // SEGMENTS_PER_WINDOW

    def _create(self, batch: KeyedBatch, place: Extent, other: StreamWindow | None, payload: Payload) -> Segment:
        predecessor = self.segments[-1] if self.segments else None
        if predecessor is not None:
            predecessor.seal()
        choices = self._choose(batch, place, other)
        capacity = min(self._capacity(len(batch), choice, predecessor) for choice in choices)
        before = [] if predecessor is None else [part.index for part in (predecessor, *predecessor.others)]
        first, *rest = (
            Segment(choice, create(choice, capacity, learnt_from), capacity, payload)
            for choice, learnt_from in zip_longest(choices, before[: len(choices)])
        )
        first.others = tuple(rest)
        self.segments.append(first)
        return first

    def _capacity(self, batch_rows: int, choice: Choice, predecessor: Segment | None) -> int:
        """Return how many rows the next segment may hold: structures with a fixed table are made for that many."""
        if not STRUCTURES[choice.structure].fixed_capacity:
            return max(LARGEST_SEGMENT, batch_rows)
        if self.plan.time is None:
            expected = max(SMALLEST_SEGMENT, self.length // SEGMENTS_PER_WINDOW)
        elif predecessor is None:
            expected = 4 * SMALLEST_SEGMENT
        else:  # rows of the last quarter of the window, or twice as many if those did not reach that far
            short = predecessor.place.high - predecessor.place.low < self.length // SEGMENTS_PER_WINDOW
            expected = max(SMALLEST_SEGMENT, 2 * predecessor.rows if short else predecessor.rows * 5 // 4)
        return min(LARGEST_SEGMENT, max(2 * batch_rows, expected))

    def _payload(self, batch: KeyedBatch) -> Payload:
        """Return where the rows of the next segment will be held, a batch of them first."""
        schema = batch.rows.schema
        if not can_be_plain(schema):
            return ChunkedRows(self._step_rows(CHUNKS_PER_SEGMENT))
        reserve = 2 * len(batch) if not self.segments else len(batch) + self.segments[-1].rows * 9 // 8
        return PlainRows(schema, self._step_rows(STEPS_PER_SEGMENT), reserve)

    def _step_rows(self, steps: int) -> int:
        """Return in steps of how many rows the next segment's rows expire."""
        if self.plan.time is None:
            expected = self.length // SEGMENTS_PER_WINDOW
        else:
            expected = self.segments[-1].rows if self.segments else LARGEST_SEGMENT
        return min(LARGEST_STEP, max(SMALLEST_SEGMENT, expected // steps))

    def _choose(self, batch: KeyedBatch, place: Extent, other: StreamWindow | None) -> list[Choice]:
        """Ask for a decision, with what samples of both streams show: one order, or one for each branch."""
        plan = self.plan
        own = sample_rows(batch.rows)
        assert other is None or other.side != self.side, "a window is not its own opposite: its columns are others"
        opposite = None if other is None else other.sample()
        used = [window.segments[-1].choice.order.borders for window in (self, other) if window and window.segments]
        borders = choose_borders(plan.every_axis, self.side, own, opposite, plan.schemas, used=used)
        fractions = {
            number: key_fractions(axis, self.side, own, opposite, plan.schemas, borders=borders)
            for number, axis in enumerate(plan.every_axis)
        }
        if plan.time is not None:
            reach = plan.length("left") + plan.length("right")
            fractions[plan.time] = min(1.0, reach / max(1, self._expected_span(len(batch), place)))
        choices = [
            choose(
                plan.structure,
                {number: plan.every_axis[number] for number in (*range(len(plan.axes)), *own_axes)},
                plan.time,
                fractions,
                batch_rows=len(batch),
                window_rows=max(self.rows, len(batch)),
                growing_keys=self._is_growing(batch),
            )
            for own_axes in ((), *plan.branch_numbers)
        ]
        whole, *each = (order_fraction(choice.order, fractions) for choice in choices)
        choices = choices[1:] if each and BRANCH_GAIN * sum(each) < whole else choices[:1]
        if not borders:
            return choices
        because = "keys of text begin behind what texts next to each other share"
        return [
            Choice(choice.structure, replace(choice.order, borders=borders), f"{choice.reason}; {because}")
            for choice in choices
        ]

    def _expected_span(self, rows: int, place: Extent) -> int:
        """Return how much time a segment that begins with this batch will probably span."""
        span = place.high - place.low
        return max(span, self.length // SEGMENTS_PER_WINDOW, span * SMALLEST_SEGMENT // rows)

    def _is_growing(self, batch: KeyedBatch) -> bool:
        """Tell whether the batch's keys lie above nearly all of the last segment's."""
        if not self.segments:
            return False
        last = self.segments[-1]
        if last.choice.order.key is None:
            return False
        tenth = (last.keys.high - last.keys.low) // 10
        return int(batch.key(last.choice.order.key, last.choice.order.borders).min()) > last.keys.high - tenth

    def sample(self) -> pa.RecordBatch | None:
        """Return some of the newest rows, or None when none has come yet."""
        if self._newest is not None and len(self._newest):
            return sample_rows(self._newest.rows)
        return sample_rows(self.segments[-1].payload.newest) if self.segments else None

    # --- verify -----------------------------------------------------------------------------------------------------

    def _candidates(self, batch: KeyedBatch) -> Iterator[Candidates]:
        """Yield the pairs for which the window holds, and all of the predicate that is not in the residual."""
        if len(batch) == 0:
            return
        for segment in self.segments:
            inside = self._inside(segment, batch)
            if inside is None:
                continue
            for branch, part in enumerate((segment, *segment.others)):
                own_axes = self.plan.branch_numbers[branch] if segment.others else ()
                order = part.choice.order
                checks = [(axis, order.borders) for axis in self._checks(order, own_axes, window_holds=inside)]
                for pairs in part.probe(batch):
                    for stored, who, row in segment.payload.split(pairs.who, pairs.row):
                        left = self._narrowed(stored, Pairs(who, row), batch, checks, window_holds=inside)
                        left = self._not_found_before(stored, left, batch, branch, order.borders)
                        if left.count:
                            yield stored, left

    def _inside(self, segment: Segment, batch: KeyedBatch) -> bool | None:
        """Tell whether the window surely holds for all pairs of segment and batch; None when it holds for none."""
        earliest, latest = batch.reach()
        place = segment.place
        if self.plan.time is None:  # a stored row may be the later one, and then meets rows beyond the reach
            latest = Extent(latest.low, max(latest.high, place.high))
        if place.high < earliest.low or place.low > latest.high:
            return None
        return place.low >= earliest.high and place.high <= latest.low

    def _checks(self, order: IndexOrder, own_axes: tuple[int, ...], *, window_holds: bool) -> list[int]:
        """Return the axes to check candidates on: those required and not enforced by the order, then all others.

        Of a branch, ``own_axes``, what an index finds is cut down to what each row's own ranges say: ranges in a sorted
        batch may be wider, and whether a pair is in a branch must not depend on that.
        """
        axes = {number: self.plan.every_axis[number] for number in (*range(len(self.plan.axes)), *own_axes)}
        enforced = {order.key} | (set(order.group) if len(order.group) == 1 else set())
        enforced -= {number for number in own_axes if axes[number].domain.kind == "double_offset"}
        if window_holds:
            enforced.add(self.plan.time)
        required = [number for number, axis in axes.items() if axis.required and number not in enforced]
        looked_up = {order.key, *order.group}
        return required + [number for number, axis in axes.items() if not axis.required and number not in looked_up]

    def _narrowed(
        self, stored: Stored, pairs: Pairs, batch: KeyedBatch, checks: list[tuple[int, Borders]], *, window_holds: bool
    ) -> Pairs:
        """Return the candidates for which the axes to check hold, and the window.

        What an axis that is not required stands for is in the residual too. Keys tell much faster that it does not
        hold, but those of all rows are computed for that, which few candidates are not worth.
        """
        for axis, borders in checks:
            if self.plan.every_axis[axis].required or pairs.count * ROWS_PER_CANDIDATE >= stored.rows.num_rows:
                pairs = self._in_ranges(stored, pairs, batch, axis, borders)
        if self.plan.time is None and not window_holds:
            pairs = self._in_count_window(stored, pairs, batch)
        return pairs

    def _in_ranges(self, stored: Stored, pairs: Pairs, batch: KeyedBatch, axis: int, borders: Borders) -> Pairs:
        return _kept(pairs, *self._hits(stored, pairs, batch, axis, borders))

    def _not_found_before(
        self, stored: Stored, pairs: Pairs, batch: KeyedBatch, branch: int, borders: Borders
    ) -> Pairs:
        """Return the candidates that lie in no earlier branch, which has found them already."""
        for own_axes in self.plan.branch_numbers[:branch]:
            found = np.ones(pairs.count, bool)
            for axis in own_axes:
                found &= self._hits(stored, pairs, batch, axis, borders)[0]
            pairs = _kept(pairs, ~found, pairs.count - int(np.count_nonzero(found)))
        return pairs

    def _hits(
        self, stored: Stored, pairs: Pairs, batch: KeyedBatch, axis: int, borders: Borders
    ) -> tuple[npt.NDArray[np.bool_], int]:
        """Return which candidates lie in the ranges of an axis, and how many."""
        own, schemas = self.plan.every_axis[axis], self.plan.schemas
        keys = stored.keys(axis, lambda rows: axis_keys(own, self.side, rows, schemas, borders))
        keep = np.zeros(pairs.count, bool)
        kept = 0
        for wanted in batch.ranges(axis, borders):  # disjoint, so no pair is counted twice
            kept += keep_pairs_in_ranges(pairs.who, pairs.row, wanted.lo, wanted.hi, keys, keep)
        return keep, kept

    def _in_count_window(self, stored: Stored, pairs: Pairs, batch: KeyedBatch) -> Pairs:
        assert stored.sequence is not None
        assert batch.arrival is not None
        keep = np.ones(pairs.count, bool)
        kept = keep_pairs_in_count_window(
            pairs.who,
            pairs.row,
            stored.sequence,
            self.length,
            batch.arrival.seen,
            batch.arrival.sequence,
            self.plan.length(OTHER_SIDE[self.side]),
            keep,
        )
        return _kept(pairs, keep, kept)

    def _satisfying(
        self, residual: Predicate, candidates: Iterator[Candidates], batch: KeyedBatch
    ) -> Iterator[Candidates]:
        """Yield the candidates that satisfy the residual."""
        for some in _put_together(candidates):
            who = np.concatenate([pairs.who for _, pairs in some])
            keep = self._truth(residual, some, batch, who)
            for (stored, pairs), kept in zip(some, np.split(keep, _ends(some)[:-1]), strict=True):
                satisfying = _kept(pairs, kept, int(np.count_nonzero(kept)))
                if satisfying.count:
                    yield stored, satisfying

    def _truth(
        self, residual: Predicate, candidates: list[Candidates], batch: KeyedBatch, who: Int32s
    ) -> npt.NDArray[np.bool_]:
        """Return for each candidate, ``who`` being the probing rows of all, whether it satisfies the residual."""
        taken: dict[Column, pa.Array] = {}

        def column(wanted: Column) -> pa.Array:
            if wanted not in taken:
                if wanted.side == self.side:
                    parts = [_taken(stored.rows, wanted, pairs.row) for stored, pairs in candidates]
                    taken[wanted] = parts[0] if len(parts) == 1 else one_array(parts)
                else:
                    taken[wanted] = _taken(batch.rows, wanted, who)
            return taken[wanted]

        return np.ascontiguousarray(is_true(residual, column, self.plan.schemas, len(who)))


def _put_together(candidates: Iterator[Candidates]) -> Iterator[list[Candidates]]:
    """Yield candidates as lists that are checked together: a check of few costs as much Python as one of many."""
    some: list[Candidates] = []
    count = 0
    for stored, pairs in candidates:
        if some and count + pairs.count > CHECKED_TOGETHER:
            yield some
            some, count = [], 0
        some.append((stored, pairs))
        count += pairs.count
    if some:
        yield some


def _ends(candidates: list[Candidates]) -> Int64s:
    return np.cumsum([pairs.count for _, pairs in candidates])


def _taken(rows: pa.RecordBatch, column: Column, at: Int32s) -> pa.Array:
    """Return the values of a column for some rows, without a dictionary: it may hold many more than these rows have."""
    taken = rows.column(column.name).take(pa.array(at))
    return taken.dictionary_decode() if isinstance(taken, pa.DictionaryArray) else taken


def _kept(pairs: Pairs, keep: npt.NDArray[np.bool_], kept: int) -> Pairs:
    return pairs if kept == pairs.count else Pairs(*compress_pairs(pairs.who, pairs.row, keep, kept))
