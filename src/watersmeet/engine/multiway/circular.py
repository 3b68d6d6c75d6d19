"""Circular-MJ on one core: a ring of stages, where rows enter at their own stage (sections II-A to II-C).

A block that enters gets its numbers, passes through the stages of all other streams, and is then indexed in its own.
Partial results go before new rows, as in the paper, and depth first: a portion passes through all stages before the
next one is made. So at most one portion per stage is held, at any match probability. None is ever dropped (the paper
drops intermediate results), and no stage can wait for itself.

Departure from the paper: the order in which a row passes through the ring is not that of a wiring but the best one
(:mod:`watersmeet.engine.multiway.probe_order`), unless a wiring is given; in memory every stage is every other's
neighbour.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from watersmeet.engine.intake import Arrived
from watersmeet.engine.multiway.block import Block
from watersmeet.engine.multiway.partial import Partials
from watersmeet.engine.multiway.probe_order import ProbeOrders
from watersmeet.engine.multiway.stage import Passage, Stages, Step
from watersmeet.spec.expression import StreamName
from watersmeet.window.arrival import Counts
from watersmeet.window.expiry import Bounds, Departed

__all__ = ["Circular", "Steps"]

Steps = tuple[Step, ...]


class Circular:
    """Joins blocks one after the other."""

    def __init__(self, stages: Stages, wiring: tuple[StreamName, ...] = ()) -> None:
        self.stages = stages
        self.orders = ProbeOrders(stages, wiring)

    def push(self, arrived: Arrived) -> list[pa.Table]:
        """Join rows that arrive together; return the results found."""
        return list(self.in_portions(arrived))

    def in_portions(self, arrived: Arrived) -> Iterator[pa.Table]:
        """Join rows that arrive together; yield the results a portion at a time, none of them empty."""
        for block in self.stages.enter_all(arrived):
            yield from chain.from_iterable(map(self.stages.tables, self.join(block)))
            self.stages.index(block)
            self.count(block)

    def join(self, block: Block) -> Iterator[Partials]:
        """Yield the results that a block completes."""
        for partials, steps in self.starts(block):
            yield from self.follow(partials, steps)

    def starts(self, block: Block) -> Iterator[tuple[Partials, Steps]]:
        """Yield the partial results that a block begins with, and the steps from them to results."""
        start = self.stages.start(block)
        yield start, self.orders.steps(start.bound)

    def follow(self, partials: Partials, steps: Steps) -> Iterator[Partials]:
        """Take the partial results through the steps; yield the results."""
        if not steps:
            yield partials
            return
        passage = Passage()
        for portion in self.pass_through(partials, steps[0], passage):
            yield from self.follow(portion, steps[1:])
        self.note(partials, steps[0], passage)

    def pass_through(self, partials: Partials, step: Step, passage: Passage) -> Iterator[Partials]:
        """Take one step."""
        return self.stages.pass_through(partials, step, passage)

    def note(self, partials: Partials, step: Step, passage: Passage) -> None:
        """Record the match rates of a step."""
        if partials.limits is partials.block.limits:  # otherwise only a part of the stage was probed
            self.orders.note(partials.bound, step, passage)

    def count(self, block: Block) -> None:
        """Count a block that has been joined."""
        if self.orders.count(block.stream, len(block)):
            self.decide()

    def load(self, stream: StreamName, rows: pa.RecordBatch, counts: Counts | None) -> None:
        """Store saved rows (at least one); they are loaded in the order in which they had entered."""
        self.stages.index(self.stages.enter(stream, rows, counts))

    def decide(self) -> None:
        """Decide again how rows are joined, as more is known of the streams."""

    def expire(self, before: Bounds) -> dict[StreamName, list[Departed]]:
        """Drop what no row to come can meet; return what has left."""
        return self.stages.expire(before)

    def close(self) -> None:
        """Nothing to close."""
