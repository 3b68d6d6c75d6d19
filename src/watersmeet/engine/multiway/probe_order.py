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
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from watersmeet.engine.multiway.plan import MultiPlan
from watersmeet.engine.multiway.stage import Passage, Stages, Step
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


class ProbeOrders:
    """Knows the order of every stream, and decides again now and then."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._plan: MultiPlan = stages.plan
        self._candidates: defaultdict[Step, Rate] = defaultdict(Rate)
        self._growth: defaultdict[tuple[Bound, Side], Rate] = defaultdict(Rate)
        self._orders: dict[Bound, tuple[Step, ...]] = {}
        self._fractions: dict[frozenset[Side], float] = {}
        self._entered = 0
        self._next_decision = FIRST_DECISION
        self.fixed: dict[Side, tuple[Step, ...]] = {}
        """Orders that are not to be chosen: for measuring what the choice is worth."""

    def count(self, rows: int) -> None:
        """Take note that rows have entered; decide again when it is time."""
        self._entered += rows
        if self._entered >= self._next_decision:
            self._next_decision = self._entered + min(self._entered, MOST_ROWS_BETWEEN)
            self._orders.clear()
            self._fractions.clear()
            for rates in (self._candidates, self._growth):
                for rate in rates.values():
                    rate.of *= FORGET
                    rate.came *= FORGET

    def note(self, bound: Bound, step: Step, passage: Passage) -> None:
        """Take note of a passage of partial results that bind ``bound``."""
        candidates, growth = self._candidates[step], self._growth[bound, step.stream]
        candidates.of += passage.probing
        candidates.came += passage.candidates
        growth.of += passage.probing
        growth.came += passage.found

    def steps(self, bound: Bound) -> tuple[Step, ...]:
        """Return the steps that lead from partial results which bind ``bound`` to results."""
        if len(bound) == 1 and (fixed := self.fixed.get(next(iter(bound)))) is not None:
            return fixed
        if bound not in self._orders:
            self._orders[bound] = self._best(bound)[1]
        return self._orders[bound]

    def expected_work(self, bound: Bound) -> float:
        """Return how many partial results and candidates one that binds ``bound`` is expected to cost."""
        return self._best(bound)[0]

    def candidates(self, step: Step) -> float:
        """Return how many candidates a partial result is expected to find in a step."""
        seen = self._candidates[step].value
        return seen if seen is not None else self._window_rows(step.stream) * self.fraction(step.stream, step.via)

    def growth(self, bound: Bound, stream: Side) -> float:
        """Return by how much partial results are expected to multiply in a stage."""
        seen = self._growth[bound, stream].value
        if seen is not None:
            return seen
        expected = float(self._window_rows(stream))
        for other in self._plan.neighbours[stream]:
            if other in bound:
                expected *= self.fraction(stream, other)
        return expected

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

    def _best(self, bound: Bound) -> tuple[float, tuple[Step, ...]]:
        """Return the least work per partial result from here on, and its steps. Ties go to the streams' order."""
        known: dict[Bound, tuple[float, tuple[Step, ...]]] = {frozenset(self._plan.streams): (0.0, ())}

        def least(now: Bound) -> tuple[float, tuple[Step, ...]]:
            if now not in known:
                options = []
                for stream in self._plan.streams:
                    ways = [Step(stream, via) for via in self._plan.neighbours[stream] if via in now]
                    if stream in now or not ways:
                        continue
                    step = min(ways, key=self.candidates)
                    rest, steps = least(now | {stream})
                    work = 1 + self.candidates(step) + self.growth(now, stream) * rest
                    options.append((work, (step, *steps)))
                known[now] = min(options, key=lambda option: option[0])
            return known[now]

        return least(bound)
