"""In which order a block's rows pass through the other streams' stages.

Every order gives the same results; they differ in how many partial results they make. The best order of an entering
stream is the one with the least work, found by dynamic programming over the sets of streams bound so far (at most 2^7).
The work of a step is the partial results that probe and the candidates they find. Both are taken from what passages
through stages have shown lately: how many candidates a row of one stream finds in another's window, and by how much
partial results that bind a set of streams multiply in a stage. What has not been seen is estimated from samples of both
streams, as if conditions were independent of each other.

Observations are halved at every decision, so that old ones are forgotten; decisions fall after certain numbers of rows,
never after a time, so a join of the same rows takes the same course.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from watersmeet.engine.multiway.plan import MultiPlan
from watersmeet.engine.multiway.stage import Passage, Stages, Step
from watersmeet.engine.multiway.stash import StashPlan
from watersmeet.spec.expression import Side
from watersmeet.window.sample import key_fractions, sample_rows

__all__ = ["ProbeOrders"]

Bound = frozenset[Side]

FIRST_DECISION: Final = 1 << 10
MOST_ROWS_BETWEEN: Final = 1 << 17
"""Rows from one decision to the next: as many as there were before, but never more than this."""
FEWEST_SEEN: Final = 16
"""Partial results whose passage says more than a sample does."""
FORGET: Final = 0.5


@dataclass(slots=True)
class Rate:
    """How many came of how many, lately."""

    of: float = 0.0
    came: float = 0.0

    @property
    def value(self) -> float | None:
        """The rate; None while too little was seen. What never came is taken to come half a time."""
        return (self.came + 0.5) / (self.of + 1) if self.of >= FEWEST_SEEN else None


@dataclass(frozen=True, slots=True)
class _Way:
    """The work that is expected on a way, per partial result at its beginning, and its steps."""

    work: float
    steps: tuple[Step, ...]


class ProbeOrders:
    """Knows the order of every stream, and decides again now and then."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._plan: MultiPlan = stages.plan
        self._candidates: defaultdict[Step, Rate] = defaultdict(Rate)
        self._growth: defaultdict[tuple[Bound, tuple[Side, ...]], Rate] = defaultdict(Rate)
        self._best: dict[tuple[Bound, tuple[Side, ...]], _Way] = {}
        self._fractions: dict[frozenset[Side], float] = {}
        self._entered = dict.fromkeys(self._plan.streams, 0.0)
        self._total = 0
        self._next_decision = FIRST_DECISION
        self.fixed: dict[Side, tuple[Step, ...]] = {}
        """Orders that are not to be chosen: for measuring what the choice is worth."""

    def count(self, stream: Side, rows: int) -> bool:
        """Take note that rows have entered; tell whether it is time to decide again."""
        self._entered[stream] += rows
        self._total += rows
        if self._total < self._next_decision:
            return False
        self._next_decision = self._total + min(self._total, MOST_ROWS_BETWEEN)
        self._best.clear()
        self._fractions.clear()
        for rate in (*self._candidates.values(), *self._growth.values()):
            rate.of *= FORGET
            rate.came *= FORGET
        self._entered = {name: entered * FORGET for name, entered in self._entered.items()}
        return True

    def note(self, bound: Bound, step: Step, passage: Passage) -> None:
        """Take note of a passage of partial results that bind ``bound``."""
        candidates, growth = self._candidates[step], self._growth[bound, step.streams]
        candidates.of += passage.probing
        candidates.came += passage.candidates
        growth.of += passage.probing
        growth.came += passage.found

    def share(self, stream: Side) -> float:
        """Return which share of the rows that entered lately belong to a stream."""
        return (self._entered[stream] + 1) / (sum(self._entered.values()) + len(self._entered))

    def steps(self, bound: Bound, stash: StashPlan | None = None) -> tuple[Step, ...]:
        """Return the steps that lead from partial results which bind ``bound`` to results."""
        if stash is None and len(bound) == 1 and (fixed := self.fixed.get(next(iter(bound)))) is not None:
            return fixed
        return self._way(bound, stash).steps

    def work(self, bound: Bound, stash: StashPlan | None = None) -> float:
        """Return how many partial results and candidates one that binds ``bound`` is expected to cost."""
        return self._way(bound, stash).work

    def candidates(self, step: Step, stash: StashPlan | None = None) -> float:
        """Return how many candidates a partial result is expected to find in a step."""
        seen = self._candidates[step].value
        if seen is not None:
            return seen
        if len(step.streams) == 1:
            return self._window_rows(step.streams[0]) * self.fraction(step.streams[0], step.via)
        assert stash is not None, "two streams at once come from a stash"
        return self.live_pairs(*stash.streams) * self.fraction(stash.members[step.via], step.via)

    def growth(self, bound: Bound, streams: tuple[Side, ...]) -> float:
        """Return by how much partial results are expected to multiply when they get a row of each of ``streams``."""
        seen = self._growth[bound, streams].value
        if seen is not None:
            return seen
        expected = float(self._window_rows(streams[0])) if len(streams) == 1 else self.live_pairs(*streams)
        for stream in streams:
            for other in self._plan.neighbours[stream]:
                if other in bound:
                    expected *= self.fraction(stream, other)
        return expected

    def live_pairs(self, first: Side, second: Side) -> float:
        """Return how many matches there are between the rows of two windows."""
        return self._window_rows(first) * self.growth(frozenset((first,)), (second,))

    def fraction(self, one: Side, other: Side) -> float:
        """Return which fraction of two streams' rows meet, as sampled."""
        name = frozenset((one, other))
        if name not in self._fractions:
            self._fractions[name] = self._sampled(one, other)
        return self._fractions[name]

    def _sampled(self, one: Side, other: Side) -> float:
        pair = self._plan.pair(one, other)
        left, right = self._sample(pair.left), self._sample(pair.right)
        fraction = 1.0
        if left is not None and right is not None:
            for number, axis in enumerate(pair.plan.axes):
                if number != pair.plan.time:  # a window holds little beyond what a row meets by time
                    fraction *= key_fractions(axis, "left", left, right, pair.plan.schemas)
        return fraction

    def _sample(self, stream: Side) -> pa.RecordBatch | None:
        chunks = self._stages.of[stream].rows.chunks
        return sample_rows(chunks[-1].rows) if chunks else None

    def _window_rows(self, stream: Side) -> int:
        return max(1, len(self._stages.of[stream].rows))

    def _way(self, bound: Bound, stash: StashPlan | None) -> _Way:
        """Return the way of least work from here on; of equal ones that of the streams' order."""
        stashed = () if stash is None else stash.streams
        name = bound, stashed
        if name not in self._best:
            options = [_Way(0.0, ())] if len(bound) == len(self._plan.streams) else []
            for step in self._next_steps(bound, stash):
                rest = self._way(bound.union(step.streams), stash)
                work = 1 + self.candidates(step, stash) + self.growth(bound, step.streams) * rest.work
                options.append(_Way(work, (step, *rest.steps)))
            self._best[name] = min(options, key=lambda way: way.work)
        return self._best[name]

    def _next_steps(self, bound: Bound, stash: StashPlan | None) -> Iterator[Step]:
        """Yield for every stream that can be reached (or both in the stash) the step through its best neighbour."""
        stashed = () if stash is None or not bound.isdisjoint(stash.streams) else stash.streams
        for stream in self._plan.streams:
            ways = [Step((stream,), via) for via in self._plan.neighbours[stream] if via in bound]
            if ways and stream not in bound and stream not in stashed:
                yield min(ways, key=self.candidates)
        if stash is not None and stashed:
            ways = [Step(stash.streams, via) for via in stash.members if via in bound]
            if ways:
                yield min(ways, key=lambda step: self.candidates(step, stash))
