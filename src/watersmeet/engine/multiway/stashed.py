"""Stashed-MJ: the matches of two streams are kept for the rows of the others (section III).

The first of two stages has the two streams and the stash, the second has all others. A new row of the two first probes
the other's window. Its matches go into the stash and then, as partial results, through the second stage. A new row of
another stream probes the stash instead of two windows.

Which two streams, and whether at all, follows from the work that is expected with and without a stash (partial results
and candidates per row, weighted by how often rows of each stream enter; see
:mod:`watersmeet.engine.multiway.probe_order`). A stash with too little room for all matches is best effort: it has the
newest, and what it lacks is recomputed, which is part of the work that is expected.

*How much it has.* While so many rows enter as have matches enough to fill the stash, a window passes on by some part of
its rows. Older ones lie below the border, a share of ``below`` of each window, and the pairs of such rows alone are not
in the stash: it holds ``1 - below * below`` of the pairs whose rows are both in their windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from watersmeet.engine.multiway.block import Block
from watersmeet.engine.multiway.circular import Circular, Steps
from watersmeet.engine.multiway.partial import Partials
from watersmeet.engine.multiway.probe_order import Shares
from watersmeet.engine.multiway.stage import Passage, Stages, Step
from watersmeet.engine.multiway.stash import SEGMENTS, Border, Stash, StashPlan
from watersmeet.spec.expression import StreamName
from watersmeet.spec.options import Strategy
from watersmeet.window.expiry import Bounds, Departed

__all__ = ["Stashed", "strategy_of"]

INSERT_WORK: Final = 4.0
"""The work of a pair in one index of the stash; that of a candidate is 1."""
WORTHWHILE: Final = 0.7
"""A change has to promise at most this part of the present work."""
KEPT: Final = 0.9
"""A stash is kept while it takes at most this part of the work without one."""
ROOM_USED: Final = 1 - 0.5 / SEGMENTS
"""The part of its room that a stash has in use, on average: it is overwritten a segment at a time."""
FEWEST_PAIRS: Final = 1e-9
"""Matches per row that are taken for none."""


class Stashed(Circular):
    """Joins blocks one after the other, with a stash while that pays."""

    def __init__(
        self, stages: Stages, capacity: int, *, always: bool, fills: bool = True, wiring: tuple[StreamName, ...] = ()
    ) -> None:
        super().__init__(stages, wiring)
        self._fills = fills
        self.capacity = capacity
        self.stash: Stash | None = None
        self.hits = 0
        self.recomputed = 0
        self.reason = "nothing has been measured yet"
        self._always = always
        self._overwritten = 0
        self._shares: Shares = ()
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

    def starts_apart(self, block: Block) -> Iterator[tuple[Partials, Steps]]:
        """Yield the same, but leave it to the caller to stash the pairs that the first of these steps find."""
        if self.stash is None or block.stream not in self.stash.streams:
            yield from self.starts(block)
        else:
            yield self.stages.start(block), (self.stash.step(block), *self.orders.steps(frozenset(self.stash.streams)))

    def _stashed_starts(self, block: Block, stash: Stash) -> Iterator[tuple[Partials, Steps]]:
        """Yield the pairs that a block of the two streams finds, and stash them."""
        start, step, passage = self.stages.start(block), stash.step(block), Passage()
        steps = self.orders.steps(frozenset(stash.streams))
        for pairs in self.stages.pass_through(start, step, passage):
            stash.add(block, pairs, is_first=passage.found == len(pairs))
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
            steps = self.orders.steps(start.bound, shares=self._shares)
            yield self.stages.start(block, {**block.limits, **below}), steps

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
        work, best = min(
            ((self._work(plan), plan) for plan in self._plans()), key=lambda each: each[0], default=(without, None)
        )
        present = without if self.stash is None else self._work(self.stash.plan)
        if best is None:
            self.reason = "no two streams have conditions with each other and with a third one"
        elif not self._always and work > (WORTHWHILE if self.stash is None else KEPT) * without:
            self._forget()
            self.reason = f"{without:.3g} rows of work a row without a stash, {work:.3g} with the best one"
        elif self.stash is None or (work <= WORTHWHILE * present and self.stash.plan != best):
            self._use(best)
        if self.stash is not None:
            self._shares = self._below(self.stash.plan)
            work, share = self._work(self.stash.plan), self._held(self.stash.plan)
            self.reason = f"{without:.3g} rows of work a row without a stash, {work:.3g} with it"
            self.reason += f"; it has room for {share:.0%} of the matches" if share < 1 else ""

    def _use(self, plan: StashPlan) -> None:
        self._forget()
        self._shares = self._below(plan)
        self.stash = Stash(self.stages, plan, self.capacity, self._begin(plan))

    def _begin(self, plan: StashPlan) -> Border:
        """Return the border from which on a new stash is to hold the matches of stored rows."""
        stores = [self.stages.of[stream].rows for stream in plan.streams]
        below = dict(self._below(plan))
        first, second = (
            rows.first + round(below[(stream,)] * len(rows)) if self._fills else rows.end
            for stream, rows in zip(plan.streams, stores, strict=True)
        )
        return first, second

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

    def _below(self, plan: StashPlan) -> Shares:
        """Return which share of each of the two windows' rows lies below the border, once the stash is full."""
        orders = self.orders
        found = 0.0
        for stream, other in (plan.streams, plan.streams[::-1]):
            found += orders.share(stream) * orders.growth(frozenset((stream,)), (other,))
        rows = ROOM_USED * self.capacity / max(found, FEWEST_PAIRS)  # of all streams, which fill the stash once
        return tuple(
            ((stream,), max(0.0, 1 - rows * orders.share(stream) / max(1, len(self.stages.of[stream].rows))))
            for stream in plan.streams
        )

    def _held(self, plan: StashPlan) -> float:
        """Return which share of the pairs in both windows a stash holds, once it is full."""
        first, second = (share for _, share in self._below(plan))
        return 1 - first * second

    def _work(self, plan: StashPlan | None) -> float:
        """Return the work that is expected per row that enters."""
        return sum(
            self.orders.share(stream) * self._work_of(frozenset((stream,)), plan) for stream in self.stages.plan.streams
        )

    def _work_of(self, bound: frozenset[StreamName], plan: StashPlan | None) -> float:
        """Return the work that is expected of a row of one stream."""
        if plan is None:
            return self.orders.work(bound)
        if bound.isdisjoint(plan.streams):
            held = self._held(plan)
            missing = self.orders.work(bound, shares=self._below(plan)) if held < 1 else 0.0
            return missing + self.orders.work(bound, plan, ((plan.streams, held),))
        (stream,), (other,) = bound, bound.symmetric_difference(plan.streams)
        each = INSERT_WORK * len(plan.members) + self.orders.work(frozenset(plan.streams))
        return 1 + self.orders.candidates(Step((other,), stream)) + self.orders.growth(bound, (other,)) * each


def strategy_of(
    stages: Stages, name: Strategy, stash_rows: int, *, fills: bool = True, wiring: tuple[StreamName, ...] = ()
) -> Circular:
    """Return a strategy by its name; a stash that it ``fills`` begins with the matches of all rows that are stored."""
    if name == "circular":
        return Circular(stages, wiring)
    return Stashed(stages, stash_rows, always=name == "stashed", fills=fills, wiring=wiring)
