"""The order in which a block's rows pass through the stages of the other streams.

Every order gives the same results; orders differ in the number of partial results. The best order for a stream has the
least work, and is found by dynamic programming over the sets of streams that are bound (at most 2^7). The work of a
step is the number of partial results that probe and of candidates that they find. Both are estimated from recent
passages through stages: how many candidates a row of one stream finds in another's window, and by how much partial
results that bind a set of streams multiply in a stage. Without observations they are estimated from samples of both
streams, as if conditions were independent, but for equalities that follow from each other.

*Derived equalities* (see :mod:`watersmeet.engine.multiway.plan`) open ways that skip a stream which would multiply
partial results. A stage needs an index more for that: they are used while the work they save is worth it.

*Wiring.* A ring that is wired in an order leaves one way: on to the next stream of the ring that can be reached.

Observations are halved at every decision, so old ones fade. Decisions are made after certain numbers of rows, never
after a time, so a join of the same rows always takes the same decisions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import pyarrow as pa

from watersmeet.engine.multiway.plan import MultiPlan
from watersmeet.engine.multiway.stage import Passage, Stages, Step
from watersmeet.engine.multiway.stash import StashPlan
from watersmeet.spec.expression import Column, StreamName
from watersmeet.window.sample import key_fractions, sample_rows

__all__ = ["ProbeOrders", "Shares"]

BoundStreams = frozenset[StreamName]
Shares = tuple[tuple[tuple[StreamName, ...], float], ...]
"""Which share of some stages, or of the stash of two streams, a way leads through: all of what is not named."""

FIRST_DECISION: Final = 1 << 10
MOST_ROWS_BETWEEN: Final = 1 << 17
"""Rows from one decision to the next: as many as all before, but at most this many."""
FEWEST_SEEN: Final = 16
"""Partial results that must have passed before their rate is used instead of a sample's."""
FORGET: Final = 0.5
INDEX_WORK: Final = 2.0
"""What a row costs in an index, where a candidate costs one."""
WORTHWHILE: Final = 0.7
"""Derived equalities are used once they promise at most this part of the work without."""
KEPT: Final = 0.9
"""And as long as they promise this."""


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

    def __init__(self, stages: Stages, wiring: tuple[StreamName, ...] = ()) -> None:
        self._stages = stages
        self._plan: MultiPlan = stages.plan
        self.wiring = wiring
        self._open: dict[StreamName, set[StreamName]] = {}
        """By stream the others whose rows may look for its rows by a derived equality."""
        self._candidates: defaultdict[Step, Rate] = defaultdict(Rate)
        self._growth: defaultdict[tuple[BoundStreams, tuple[StreamName, ...]], Rate] = defaultdict(Rate)
        self._best: dict[tuple[BoundStreams, tuple[StreamName, ...], Shares], _Way] = {}
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
        if self._plan.derived and not self.wiring:
            self._weigh_derived()
        return True

    def _weigh_derived(self) -> None:
        """Decide whether to use derived equalities, and have stages indexed for the ways they open."""
        limit = KEPT if self._open else WORTHWHILE
        without, _ = self._least_work({})
        every = {
            stream: {other for streams in self._plan.derived if stream in streams for other in streams - {stream}}
            for stream in self._plan.streams
        }
        work, ways = self._least_work(every)
        used: dict[StreamName, set[StreamName]] = {}
        for step in (step for way in ways for step in way.steps):
            if frozenset((*step.streams, step.via)) in self._plan.derived:
                used.setdefault(step.streams[0], set()).add(step.via)
        work += sum(INDEX_WORK * len(others) * self.share(stream) for stream, others in used.items())
        self._best.clear()
        self._open = used if work <= limit * without else {}
        for stream, stage in self._stages.of.items():
            stage.index_for(self._open.get(stream, set()))

    def _least_work(self, opened: dict[StreamName, set[StreamName]]) -> tuple[float, list[_Way]]:
        """Return the work that is expected per row that enters if these derived equalities are used, and the ways."""
        self._open = opened
        self._best.clear()
        ways = [self._way(frozenset((stream,)), None, ()) for stream in self._plan.streams]
        return sum(self.share(stream) * way.work for stream, way in zip(self._plan.streams, ways, strict=True)), ways

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

    def steps(self, bound: BoundStreams, stash: StashPlan | None = None, shares: Shares = ()) -> tuple[Step, ...]:
        """Return the steps from partial results that bind ``bound`` to results."""
        if stash is None and len(bound) == 1 and (fixed := self.fixed.get(next(iter(bound)))) is not None:
            return fixed
        return self._way(bound, stash, shares).steps

    def work(self, bound: BoundStreams, stash: StashPlan | None = None, shares: Shares = ()) -> float:
        """Return the work expected for a partial result that binds ``bound``: partial results and candidates."""
        return self._way(bound, stash, shares).work

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
            for fraction in self._fractions_of(stream, bound):
                expected *= fraction
        return expected

    def _fractions_of(self, stream: StreamName, bound: BoundStreams) -> Iterable[float]:
        """Return which fractions of a stream's rows meet those bound, once for what is equal to each other anyway."""
        fractions: dict[frozenset[Column] | StreamName, float] = {}
        for other in self._plan.streams:
            streams = frozenset((stream, other))
            if other not in bound:
                continue
            if other in self._plan.neighbours[stream] or streams in self._plan.derived:
                condition = self._plan.classes.get(streams, other)
                fractions[condition] = min(fractions.get(condition, 1.0), self.fraction(stream, other))
        return fractions.values()

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
        pair = self._plan.edge(one, other)
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

    def _way(self, bound: BoundStreams, stash: StashPlan | None, shares: Shares) -> _Way:
        """Return the steps with the least work; of equal ones those in the streams' order."""
        stashed = () if stash is None else stash.streams
        name = bound, stashed, shares
        if name not in self._best:
            options = [_Way(0.0, ())] if len(bound) == len(self._plan.streams) else []
            for step in self._next_steps(bound, stash):
                rest = self._way(bound.union(step.streams), stash, shares)
                found = self.candidates(step, stash) + self.growth(bound, step.streams) * rest.work
                options.append(_Way(1 + self._share(step, shares) * found, (step, *rest.steps)))
            self._best[name] = min(options, key=lambda way: way.work)
        return self._best[name]

    def _share(self, step: Step, shares: Shares) -> float:
        """Return by how much less is found than what is expected of a step; what a stash has shown, it had."""
        is_seen = len(step.streams) > 1 and self._candidates[step].value is not None
        return 1.0 if is_seen else dict(shares).get(step.streams, 1.0)

    def _next_steps(self, bound: BoundStreams, stash: StashPlan | None) -> Iterator[Step]:
        """Yield for every stream that can be bound next (or for both in the stash) the step via its best neighbour."""
        stashed = () if stash is None or not bound.isdisjoint(stash.streams) else stash.streams
        steps = (self._step_to(stream, bound) for stream in self._following(bound) if stream not in stashed)
        reached = (step for step in steps if step is not None)
        yield from islice(reached, 1) if self.wiring else reached
        if stash is not None and stashed:
            ways = [Step(stash.streams, via) for via in stash.members if via in bound]
            if ways:
                yield min(ways, key=lambda step: self.candidates(step, stash))

    def _step_to(self, stream: StreamName, bound: BoundStreams) -> Step | None:
        """Return the step to a stream through the best of those bound, if any leads there."""
        sources = (*self._plan.neighbours[stream], *sorted(self._open.get(stream, ())))
        ways = [Step((stream,), via) for via in sources if via in bound]
        return min(ways, key=self.candidates, default=None)

    def _following(self, bound: BoundStreams) -> Iterator[StreamName]:
        """Yield the streams that are not bound: as the ring is wired, beginning behind one that is."""
        ring = self.wiring or self._plan.streams
        ends = (at for at, stream in enumerate(ring, 1) if stream in bound and ring[at % len(ring)] not in bound)
        start = next(ends, 0) if self.wiring else 0
        yield from (stream for stream in (*ring[start:], *ring[:start]) if stream not in bound)
