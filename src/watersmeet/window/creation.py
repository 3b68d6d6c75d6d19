"""Creating a segment (PanJoin, section III-A): how it is indexed, how large it may get, where its rows are held.

A segment begins when the newest one has advanced by half the window (and is worth an index of its own), or is full. How
it is indexed is decided by :mod:`watersmeet.subwindow.choose`, from samples of both streams taken now: so the choice
follows the data, a segment later at the most.

Rows that come late, but not too late, go to the newest segment like all others. PanJoin puts them into a buffer beside
it (section III-G2), so that the segment spans no more time. Here a segment's advance is measured by its newest rows,
and it expires with these. What a buffer would still save is the window's check of the few candidates that are left, and
only if the late rows of the probing batch were kept apart too: they alone reach back so far.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final

import pyarrow as pa

from watersmeet.columns.keys import Borders
from watersmeet.spec.expression import StreamName
from watersmeet.subwindow.choose import STRUCTURES, Choice, Drift, choose, create, order_fraction
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.chunks import ChunkedRows
from watersmeet.window.payload import Extent, Payload
from watersmeet.window.plain_rows import PlainRows, can_be_plain
from watersmeet.window.plan import JoinPlan
from watersmeet.window.sample import choose_borders, key_fractions, sample_rows
from watersmeet.window.segment import Segment

__all__ = ["Creator", "Neighbours"]

SEGMENTS_PER_WINDOW: Final = 2
"""A probe searches every segment, so there are few; rows expire in smaller steps than their index."""
CHUNKS_PER_SEGMENT: Final = 4
"""Steps in which a segment's rows expire: a window holds at most 1/8 more rows, and 1/2 more index, than it needs."""
STEPS_PER_SEGMENT: Final = 32
"""The same for plain columns, where steps cost a probe nothing: at most 1/64 more rows."""
SMALLEST_SEGMENT: Final = 1 << 14
LARGEST_SEGMENT: Final = 1 << 26
LARGEST_STEP: Final = 1 << 20
BRANCH_GAIN: Final = 4
"""How many times fewer candidates than one order the branches of a disjunction must leave, to have an index each."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What a new segment follows: the window it is of, and the other stream's as far as that is known."""

    rows: int
    """Rows that the window holds."""
    predecessor: Segment | None
    opposite: Segment | None
    """The newest segment of the other window."""
    sample: pa.RecordBatch | None
    """Of the other stream's newest rows."""

    @property
    def borders(self) -> list[Borders]:
        """By which the newest segments of both windows cut keys of texts."""
        return [segment.choice.order.borders for segment in (self.predecessor, self.opposite) if segment]


