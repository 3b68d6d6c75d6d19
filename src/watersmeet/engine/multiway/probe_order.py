"""The order in which a block's rows pass through the stages of the other streams.

Every order gives the same results; orders differ in the number of partial results. The best order for a stream has the
least work, and is found by dynamic programming over the sets of streams that are bound (at most 2^7). The work of a
step is the number of partial results that probe and of candidates that they find. Both are estimated from recent
passages through stages: how many candidates a row of one stream finds in another's window, and by how much partial
results that bind a set of streams multiply in a stage. Without observations they are estimated from samples of both
streams, as if conditions were independent.

Observations are halved at every decision, so old ones fade. Decisions are made after certain numbers of rows, never
after a time, so a join of the same rows always takes the same decisions.
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
from watersmeet.spec.expression import StreamName
from watersmeet.window.sample import key_fractions, sample_rows

__all__ = ["ProbeOrders"]

BoundStreams = frozenset[StreamName]

FIRST_DECISION: Final = 1 << 10
MOST_ROWS_BETWEEN: Final = 1 << 17
"""Rows from one decision to the next: as many as all before, but at most this many."""
FEWEST_SEEN: Final = 16
"""Partial results that must have passed before their rate is used instead of a sample's."""
FORGET: Final = 0.5


@dataclass(slots=True)
class Rate:
    """A rate of the recent past: ``came`` per ``of``."""

    of: float = 0.0
    came: float = 0.0

    @property
    def value(self) -> float | None:
        """The rate, or None while there are too few observations. Nothing counts as half an event."""
        return (self.came + 0.5) / (self.of + 1) if self.of >= FEWEST_SEEN else None


@dataclass(frozen=True, slots=True)
class _Way:
    """Steps, and the work that they are expected to cost per partial result that begins them."""

    work: float
    steps: tuple[Step, ...]


class ProbeOrders:
    """Chooses the order for every stream, and chooses again from time to time."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._plan: MultiPlan = stages.plan
        self._candidates: defaultdict[Step, Rate] = defaultdict(Rate)
        self._growth: defaultdict[tuple[BoundStreams, tuple[StreamName, ...]], Rate] = defaultdict(Rate)
        self._best: dict[tuple[BoundStreams, tuple[StreamName, ...]], _Way] = {}
        self._fractions: dict[frozenset[StreamName], float] = {}
        self._entered = dict.fromkeys(self._plan.streams, 0.0)
        self._total = 0
        self._next_decision = FIRST_DECISION
        self.fixed: dict[StreamName, tuple[Step, ...]] = {}
        """Orders that replace the chosen ones, to measure what choosing is worth."""

    def count(self, stream: StreamName, rows: int) -> bool:
        """Count rows that have entered; tell whether it is time to decide again."""
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

    def note(self, bound: BoundStreams, step: Step, passage: Passage) -> None:
        """Record a passage of partial results that bind ``bound``."""
        candidates, growth = self._candidates[step], self._growth[bound, step.streams]
        candidates.of += passage.probing
        candidates.came += passage.candidates
        growth.of += passage.probing
        growth.came += passage.found

    def share(self, stream: StreamName) -> float:
        """Return the fraction of the recent rows that are a stream's."""
        return (self._entered[stream] + 1) / (sum(self._entered.values()) + len(self._entered))

    def steps(self, bound: BoundStreams, stash: StashPlan | None = None) -> tuple[Step, ...]:
        """Return the steps from partial results that bind ``bound`` to results."""
        if stash is None and len(bound) == 1 and (fixed := self.fixed.get(next(iter(bound)))) is not None:
            return fixed
        return self._way(bound, stash).steps

    def work(self, bound: BoundStreams, stash: StashPlan | None = None) -> float:
        """Return the work expected for a partial result that binds ``bound``: partial results and candidates."""
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

    def growth(self, bound: BoundStreams, streams: tuple[StreamName, ...]) -> float:
        """Return the factor by which partial results multiply when they get a row of each of ``streams``."""
        seen = self._growth[bound, streams].value
        if seen is not None:
            return seen
        expected = float(self._window_rows(streams[0])) if len(streams) == 1 else self.live_pairs(*streams)
        for stream in streams:
            for other in self._plan.neighbours[stream]:
                if other in bound:
                    expected *= self.fraction(stream, other)
        return expected

    def live_pairs(self, first: StreamName, second: StreamName) -> float:
        """Return how many matches there are between the rows of two windows."""
        return self._window_rows(first) * self.growth(frozenset((first,)), (second,))

    def fraction(self, one: StreamName, other: StreamName) -> float:
        """Return the fraction of pairs of two streams' rows that match, as sampled."""
        name = frozenset((one, other))
        if name not in self._fractions:
            self._fractions[name] = self._sampled(one, other)
        return self._fractions[name]

    def _sampled(self, one: StreamName, other: StreamName) -> float:
        pair = self._plan.pair(one, other)
        left, right = self._sample(pair.left), self._sample(pair.right)
        fraction = 1.0
        if left is not None and right is not None:
            for number, axis in enumerate(pair.plan.axes):
                if number != pair.plan.time:  # a window holds little beyond what a row meets by time
                    fraction *= key_fractions(axis, "left", left, right, pair.plan.schemas)
        return fraction

    def _sample(self, stream: StreamName) -> pa.RecordBatch | None:
        chunks = self._stages.of[stream].rows.chunks
        return sample_rows(chunks[-1].rows) if chunks else None

    def _window_rows(self, stream: StreamName) -> int:
        return max(1, len(self._stages.of[stream].rows))

    def _way(self, bound: BoundStreams, stash: StashPlan | None) -> _Way:
        """Return the steps with the least work; of equal ones those in the streams' order."""
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

    def _next_steps(self, bound: BoundStreams, stash: StashPlan | None) -> Iterator[Step]:
        """Yield for every stream that can be bound next (or for both in the stash) the step via its best neighbour."""
        stashed = () if stash is None or not bound.isdisjoint(stash.streams) else stash.streams
        for stream in self._plan.streams:
            ways = [Step((stream,), via) for via in self._plan.neighbours[stream] if via in bound]
            if ways and stream not in bound and stream not in stashed:
                yield min(ways, key=self.candidates)
        if stash is not None and stashed:
            ways = [Step(stash.streams, via) for via in stash.members if via in bound]
            if ways:
                yield min(ways, key=lambda step: self.candidates(step, stash))
