"""One core of a join of many streams.

Inside a micro-batch the streams' rows enter one stream after the other and are stored at once. A block meets only rows
of other streams that entered before it, so every result is found once (see :mod:`watersmeet.engine.multiway.stage`).

A worker remembers the stages of the cores that it had last, with the strategy's match rates and stash. They are used
again if they consist of exactly the runs that the manifest lists. Otherwise stages are built from these, and the stash
begins empty: what it lacks is recomputed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

import pyarrow as pa

from watersmeet.engine.multiway.circular import Circular
from watersmeet.engine.multiway.plan import MultiPlan
from watersmeet.engine.multiway.rows import RowStore
from watersmeet.engine.multiway.stashed import Stashed, strategy_of
from watersmeet.spark.core_processor import CoreProcessor
from watersmeet.spark.envelope import Envelope
from watersmeet.spark.identity import Identity
from watersmeet.spark.multiway.stage_runs import StageRuns
from watersmeet.spark.remembered import Remembered
from watersmeet.spark.run_cache import RunCache
from watersmeet.spark.runs import Found
from watersmeet.spark.state import Manifest, Run, RunStore
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
        self, plan: MultiPlan, options: StrategyOptions, identity: Identity, *, cache_bytes: int, fail_on_late: bool
    ) -> None:
        super().__init__(plan, identity, cache_bytes=cache_bytes, fail_on_late=fail_on_late)
        self._plan = plan
        self._options = options
        self._merged: set[StreamName] = set()
        self._strategy: Circular | None = None

    def open(self, store: RunStore, cache: RunCache | None) -> StageRuns:
        """Return the join's decoded runs."""
        self._stage_runs = StageRuns(self._plan, store, cache)
        return self._stage_runs

    def join(self, manifest: Manifest, arrived: dict[StreamName, Envelope], found: Found) -> Iterator[pa.Table]:
        """Yield the results of a micro-batch."""
        strategy = self._strategy = self._recalled(manifest, found)
        stages = strategy.stages
        for stream, new in arrived.items():
            if new.rows.num_rows == 0:
                continue
            block = stages.block(stream, new.rows, new.counts, new.times)
            manifest.runs[stream].append(self._stage_runs.add(block, stages, manifest.next(stream, self.live.newest)))
            for partials in strategy.join(block):
                yield from stages.tables(partials)
            strategy.count(block)

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
        self._strategy = _remembered.pop(_keys(manifest))

    def settled(self, manifest: Manifest, before: Mapping[StreamName, int]) -> None:
        """Update the stages to the runs that the manifest lists, and remember them."""
        if self._strategy is None:  # nothing was joined, and this worker does not remember the stages
            return
        self._strategy.expire(before)
        for stream in self._merged:
            chunks = [self._stage_runs.find(stream, run, Found()) for run in manifest.runs[stream]]
            self._strategy.stages.of[stream].replace(chunks)
        self._merged.clear()
        _remembered.put(_keys(manifest), self._strategy, _nbytes(self._strategy))

    def _recalled(self, manifest: Manifest, found: Found) -> Circular:
        """Return the strategy that joined the last micro-batch, if its stages are still valid, or a new one."""
        known = _remembered.pop(_keys(manifest))
        stages = self._stage_runs.stages(manifest.runs, found)
        if known is not None and all(
            _are_the_same(stage.rows, known.stages.of[stream].rows) for stream, stage in stages.of.items()
        ):
            return known
        return strategy_of(stages, self._options.name, self._options.stash_rows, fills=False)


def _are_the_same(rows: RowStore, known: RowStore) -> bool:
    """Tell whether two stores hold the same rows and give new rows the same numbers."""
    return rows.end == known.end and list(map(id, rows.chunks)) == list(map(id, known.chunks))


def _nbytes(strategy: Circular) -> int:
    stash = strategy.stash if isinstance(strategy, Stashed) else None
    return sum(stage.nbytes for stage in strategy.stages.of.values()) + (0 if stash is None else stash.nbytes)


def _keys(manifest: Manifest) -> RunKeys:
    return manifest.join, *(run.key for runs in manifest.runs.values() for run in runs)