class Creator:
    """Creates the segments of one side's window."""

    def __init__(self, plan: JoinPlan, side: StreamName) -> None:
        self._plan = plan
        self._side = side
        self._span = plan.length(side) // SEGMENTS_PER_WINDOW

    def has_room(self, segment: Segment, batch: KeyedBatch) -> bool:
        """Tell whether a batch still goes into the newest segment."""
        if segment.rows + len(batch) > segment.capacity:
            return False
        return segment.rows < SMALLEST_SEGMENT or segment.advance < self._span

    def create(self, batch: KeyedBatch, beside: Neighbours, *, in_chunks: bool) -> Segment:
        """Return an empty segment for a batch and what follows it.

        Where its rows are to stay where they are, in memory that is mapped perhaps, they are held ``in_chunks``.
        """
        predecessor = beside.predecessor
        choices = self._choose(batch, beside)
        capacity = min(self._capacity(len(batch), choice, predecessor) for choice in choices)
        payload = self._payload(batch, predecessor, in_chunks=in_chunks)
        low = batch.place().low
        began = low if predecessor is None else max(low, predecessor.place.high)
        before = [] if predecessor is None else [part.index for part in (predecessor, *predecessor.others)]
        first, *rest = (
            Segment(choice, create(choice, capacity, learnt_from), capacity, payload, began)
            for choice, learnt_from in zip_longest(choices, before[: len(choices)])
        )
        first.others = tuple(rest)
        return first

    def _capacity(self, batch_rows: int, choice: Choice, predecessor: Segment | None) -> int:
        """Return how many rows the next segment may hold; structures with a fixed capacity are built for that."""
        if not STRUCTURES[choice.structure].fixed_capacity:
            return max(LARGEST_SEGMENT, batch_rows)
        if self._plan.time is None:
            expected = max(SMALLEST_SEGMENT, self._span)
        elif predecessor is None:
            expected = 4 * SMALLEST_SEGMENT
        else:  # as many as the last segment and a quarter more, or twice as many if that spans too little time
            short = predecessor.advance < self._span
            expected = max(SMALLEST_SEGMENT, 2 * predecessor.rows if short else predecessor.rows * 5 // 4)
        return min(LARGEST_SEGMENT, max(2 * batch_rows, expected))

    def _payload(self, batch: KeyedBatch, predecessor: Segment | None, *, in_chunks: bool) -> Payload:
        """Return the payload for the rows of the next segment, of which ``batch`` is the first."""
        schema = batch.rows.schema
        if in_chunks or not can_be_plain(schema):
            return ChunkedRows(self._step_rows(predecessor, CHUNKS_PER_SEGMENT))
        reserve = 2 * len(batch) if predecessor is None else len(batch) + predecessor.rows * 9 // 8
        return PlainRows(schema, self._step_rows(predecessor, STEPS_PER_SEGMENT), reserve)

    def _step_rows(self, predecessor: Segment | None, steps: int) -> int:
        """Return the number of rows of a step of the next segment."""
        if self._plan.time is None:
            expected = self._span
        else:
            expected = LARGEST_SEGMENT if predecessor is None else predecessor.rows
        return min(LARGEST_STEP, max(SMALLEST_SEGMENT, expected // steps))

    def _choose(self, batch: KeyedBatch, beside: Neighbours) -> list[Choice]:
        """Choose an order, or one for each branch, by samples of both streams."""
        plan, side = self._plan, self._side
        own = sample_rows(batch.rows)
        borders = choose_borders(plan.every_axis, side, own, beside.sample, plan.schemas, used=beside.borders)
        fractions = {
            number: key_fractions(axis, side, own, beside.sample, plan.schemas, borders=borders)
            for number, axis in enumerate(plan.every_axis)
        }
        if plan.time is not None:
            reach = plan.length("left") + plan.length("right")
            fractions[plan.time] = min(1.0, reach / max(1, self._expected_span(len(batch), batch.place())))
        choices = [
            choose(
                plan.structure,
                {number: plan.every_axis[number] for number in (*range(len(plan.axes)), *own_axes)},
                plan.time,
                fractions,
                batch_rows=len(batch),
                window_rows=max(beside.rows, len(batch)),
                drift=_drift(batch, beside.predecessor),
            )
            for own_axes in ((), *plan.branch_numbers)
        ]
        whole, *each = (order_fraction(choice.order, fractions) for choice in choices)
        choices = choices[1:] if each and BRANCH_GAIN * sum(each) < whole else choices[:1]
        if not borders:
            return choices
        because = "keys of text begin behind what neighbouring texts share"
        return [
            replace(choice, order=replace(choice.order, borders=borders), reason=f"{choice.reason}; {because}")
            for choice in choices
        ]

    def _expected_span(self, rows: int, place: Extent) -> int:
        """Return the time that a segment with this first batch will probably span."""
        span = place.high - place.low
        return max(span, self._span, span * SMALLEST_SEGMENT // rows)


def _drift(batch: KeyedBatch, last: Segment | None) -> Drift | None:
    """Tell how the keys have moved since the last segment began: beyond nearly all of its keys, or not at all."""
    if last is None:
        return None
    if last.choice.outgrown:
        return "changing"
    order = last.choice.order
    if order.equalities and order.key is not None:  # sorted by two keys: a segment knows no extent of these
        return None
    keys = batch.sorted(order).key
    tenth = (last.keys.high - last.keys.low) // 10
    if int(keys[0]) > last.keys.high - tenth:
        return "growing"
    return "falling" if int(keys[-1]) < last.keys.low + tenth else None
