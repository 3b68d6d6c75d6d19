"""Pairing: what happens to the slices of a join of two streams, until their pairs are as the caller sees them.

Slices may be *collected* into larger ones, are *numbered* where something depends on the order of arrival, *brought
together* by the topology, in tables of bounded size where those are asked for, and the pairs are *put in order*. The
numbers are hidden columns, which the caller sees neither in pairs nor in saved rows. What met nobody comes behind the
pairs (:mod:`watersmeet.engine.unmatched`).

Rows that are *submitted* flow on while the caller does something else, and their pairs are *polled*. What is joined,
and waited for, comes behind them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Bools
from watersmeet.columns.hidden import is_hidden
from watersmeet.engine.collector import Collector
from watersmeet.engine.driver import drive
from watersmeet.engine.forms import Form
from watersmeet.engine.intake import Slice
from watersmeet.engine.portions import portions
from watersmeet.engine.result import bounded_tables
from watersmeet.engine.row_numbers import (
    Numbering,
    by_arrival,
    gathered_columns,
    gathered_schema,
    in_order_of_arrival,
    numbers_of,
    sort_pairs,
    without_numbers,
)
from watersmeet.engine.topologies import TOPOLOGIES
from watersmeet.engine.topologies.contract import FANOUT, Layout
from watersmeet.engine.unmatched import Unmatched
from watersmeet.spec.expression import StreamName
from watersmeet.spec.kinds import How, returns_left_rows, watched
from watersmeet.spec.options import TopologyName
from watersmeet.spec.ordering import Order, precision_of
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.plan import OTHER_SIDE, JoinPlan
from watersmeet.window.segment import SavedSegment

__all__ = ["NumberRows", "Pairing", "PairingState"]

NumberRows = Callable[[dict[StreamName, pa.RecordBatch]], dict[StreamName, pa.RecordBatch]]


class PairingState(NamedTuple):
    """The rows of a join's state."""

    owed: list[pa.Table]
    """Results that were found but not returned."""
    segments: dict[StreamName, list[SavedSegment]]
    waiting: dict[StreamName, list[Bools]]
    """Which rows of each segment have met nobody, and may still do so, if that is known."""


