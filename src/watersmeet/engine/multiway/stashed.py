"""Stashed-MJ: the matches of two streams are kept for the rows of the others (section III).

The first of two stages has the two streams and the stash, the second has all others. A new row of the two first probes
the other's window. Its matches go into the stash and then, as partial results, through the second stage. A new row of
another stream probes the stash instead of two windows.

Whether there is a stash, and for which two streams, follows from the work that is expected with and without one
(partial results and candidates per row, weighted by the streams' rates; see
:mod:`watersmeet.engine.multiway.probe_order`). A stash that cannot hold the matches of both windows does not pay,
because most of its entries would be overwritten and recomputed: there is none then, until there are fewer matches.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from watersmeet.engine.multiway.block import Block
from watersmeet.engine.multiway.circular import Circular, Steps
from watersmeet.engine.multiway.partial import Partials
from watersmeet.engine.multiway.stage import Passage, Stages, Step
from watersmeet.engine.multiway.stash import Stash, StashPlan
from watersmeet.spec.expression import StreamName
from watersmeet.spec.options import Strategy
from watersmeet.window.expiry import Bounds, Departed

__all__ = ["Stashed", "strategy_of"]

INSERT_WORK: Final = 4.0
"""The work of a pair in one index of the stash; that of a candidate is 1."""
WORTHWHILE: Final = 0.7
"""A change must promise at most this fraction of the current work."""


class Stashed(Circular):
    """Joins blocks one after the other, with a stash while that pays."""

    def __init__(self, stages: Stages, capacity: int, *, always: bool, fills: bool = True) -> None:
        super().__init__(stages)
        self._fills = fills
        self.capacity = capacity
        self.stash: Stash | None = None
        self.hits = 0
        self.recomputed = 0
        self.reason = "nothing has been measured yet"
        self._always = always
        self._overwritten = 0
        if always and (plans := self._plans()):
            self._use(plans[0])

    @property
    def overwritten(self) -> int:
        """Pairs that were overwritten."""
        return self._overwritten + (0 if self.stash is None else self.stash.overwritten)

    # --- join --------------------------------------------------------------------------------------------------------

    def starts(self, block: Block) -> Iterator[tuple[Partials, Steps]]:
        """Yield the partial results with which a block begins, and the steps that lead from them to results."""
        if self.stash is None:
            return super().starts(block)
        if block.stream in self.stash.streams:
            return self._stashed_starts(block, self.stash)
        return self._other_starts(block, self.stash)

    def _stashed_starts(self, block: Block, stash: Stash) -> Iterator[tuple[Partials, Steps]]:
        """Stash the pairs that a block of one of the two streams finds, and yield them."""
        other = stash.streams[1] if block.stream == stash.streams[0] else stash.streams[0]
        start, step, passage = self.stages.start(block), Step((other,), block.stream), Passage()
        steps = self.orders.steps(frozenset(stash.streams))
        for pairs in self.stages.pass_through(start, step, passage):
            stash.add(pairs, is_first=passage.found == len(pairs))
            yield pairs, steps
        self.note(start, step, passage)

    def _other_starts(self, block: Block, stash: Stash) -> Iterator[tuple[Partials, Steps]]:
        """Yield a block of another stream to probe the stash, and again for pairs that were overwritten."""
        start = self.stages.start(block)
        steps = self.orders.steps(start.bound, stash.plan)
        yield start, steps
        border = stash.missing(next(step.via for step in steps if step.streams == stash.streams))
        if border is not None:
            self.recomputed += len(block)
            below = {stream: min(block.limits[stream], n) for stream, n in zip(stash.streams, border, strict=True)}
            yield self.stages.start(block, {**block.limits, **below}), self.orders.steps(start.bound)

    def pass_through(self, partials: Partials, step: Step, passage: Passage) -> Iterator[Partials]:
        """Take one step, or two at once through the stash."""
        if self.stash is not None and step.streams == self.stash.streams:
            return self.stash.pass_through(partials, step, passage)
        return super().pass_through(partials, step, passage)

    def note(self, partials: Partials, step: Step, passage: Passage) -> None:
        """Record the match rates of a step."""
        super().note(partials, step, passage)
        if len(step.streams) > 1:
            self.hits += passage.found

    def renew(self) -> None:
        """Stash the matches of all stored rows, after rows were loaded."""
        if self.stash is not None:
            self._use(self.stash.plan)

    def expire(self, before: Bounds) -> dict[StreamName, list[Departed]]:
        """Drop what no row to come can meet; return what has left."""
        if self.stash is not None:
            self.stash.expire(before)
        return super().expire(before)

    # --- decide ------------------------------------------------------------------------------------------------------

    def decide(self) -> None:
        """Choose the two streams whose matches are stashed, or none."""
        without = self._work(None)
        present = without if self.stash is None else self._work(self.stash.plan)
        fitting = [(self._work(plan), plan) for plan in self._plans() if self._pairs(plan) <= self.capacity]
        work, best = min(fitting, key=lambda option: option[0], default=(without, None))
        if best is None:
            self._rest(f"the matches of no two streams fit into a stash of {self.capacity:,} pairs")
        elif self._always and self.stash is None:
            self._use(best)
        elif not self._always and without <= work:
            self._rest(f"{without:.3g} rows of work a row without a stash, {work:.3g} with the best one")
        elif work <= WORTHWHILE * present and (self.stash is None or self.stash.plan != best):
            self._use(best)
        if self.stash is not None:
            self.reason = f"{without:.3g} rows of work a row without a stash, {self._work(self.stash.plan):.3g} with it"

    def _use(self, plan: StashPlan) -> None:
        self._forget()
        self.stash = Stash(self.stages, plan, self.capacity, is_filled=self._fills)

    def _rest(self, reason: str) -> None:
        self._forget()
        self.reason = reason

    def _forget(self) -> None:
        self._overwritten = self.overwritten
        self.stash = None

    def _plans(self) -> list[StashPlan]:
        """Return a plan for every two streams that have a condition with each other, and one with a third stream."""
        plans = []
        for pair in self.stages.plan.pairs.values():
            members = {}
            for via in self.stages.plan.streams:
                own = [name for name in (pair.left, pair.right) if name in self.stages.plan.neighbours[via]]
                if own and via not in (pair.left, pair.right):
                    members[via] = min(own, key=partial(self.orders.fraction, via))
            if pair.is_edge and members:
                plans.append(StashPlan((pair.left, pair.right), members))
        return plans

    def _pairs(self, plan: StashPlan) -> float:
        """Return the number of pairs that a stash would hold: those that the rows of both windows have found."""
        first, second = plan.streams
        return self.orders.live_pairs(first, second) + self.orders.live_pairs(second, first)

    def _work(self, plan: StashPlan | None) -> float:
        """Return the work that is expected per row that enters."""
        work = 0.0
        for stream in self.stages.plan.streams:
            bound = frozenset((stream,))
            if plan is None or stream not in plan.streams:
                work += self.orders.share(stream) * self.orders.work(bound, plan)
                continue
            (other,) = (name for name in plan.streams if name != stream)
            found = self.orders.growth(bound, (other,))
            each = INSERT_WORK * len(plan.members) + self.orders.work(frozenset(plan.streams))
            work += self.orders.share(stream) * (1 + self.orders.candidates(Step((other,), stream)) + found * each)
        return work


def strategy_of(stages: Stages, name: Strategy, stash_rows: int, *, fills: bool = True) -> Circular:
    """Return a strategy by its name; with ``fills`` a stash begins with the matches of all stored rows."""
    if name == "circular":
        return Circular(stages)
    return Stashed(stages, stash_rows, always=name == "stashed", fills=fills)
