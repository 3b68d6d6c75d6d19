"""One core of a join of many streams.

Inside a micro-batch the streams' rows enter one stream after the other and are stored at once. A block meets only rows
of other streams that entered before it, so every result is found once (see :mod:`watersmeet.engine.multiway.stage`).

A worker remembers the stages of the cores that it had last, with the strategy's match rates and stash. They are used
again if they consist of exactly the runs that the manifest lists. Otherwise stages are built from these, and the stash
begins empty: what it lacks is recomputed.

While the routing table changes, rows of groups that have changed owners are stored on former owners too, and several
cores may find a result. One of them gives it (see :mod:`watersmeet.balance.placement`, *Many streams*).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.engine.multiway.circular import Circular
from watersmeet.engine.multiway.partial import Partials
from watersmeet.engine.multiway.plan import MultiPlan
from watersmeet.engine.multiway.rows import RowStore
from watersmeet.engine.multiway.stashed import Stashed, strategy_of
from watersmeet.spark.core_processor import CoreOptions, CoreProcessor
from watersmeet.spark.envelope import Envelope
from watersmeet.spark.identity import Identity
from watersmeet.spark.multiway.stage_runs import StageRuns
from watersmeet.spark.remembered import Remembered
from watersmeet.spark.run_cache import RunCache
from watersmeet.spark.state import Manifest, Run, RunStore
from watersmeet.spark.tables import Tables
from watersmeet.spec.expression import StreamName
from watersmeet.spec.options import Strategy

__all__ = ["MultiJoinProcessor", "StrategyOptions"]

RunKeys = tuple[str, ...]

_remembered: Remembered[RunKeys, Circular] = Remembered()
"""Strategies with their stages, by the keys of the runs that these are made of."""


@dataclass(frozen=True, slots=True)
class StrategyOptions:
    """The options of a strategy."""

    name: Strategy
    stash_rows: int


class MultiJoinProcessor(CoreProcessor):
    """Joins the envelopes of one core."""

    def __init__(
        self,
        plan: MultiPlan,
        options: StrategyOptions,
        identity: Identity,
        *,
        core_options: CoreOptions,
        tables: Tables,
        centre: StreamName,
    ) -> None:
        super().__init__(plan, identity, tables, core_options)
        self._plan = plan
        self._centre = centre
        self._at_home: dict[StreamName, float] = {}
        self._options = options
        self._merged: set[StreamName] = set()
        self._strategy: Circular | None = None

    def open(self, store: RunStore, cache: RunCache | None) -> StageRuns:
        """Return the join's decoded runs."""
        self._stage_runs = StageRuns(self._plan, store, cache)
        return self._stage_runs

    def join(self, manifest: Manifest, arrived: dict[StreamName, Envelope]) -> Iterator[pa.Table]:
        """Yield the results of a micro-batch."""
        strategy = self._strategy = self._recalled(manifest)
        self._at_home.clear()
        stages = strategy.stages
        for stream, new in arrived.items():
            if new.rows.num_rows == 0:
                continue
            block = stages.block(stream, new.rows, new.counts, new.times)
            origin = manifest.next(stream, self.live.newest)
            manifest.runs[stream].append(self._stage_runs.add(block, stages, origin, new.probed))
            self._count(stream, new)
            for found_here in strategy.join(block):
                partials = self._given(found_here, manifest)
                if new.group is not None:
                    self.groups.add("pairs", new.group[partials.numbers[stream] - origin.first])
                if len(partials):
                    yield from stages.tables(partials)
            strategy.count(block)

    def _count(self, stream: StreamName, new: Envelope) -> None:
        """Count a stream's new rows for their groups: those whose home under the newest generation is here."""
        self._at_home[stream] = 1.0 if new.stored is None else float(new.stored.mean())
        if new.group is not None:
            own = new.group if new.stored is None else new.group[new.stored]
            self.groups.add("left" if stream == self._centre else "right", own)

    def _given(self, partials: Partials, manifest: Manifest) -> Partials:
        """Leave out the results that another core gives."""
        runs = manifest.runs[self._centre]
        homes = [self._stage_runs.homes[run.key] for run in runs]
        if all(some is None for some in homes):
            return partials
        oldest = np.min([_generations(manifest.runs[name], own) for name, own in partials.numbers.items()], axis=0)
        numbers, keep = partials.numbers[self._centre], np.ones(len(partials), bool)
        of_run = _places(runs, numbers)
        for place, (run, some) in enumerate(zip(runs, homes, strict=True)):
            if some is not None:
                own = np.flatnonzero(of_run == place)
                keep[own] = some.have(run.generation - oldest[own], numbers[own] - run.first)
        self.given_elsewhere += len(keep) - int(keep.sum())
        return partials if keep.all() else partials.picked(keep)

    def newest_bytes(self, manifest: Manifest) -> dict[StreamName, int]:
        """Return how many bytes the newest generation has stored: of the centre, and of all other streams.

        Rows whose home is elsewhere are left out, as far as the last micro-batch tells how many there are.
        """
        sides = {"left": 0.0, "right": 0.0}
        for stream, nbytes in super().newest_bytes(manifest).items():
            sides["left" if stream == self._centre else "right"] += nbytes * self._at_home.get(stream, 1.0)
        return {side: int(nbytes) for side, nbytes in sides.items()}

    def merge(self, stream: StreamName, runs: list[Run]) -> Run:
        """Merge the last runs of a stream."""
        assert self._strategy is not None, "runs are merged after a join"
        self._merged.add(stream)
        return self._stage_runs.merge(stream, runs, self._strategy.stages)

    def expired(self, runs: list[Run], before: int) -> list[Run]:
        """Return the oldest runs whose rows have all expired, so that the numbers of the others have no gap."""
        return list(takewhile(lambda run: run.high < before, runs))

    def rest(self, manifest: Manifest) -> None:
        """Use the stages if this worker remembers them; otherwise none are needed."""
        self._at_home.clear()
        self._strategy = _remembered.pop(_keys(manifest))

    def settled(self, manifest: Manifest, before: Mapping[StreamName, int]) -> None:
        """Update the stages to the runs that the manifest lists, and remember them."""
        if self._strategy is None:  # nothing was joined, and this worker does not remember the stages
            return
        self._strategy.expire(before)
        for stream in self._merged:
            chunks = [self._stage_runs.find(stream, run).indexed for run in manifest.runs[stream]]
            self._strategy.stages.of[stream].replace(chunks)
        self._merged.clear()
        _remembered.put(_keys(manifest), self._strategy, _nbytes(self._strategy))

    def _recalled(self, manifest: Manifest) -> Circular:
        """Return the strategy that joined the last micro-batch, if its stages are still valid, or a new one."""
        known = _remembered.pop(_keys(manifest))
        stages = self._stage_runs.stages(manifest.runs)
        if known is not None and all(
            _are_the_same(stage.rows, known.stages.of[stream].rows) for stream, stage in stages.of.items()
        ):
            return known
        return strategy_of(stages, self._options.name, self._options.stash_rows, fills=False)


def _places(runs: list[Run], numbers: Int64s) -> Int64s:
    """Return the place of the run that each row lies in."""
    return np.searchsorted([run.first for run in runs], numbers, side="right") - 1


def _generations(runs: list[Run], numbers: Int64s) -> Int64s:
    """Return the generation by which each row came."""
    return np.array([run.generation for run in runs])[_places(runs, numbers)]


def _are_the_same(rows: RowStore, known: RowStore) -> bool:
    """Tell whether two stores hold the same rows and give new rows the same numbers."""
    return rows.end == known.end and list(map(id, rows.chunks)) == list(map(id, known.chunks))


def _nbytes(strategy: Circular) -> int:
    stash = strategy.stash if isinstance(strategy, Stashed) else None
    return sum(stage.nbytes for stage in strategy.stages.of.values()) + (0 if stash is None else stash.nbytes)


def _keys(manifest: Manifest) -> RunKeys:
    return manifest.join, *(run.key for runs in manifest.runs.values() for run in runs)