class Pairing:
    """Finds the pairs of slices; see the module's header."""

    def __init__(
        self,
        plan: JoinPlan,
        schema: pa.Schema,
        *,
        how: How,
        topology: TopologyName,
        cores: int,
        order: Order | None,
        form: Form | None,
        fanout: int | None,
        weights: Sequence[float] | None,
        block_rows: int,
        batch_rows: int | None,
        batch_seconds: float | None,
    ) -> None:
        kind = TOPOLOGIES[topology]
        self._plan = plan
        self._order = None if order is None else precision_of(order)
        collects = batch_rows is not None or batch_seconds is not None
        self._collector = Collector(batch_rows, batch_seconds) if collects else None
        self._needs_order = order is not None or kind.meets_later
        numbered = tuple(OTHER_SIDE) if self._needs_order else watched(how)
        self._numbering = Numbering(numbered) if numbered else None
        self._numbers_pushes = order is not None and plan.time is not None
        self._unmatched = None
        if watched(how):
            self._unmatched = Unmatched(
                how, plan.schemas, schema, by_number=kind.meets_later, in_order=order is not None
            )
        left_alone = returns_left_rows(how)
        schema = gathered_schema(how, plan.schemas, schema, numbered)
        columns = gathered_columns(how, plan.schemas, numbered)
        shares = None if weights is None else tuple(weights)
        self.topology = kind(
            Layout(plan, schema, cores, block_rows, self._order, fanout or FANOUT, shares, form, columns, left_alone)
        )
        self._form = form
        self._visible = [number for number, field in enumerate(schema) if not is_hidden(field)]
        self._flows = False
        self._early: list[pa.Table] = []

    @property
    def number_rows(self) -> NumberRows | None:
        """What numbers the rows of a push before they are cut into slices; None where that can wait, or is not needed.

        Slices of time have rows in another order than that of arrival.
        """
        return self._numbering.number_rows if self._numbering is not None and self._numbers_pushes else None

    @property
    def takes_whole_pushes(self) -> bool:
        """Whether no push may be cut into slices of time: where rows keep their order of arrival on their way."""
        return self._numbers_pushes and self.topology.meets_later

    @property
    def collects(self) -> bool:
        """Whether rows may wait for a full batch."""
        return self._collector is not None

    def join(self, parts: Iterable[Slice]) -> list[pa.Table]:
        """Return what comes of rows that arrive, and of those that have waited for them."""
        return self.settled() + self._joined(self._collected(parts))

    def leave_out(self, rows: Mapping[StreamName, pa.RecordBatch]) -> None:
        """Take note of rows that arrive and take no part, though an outer join returns them."""
        if self._unmatched is not None:
            self._unmatched.leave_out(rows)

    def submit(self, parts: Iterable[Slice]) -> None:
        """Let rows in that arrive; they need not have met when this returns."""
        self._let_flow(self._collected(parts))
        if self._unmatched is not None and self._unmatched.flows_on:
            self._early = self.settled()
            self._flows = True

    def _let_flow(self, parts: Iterable[Slice]) -> None:
        self._flows = True
        deque(drive(self.topology, map(self._numbered, parts), self._let_in), maxlen=0)

    def _let_in(self, part: Slice) -> tuple[()]:
        self.topology.submit(part)
        return ()

    def poll(self) -> list[pa.Table]:
        """Return the pairs that rows which were submitted have found by now.

        Rows that have waited for a full batch as long as they may are let in first.
        """
        if self._collector is not None and self._collector.is_due:
            self._let_flow(self._collector.take())
        return self._found()

    def _found(self) -> list[pa.Table]:
        """Return what there is by now; what met nobody only where nothing moves, since then it is known."""
        is_quiet = self._unmatched is not None and self.topology.is_quiet  # asked first
        found = self._early + self._results(self.topology.poll(), in_order=self.topology.keeps_order)
        self._early = []
        return found + (self._decided() if is_quiet else self._given_out())

    def settled(self) -> list[pa.Table]:
        """Wait until all rows that were submitted have met; return the pairs that were not polled."""
        if not self._flows:
            return []
        self.topology.settle()
        self._flows = False
        return self._found()

    @property
    def flows(self) -> bool:
        """Whether rows were submitted that may not have met yet, or whose pairs were not polled."""
        return self._flows

    def join_waiting(self) -> list[pa.Table]:
        """Return the pairs of the rows that wait for a full batch."""
        return self.settled() + self._joined([] if self._collector is None else self._collector.take())

    def _joined(self, parts: Iterable[Slice]) -> list[pa.Table]:
        pushed = drive(self.topology, map(self._numbered, parts), lambda part: [self.topology.push(part)])
        if self._order is None:  # what a slice finds need not wait for the others
            found = [table for some in pushed for table in self._results(some, in_order=False)]
            return found + self._results(self._found_at_rest(), in_order=False) + self._decided()
        found = list(pushed)
        in_order = self.topology.keeps_order and len(found) == 1
        pairs = [table for some in [*found, self._found_at_rest()] for table in some]
        return self._results(pairs, in_order=in_order) + self._decided()

    def _found_at_rest(self) -> list[pa.Table]:
        """Return what rows still find that go on moving when others expire, if it has to be known who met nobody."""
        if self._unmatched is None or not self.topology.meets_later:
            return []
        self.topology.settle()
        return self.topology.poll()

    def _decided(self) -> list[pa.Table]:
        """Return the rows of which it is certain now that they meet nobody; nothing moves, and all pairs were seen."""
        if self._unmatched is None:
            return []
        if self.topology.meets_later:
            met_before = {side: self.topology.met_before(side) for side in OTHER_SIDE}
            self._unmatched.decide_by_number(met_before, self.topology.held_back())
        else:
            self._unmatched.decide()
        return self._given_out()

    def _given_out(self) -> list[pa.Table]:
        return [] if self._unmatched is None else self._unmatched.taken()

    def in_portions(self, parts: Iterable[Slice]) -> Iterator[pa.Table]:
        """Yield what :meth:`join` returns in tables of bounded size, as they are asked for.

        Forms that take no more room for more pairs come a slice at a time.
        """
        if self._form is not None:
            for part in self._collected(parts):
                yield from self._joined([part])
            return
        in_portions = partial(portions, self.topology, order=self._order)
        for part in self._collected(parts):
            for found in drive(self.topology, [self._numbered(part)], in_portions):
                yield from self._bounded(found)
            yield from self._bounded(self._found_at_rest())
            yield from bounded_tables(self._decided())
        yield from bounded_tables(self._given_out())

    def _bounded(self, found: list[pa.Table]) -> Iterator[pa.Table]:
        pairs = self._results(found, in_order=self.topology.keeps_order)
        if pairs:
            yield from bounded_tables([pa.concat_tables(pairs)])

    @property
    def nbytes(self) -> int:
        """Bytes held beside the windows."""
        return 0 if self._unmatched is None else self._unmatched.nbytes

    def finish(self) -> list[pa.Table]:
        """Return what is left when no row is to come any more."""
        pairs = self._results(self.topology.finish(), in_order=False)
        if self._unmatched is not None:
            self._unmatched.finish()
        return pairs + self._given_out()

    def _collected(self, parts: Iterable[Slice]) -> Iterator[Slice]:
        """Yield the slices that are joined now: those given, or those collected."""
        if self._collector is None:
            yield from parts
            return
        completed = False
        for part in parts:
            self._collector.add(part)
            if self._collector.is_due:
                completed = True
                yield from self._collector.take()
        if completed and self._order is not None:  # the rest may have arrived before rows that are joined now
            yield from self._collector.take()

    def _numbered(self, part: Slice) -> Slice:
        """Return a slice as the topology takes it: if numbers are needed, with numbers and in their order."""
        if self._numbering is None:
            return part
        part = by_arrival(part) if self._numbers_pushes else self._numbering.number(part)
        if self._unmatched is not None:
            self._unmatched.enter(part)
        return part

    def _results(self, found: list[pa.Table], *, in_order: bool) -> list[pa.Table]:
        """Return what comes of pairs: take note of who met, put them in order, unless they are, and remove numbers."""
        if self._unmatched is not None:
            self._unmatched.see(found)
        if self._numbering is None or self._form is not None or not found:
            return found
        pairs = pa.concat_tables(found)
        if self._order is not None and not in_order:
            pairs = sort_pairs(pairs, self._order)
        return [pairs.select(self._visible)] if self._unmatched is None else self._unmatched.results(pairs)

    def save(self, *, finished: bool) -> PairingState:
        """Return the state of all rows; what is still to be returned counts as returned with it.

        Pairs of rows that are still on their way to each other are found, and this join will find them again.
        """
        return self._apart()._state(finished=finished)  # noqa: SLF001 -- another one of this class

    def _apart(self) -> Pairing:
        """Return the same with marks of its own: so an interrupt leaves no row marked whose result nobody has got."""
        apart = copy(self)
        if self._unmatched is not None:
            apart._unmatched = self._unmatched.apart()  # noqa: SLF001 -- another one of this class
        return apart

    def _state(self, *, finished: bool) -> PairingState:
        """Return the state after all that is owed has been returned."""
        owed = [] if finished else self._results(self.topology.owed(), in_order=False)
        segments, waiting = {}, {}
        for side in OTHER_SIDE:
            segments[side], waiting[side] = self._saved(side)
        return PairingState(owed, segments, waiting)

    def _saved(self, side: StreamName) -> tuple[list[SavedSegment], list[Bools]]:
        """Return a side's rows as they were pushed, and which of them wait."""
        saved = self.topology.save(side)
        if self._numbering is None or side not in self._numbering.sides:
            return saved, [np.zeros(rows.num_rows, np.bool_) for rows, _ in saved]
        if self._needs_order:
            saved = in_order_of_arrival(saved)
        waiting = (
            [] if self._unmatched is None else [self._unmatched.waiting(side, numbers_of(rows)) for rows, _ in saved]
        )
        return without_numbers(saved), waiting

    def load(
        self, segments: Mapping[StreamName, list[SavedSegment]], waiting: Mapping[StreamName, list[Bools]]
    ) -> None:
        """Take in saved rows; ``waiting`` is looked at if it matters who met nobody."""
        for side, some in segments.items():
            batches = []
            for segment in some:
                rows, sequence = segment if self._numbering is None else self._numbering.restore(side, segment)
                self.topology.load(side, rows, sequence)
                arrival = None if sequence is None else Arrival(sequence, sequence)
                batches.append(KeyedBatch(self._plan, side, rows, arrival))
            if self._unmatched is not None:
                self._unmatched.restore(side, batches, waiting[side])
        for side in OTHER_SIDE:
            self.topology.windows(side)  # all that was loaded takes its place now, not when somebody first looks
