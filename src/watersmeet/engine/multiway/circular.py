"""Circular-MJ on one core: a ring of stages, rows enter at their own (sections II-A to II-C).

A block that enters is held, passes through the stages of all other streams, and is then stored in its own. Partial
results go before new rows, as in the paper, and depth first: a portion is followed through all stages before the next
one is made. So at most one portion per stage is held at any match probability; none is ever dropped, where the paper
drops intermediate results, and nothing can wait for itself in a ring.

Departure from the paper: the order in which a row passes through the ring is not that of the wiring but the best one
(:mod:`watersmeet.engine.multiway.probe_order`); in memory every stage is every other's neighbour.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from watersmeet.engine.intake import Arrived
from watersmeet.engine.multiway.block import Block
from watersmeet.engine.multiway.partial import Partials
from watersmeet.engine.multiway.probe_order import ProbeOrders
from watersmeet.engine.multiway.stage import Passage, Stages, Step

__all__ = ["Circular"]


class Circular:
    """Joins blocks one after the other."""

    def __init__(self, stages: Stages) -> None:
        self.stages = stages
        self.orders = ProbeOrders(stages)

    def push(self, arrived: Arrived) -> list[pa.Table]:
        """Join rows that arrive together, let expire what can; return the results found."""
        results: list[pa.Table] = []
        for stream, rows in arrived.rows.items():
            block = self.stages.enter(stream, rows, None if arrived.counts is None else arrived.counts[stream])
            if len(block):
                results += map(self.stages.gather, self.join(block))
                self.stages.index(block)
                self.orders.count(len(block))
        self.stages.expire(arrived.expire_before)
        return results

    def join(self, block: Block) -> Iterator[Partials]:
        """Yield the results that a block completes."""
        start = self.stages.start(block)
        yield from self.follow(start, self.orders.steps(start.bound))

    def follow(self, partials: Partials, steps: tuple[Step, ...]) -> Iterator[Partials]:
        """Yield the results that partial results lead to."""
        if not steps:
            yield partials
            return
        passage = Passage()
        for portion in self.stages.pass_through(partials, steps[0], passage):
            yield from self.follow(portion, steps[1:])
        self.orders.note(partials.bound, steps[0], passage)
