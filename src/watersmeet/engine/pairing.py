"""Pairing: what happens to the slices of a join of two streams, until their pairs are as the caller sees them.

Slices may be *collected* into larger ones, are *numbered* where something depends on the order of arrival, *brought
together* by the topology, in tables of bounded size where those are asked for, and the pairs are *put in order*. The
numbers are hidden columns, which the caller sees neither in pairs nor in saved rows.

Rows that are *submitted* flow on while the caller does something else, and their pairs are *polled*. What is joined,
and waited for, comes behind them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from watersmeet.engine.collector import Collector
from watersmeet.engine.driver import drive
from watersmeet.engine.forms import Form
from watersmeet.engine.intake import Slice
from watersmeet.engine.portions import portions
from watersmeet.engine.result import bounded_tables
from watersmeet.engine.row_numbers import Numbering, by_arrival, numbered_schema, sort_pairs, without_numbers
from watersmeet.engine.topologies import TOPOLOGIES
from watersmeet.engine.topologies.contract import FANOUT, Layout
from watersmeet.spec.expression import StreamName
from watersmeet.spec.options import TopologyName
from watersmeet.spec.ordering import Order, precision_of
from watersmeet.window.plan import OTHER_SIDE, JoinPlan
from watersmeet.window.segment import SavedSegment

__all__ = ["NumberRows", "Pairing"]

NumberRows = Callable[[dict[StreamName, pa.RecordBatch]], dict[StreamName, pa.RecordBatch]]


class Pairing:
    """Finds the pairs of slices; see the module's header."""

    def __init__(
        self,
        plan: JoinPlan,
        schema: pa.Schema,
        *,
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
        self._schemas = plan.schemas
        self._order = None if order is None else precision_of(order)
        collects = batch_rows is not None or batch_seconds is not None
        self._collector = Collector(batch_rows, batch_seconds) if collects else None
        self._numbering = Numbering() if order is not None or kind.meets_later else None
        self._numbers_pushes = self._numbering is not None and order is not None and plan.time is not None
        if self._numbering is not None:
            schema = numbered_schema(plan.schemas["left"], plan.schemas["right"], schema)
        shares = None if weights is None else tuple(weights)
        self.topology = kind(Layout(plan, schema, cores, block_rows, self._order, fanout or FANOUT, shares, form))
        self._form = form
        self._flows = False

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
        """Return the pairs of rows that arrive, and of those that have waited for them."""
        return self.settled() + self._joined(self._collected(parts))

    def submit(self, parts: Iterable[Slice]) -> None:
        """Let rows in that arrive; they need not have met when this returns."""
        self._let_flow(self._collected(parts))

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
        return self._arranged(self.topology.poll(), in_order=self.topology.keeps_order)

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
        found = list(drive(self.topology, map(self._numbered, parts), lambda part: [self.topology.push(part)]))
        in_order = self.topology.keeps_order and len(found) == 1
        return self._arranged([pairs for some in found for pairs in some], in_order=in_order)

    def in_portions(self, parts: Iterable[Slice]) -> Iterator[pa.Table]:
        """Yield what :meth:`join` returns in tables of bounded size, as they are asked for.

        Forms that take no more room for more pairs come a slice at a time.
        """
        if self._form is not None:
            for part in self._collected(parts):
                yield from self._joined([part])
            return
        in_portions = partial(portions, self.topology, order=self._order)
        for found in drive(self.topology, map(self._numbered, self._collected(parts)), in_portions):
            pairs = self._arranged(found, in_order=self.topology.keeps_order)
            if pairs:
                yield from bounded_tables([pa.concat_tables(pairs)])

    def still_to_meet(self) -> list[pa.Table]:
        """Return the pairs of rows that are still on their way to each other, and those held back for their order."""
        return self._arranged(self.topology.owed(), in_order=False)

    def finish(self) -> list[pa.Table]:
        """Return the same when no row is to come any more."""
        return self._arranged(self.topology.finish(), in_order=False)

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
        return by_arrival(part) if self._numbers_pushes else self._numbering.number(part)

    def _arranged(self, found: list[pa.Table], *, in_order: bool) -> list[pa.Table]:
        """Put pairs in order, unless they are, and remove their numbers."""
        if self._numbering is None or self._form is not None or not found:
            return found
        pairs = pa.concat_tables(found)
        if self._order is not None and not in_order:
            pairs = sort_pairs(pairs, self._order)
        return [pairs.select(_visible(self._schemas, pairs.num_columns))]

    def save(self, side: StreamName) -> list[SavedSegment]:
        """Return a side's rows as they were pushed."""
        saved = self.topology.save(side)
        return saved if self._numbering is None else without_numbers(saved)

    def load(self, segments: dict[StreamName, list[SavedSegment]]) -> None:
        """Take in saved rows."""
        for side, some in segments.items():
            for segment in some:
                self.topology.load(
                    side, *(segment if self._numbering is None else self._numbering.restore(side, segment))
                )
        for side in OTHER_SIDE:
            self.topology.windows(side)  # all that was loaded takes its place now, not when somebody first looks


def _visible(schemas: dict[StreamName, pa.Schema], columns: int) -> list[int]:
    """Return the positions of a result's columns, without the numbers behind those of each side."""
    hidden = (len(schemas["left"]), columns - 1)
    return [column for column in range(columns) if column not in hidden]
