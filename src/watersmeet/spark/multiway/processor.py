"""One core of a join of many streams.

Inside a micro-batch the streams' rows enter one after the other and are stored at once; each block takes from the other
streams only what entered before it, so every result is found once (see :mod:`watersmeet.engine.multiway.stage`).

A worker remembers the stages of the cores it had last, with what the strategy knows: match rates, and the stash. They
are used again if they are made of just the pieces that the manifest lists; otherwise stages are put together from
these, and the stash begins anew: what it lacks is recomputed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

import pyarrow as pa

from watersmeet.engine.multiway.circular import Circular
from watersmeet.engine.multiway.plan import MultiPlan
from watersmeet.engine.multiway.rows import RowStore
from watersmeet.engine.multiway.stage import Stage
from watersmeet.engine.multiway.stashed import Stashed, strategy_of
from watersmeet.engine.result import pairs_at_once
from watersmeet.spark.core import Core, row_bytes
from watersmeet.spark.envelope import Envelope
from watersmeet.spark.identity import Identity
from watersmeet.spark.multiway.pieces import Pieces
from watersmeet.spark.remembered import Remembered
from watersmeet.spark.run_cache import RunCache
from watersmeet.spark.runs import Found
from watersmeet.spark.state import Manifest, Run, RunStore
from watersmeet.spec.expression import Side
from watersmeet.spec.options import Strategy

__all__ = ["MultiJoinProcessor", "StrategyOptions"]

Runs = tuple[str, ...]

_remembered: Remembered[Runs, Circular] = Remembered()
"""Strategies with their stages, by the keys of the runs that these are made of."""


@dataclass(frozen=True, slots=True)
class StrategyOptions:
    """What a strategy is made with."""

    name: Strategy
    stash_rows: int


class MultiJoinProcessor(Core):
    """Joins the envelopes of one core."""

    def __init__(
        self, plan: MultiPlan, options: StrategyOptions, identity: Identity, *, cache_bytes: int, fail_on_late: bool
    ) -> None:
        super().__init__(plan, identity, cache_bytes=cache_bytes, fail_on_late=fail_on_late)
        self._plan = plan
        self._options = options
        self._merged: set[Side] = set()
        self._strategy: Circular | None = None

    def open(self, store: RunStore, cache: RunCache | None) -> Pieces:
        """Return what finds the pieces of runs."""
        self._pieces = Pieces(self._plan, store, cache)
        return self._pieces

    def join(self, manifest: Manifest, arrived: dict[Side, Envelope], found: Found) -> Iterator[pa.Table]:
        """Yield the results of a micro-batch."""
        strategy = self._strategy = self._recalled(manifest, found)
        stages = strategy.stages
        for stream, new in arrived.items():
            if new.rows.num_rows == 0:
                continue
            block = stages.block(stream, new.rows, new.counts, new.times)
            manifest.runs[stream].append(self._pieces.add(block, stages, manifest.next(stream, self.live.newest)))
            step = pairs_at_once(sum(map(_row_bytes, stages.of.values())))
            for partials in strategy.join(block):
                for begin in range(0, len(partials), step):
                    yield stages.gather(partials.extended(slice(begin, begin + step), {}))
            strategy.count(block)

    def merge(self, stream: Side, runs: list[Run]) -> Run:
        """Put the last runs of a stream together."""
        assert self._strategy is not None, "runs are merged after a join"
        self._merged.add(stream)
        return self._pieces.merge(stream, runs, self._strategy.stages)

    def expired(self, runs: list[Run], before: int) -> list[Run]:
        """Return the oldest runs whose rows have all expired: the numbers of those kept have no gap."""
        return list(takewhile(lambda run: run.high < before, runs))

    def rest(self, manifest: Manifest) -> None:
        """Go on with the stages if this worker remembers them; none need be put together."""
        self._strategy = _remembered.pop(_keys(manifest))

    def settled(self, manifest: Manifest, before: Mapping[Side, int]) -> None:
        """Bring the stages to what the manifest lists, and remember them."""
        if self._strategy is None:  # a rest, and this worker does not remember the stages
            return
        self._strategy.expire(before)
        for stream in self._merged:
            pieces = [self._pieces.find(stream, run, Found()) for run in manifest.runs[stream]]
            self._strategy.stages.of[stream].replace(pieces)
        self._merged.clear()
        _remembered.put(_keys(manifest), self._strategy, _nbytes(self._strategy))

    def _recalled(self, manifest: Manifest, found: Found) -> Circular:
        """Return the strategy that joined the last micro-batch, if its stages still hold, or a new one."""
        known = _remembered.pop(_keys(manifest))
        stages = self._pieces.stages(manifest.runs, found)
        if known is not None and all(
            _are_the_same(stage.rows, known.stages.of[stream].rows) for stream, stage in stages.of.items()
        ):
            return known
        return strategy_of(stages, self._options.name, self._options.stash_rows, fills=False)


def _row_bytes(stage: Stage) -> int:
    """Return how many bytes the widest row has that a stage may give, by the averages of its chunks."""
    return max((row_bytes(chunk.rows) for chunk in stage.rows.chunks), default=1)


def _are_the_same(rows: RowStore, known: RowStore) -> bool:
    """Tell whether two stores hold the same rows, and give those to come the same numbers."""
    return rows.end == known.end and list(map(id, rows.chunks)) == list(map(id, known.chunks))


def _nbytes(strategy: Circular) -> int:
    stash = strategy.stash if isinstance(strategy, Stashed) else None
    return sum(stage.nbytes for stage in strategy.stages.of.values()) + (0 if stash is None else stash.nbytes)


def _keys(manifest: Manifest) -> Runs:
    return manifest.join, *(run.key for runs in manifest.runs.values() for run in runs)
