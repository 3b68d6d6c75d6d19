"""One core of a join of two streams.

Order inside a micro-batch, as in :mod:`watersmeet.engine.topologies.whole_windows`: left rows probe the stored right
rows, then are stored; right rows probe the stored left rows, new ones included, then are stored. So one proof holds for
both: a left row is stored on one core, and the right row comes there, so a pair of two new rows is found once, by the
right row. While the routing table changes, a left row may be here for the sake of some generations' right rows only
(see :mod:`watersmeet.balance.placement`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa

from watersmeet.arrays import Bools, Int32s
from watersmeet.engine.result import gather_pairs, in_tables, put_together
from watersmeet.spark.core_processor import CoreOptions, CoreProcessor
from watersmeet.spark.envelope import Envelope
from watersmeet.spark.identity import Identity
from watersmeet.spark.judge import Judge
from watersmeet.spark.marks import Marks
from watersmeet.spark.ordering import ResultOrder
from watersmeet.spark.run_cache import RunCache
from watersmeet.spark.state import Manifest, Run, RunStore
from watersmeet.spark.tables import Tables
from watersmeet.spark.window_runs import WindowRuns
from watersmeet.spec.expression import StreamName
from watersmeet.spec.kinds import How
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.expiry import Bounds
from watersmeet.window.plan import OTHER_SIDE, JoinPlan
from watersmeet.window.stream_window import StreamWindow

__all__ = ["JoinProcessor"]

END: Final = 2**63
"""A place beyond those of all rows."""


class JoinProcessor(CoreProcessor):
    """Joins the envelopes of one core."""

    def __init__(
        self,
        plan: JoinPlan,
        identity: Identity,
        *,
        options: CoreOptions,
        tables: Tables,
        result: pa.Schema,
        how: How = "inner",
        ends: bool = False,
        order: ResultOrder | None = None,
    ) -> None:
        super().__init__(plan, identity, tables, options)
        self._plan = plan
        self._result = result
        self._ends = ends
        self._judge = None if how == "inner" else Judge(plan, how, result)
        self.keeps_marks = self._judge is not None
        self._order = order
        self._windows: dict[StreamName, StreamWindow] = {}

    def open(self, store: RunStore, cache: RunCache | None) -> WindowRuns:
        """Return the join's decoded runs."""
        self._window_runs, self._marks = WindowRuns(self._plan, store, cache), store.marks
        return self._window_runs

    def join(self, manifest: Manifest, arrived: dict[StreamName, Envelope]) -> Iterator[pa.Table]:
        """Yield the pairs of a micro-batch."""
        self._windows = self._window_runs.windows(manifest.runs)
        if self._judge is not None and self._marks is not None:
            yield from self._judged(self._judge, self._marks, manifest, arrived)
            return
        for side in ("left", "right"):
            own, other = self._windows[side], self._windows[OTHER_SIDE[side]]
            batch = self._batch(side, arrived[side])
            for window, keep in self._probes(arrived[side], other, manifest.runs[OTHER_SIDE[side]]):
                probing, group = batch.keep(keep), _kept(arrived[side].group, keep)
                for matches in in_tables(probing, window.probe(probing)):
                    if group is not None:
                        for match in matches:
                            self.groups.add("pairs", group[match.who])
                    pairs = gather_pairs(probing, matches, self._result)
                    yield pairs if self._order is None else self._order.placed(pairs, probing, matches)
            storing, group = batch.keep(arrived[side].stored), _kept(arrived[side].group, arrived[side].stored)
            if group is not None:
                self.groups.add(side, group)
            if len(storing):
                origin = manifest.next(side, self.live.newest)
                manifest.runs[side].append(self._window_runs.add(storing, own, other, origin))

    def _judged(
        self, judge: Judge, marks: Marks, manifest: Manifest, arrived: dict[StreamName, Envelope]
    ) -> Iterator[pa.Table]:
        """Yield what comes of rows that meet, in a join of another kind; each is stored where it has come to."""
        judge.begin(marks, self._windows, manifest)
        for side in ("left", "right"):
            own, other = self._windows[side], self._windows[OTHER_SIDE[side]]
            new = judge.enter(side, arrived[side])
            assert new.stored is None and new.probed is None, "kinds of joins that judge rows are not balanced"  # noqa: PT018
            batch = self._batch(side, new)
            yield from judge.results(batch, other.probe(batch))
            if len(batch):
                run = self._window_runs.add(batch, own, other, manifest.next(side, self.live.newest))
                manifest.runs[side].append(run)
                judge.stored(side, run, own.segments[-1])

    def unmatched(
        self, manifest: Manifest, lone: Mapping[StreamName, pa.RecordBatch], before: Bounds
    ) -> Iterator[pa.Table]:
        """Yield the rows of preserved sides that met nobody; with batch DataFrames no row is to come."""
        if self._judge is None or self._marks is None:
            return
        until = dict.fromkeys(before, END) if self._ends else before
        alone = (self._judge.without(side, rows) for side, rows in lone.items())
        yield from put_together(chain(alone, self._judge.due(self._marks, manifest, until, self._window_runs.find)))

    def given(self, results: pa.Table) -> pd.DataFrame:
        """Return results as Spark gets them: in order, where that is asked for."""
        return super().given(results) if self._order is None else self._order.rows(results)

    def beside(self, manifest: Manifest) -> int:
        """Return the most bytes that marks take."""
        return 0 if self._judge is None else self._judge.beside(manifest)

    def _probes(
        self, arrived: Envelope, other: StreamWindow, runs: list[Run]
    ) -> Iterator[tuple[StreamWindow, Bools | None]]:
        """Yield a window and the rows that probe it (None: all); a window per generation for rows that probe only some.

        Most rows probe all generations, at once.
        """
        if arrived.probed is None:
            yield other, None
            return
        everywhere = arrived.probed.are_all
        yield other, everywhere
        segments = list(other.segments)
        for generation in sorted({run.generation for run in runs}):
            keep = arrived.probed.have(self.live.newest - generation) & ~everywhere
            if keep.any():
                window = StreamWindow(self._plan, other.side)
                window.segments.extend(
                    segment for segment, run in zip(segments, runs, strict=True) if run.generation == generation
                )
                yield window, keep

    def merge(self, stream: StreamName, runs: list[Run]) -> Run:
        """Merge the last runs of a side."""
        other = self._windows[OTHER_SIDE[stream]]
        if self._judge is None:
            return self._window_runs.merge(stream, runs, other)
        return self._judge.merged(stream, runs, lambda: self._window_runs.merge(stream, runs, other))

    def _batch(self, side: StreamName, arrived: Envelope) -> KeyedBatch:
        """Return what has come of a side; its timestamps are known since late rows were left out."""
        counts = arrived.counts
        if counts is None and self._plan.time is None:  # none has come
            counts = {name: np.empty(0, np.int64) for name in OTHER_SIDE}
        arrival = None if counts is None else Arrival(counts[side], counts[OTHER_SIDE[side]])
        keys = {} if arrived.times is None or self._plan.time is None else {self._plan.time: arrived.times}
        return KeyedBatch(self._plan, side, arrived.rows, arrival, keys)


def _kept(group: Int32s | None, keep: Bools | None) -> Int32s | None:
    return group if group is None or keep is None else group[keep]
