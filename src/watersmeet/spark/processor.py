"""One core of a join of two streams.

Order inside a micro-batch, as in-process: left rows probe the stored right rows, then are stored; right rows probe the
stored left rows, new ones included, then are stored. A left row is stored on one core, and the right row comes there,
so a pair of two new rows is found once, by the right row. While the routing table changes, a left row may be here for
the sake of some generations' right rows only (see :mod:`watersmeet.balance.placement`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Bools, Int32s
from watersmeet.engine.result import gather_pairs, pairs_at_once
from watersmeet.spark.core import Arrived, Core, row_bytes
from watersmeet.spark.identity import Identity
from watersmeet.spark.routing import Routing
from watersmeet.spark.run_cache import RunCache
from watersmeet.spark.runs import Found
from watersmeet.spark.segments import Segments
from watersmeet.spark.state import Manifest, Origin, Run, RunStore
from watersmeet.spark.tables import current_reasons
from watersmeet.spec.expression import Side
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.plan import OTHER_SIDE, JoinPlan
from watersmeet.window.stream_window import Match, StreamWindow

__all__ = ["JoinProcessor"]


class JoinProcessor(Core):
    """Joins the envelopes of one core."""

    def __init__(
        self,
        plan: JoinPlan,
        identity: Identity,
        *,
        cache_bytes: int,
        fail_on_late: bool,
        routing: Routing,
        result: pa.Schema,
    ) -> None:
        super().__init__(plan, identity, cache_bytes=cache_bytes, fail_on_late=fail_on_late)
        self._plan = plan
        self._routing = routing
        self._result = result
        self._windows: dict[Side, StreamWindow] = {}

    def open(self, store: RunStore, cache: RunCache | None) -> Segments:
        """Return what finds the segments of runs."""
        self._segments = Segments(self._plan, store, cache)
        return self._segments

    def join(self, manifest: Manifest, arrived: dict[Side, Arrived], found: Found) -> Iterator[pa.Table]:
        """Yield the pairs of a micro-batch."""
        self._windows = self._segments.windows(manifest.runs, found)
        for side in ("left", "right"):
            own, other = self._windows[side], self._windows[OTHER_SIDE[side]]
            batch = self._batch(side, arrived[side])
            for window, keep in self._probes(arrived[side], other, manifest.runs[OTHER_SIDE[side]]):
                probing, group = batch.keep(keep), _kept(arrived[side].group, keep)
                for matches in _portions(window.probe(probing), probing):
                    if group is not None:
                        for match in matches:
                            self.groups.add("pairs", group[match.who])
                    yield gather_pairs(probing, matches, self._result)
            storing, group = batch.keep(arrived[side].stored), _kept(arrived[side].group, arrived[side].stored)
            if group is not None:
                self.groups.add(side, group)
            if len(storing):
                runs = manifest.runs[side]
                made = Origin(side, 0, runs[-1].end if runs else 0, self.live.newest)
                runs.append(self._segments.add(storing, own, other, made))

    def _probes(
        self, arrived: Arrived, other: StreamWindow, runs: list[Run]
    ) -> Iterator[tuple[StreamWindow, Bools | None]]:
        """Yield a window and which rows probe it (None: all); one per generation where rows look into some of them."""
        if arrived.probed is None:
            yield other, None
            return
        segments = list(other.segments)
        for generation in sorted({run.generation for run in runs}):
            window = StreamWindow(self._plan, other.side)
            window.segments.extend(
                segment for segment, run in zip(segments, runs, strict=True) if run.generation == generation
            )
            yield window, (arrived.probed >> (generation - self.live.oldest) & 1).astype(bool)

    def reasons(self) -> tuple[str, ...]:
        """Return why the newest generation was made."""
        return current_reasons(self._routing.tables, self._routing.cores, self.live.newest)

    def merge(self, stream: Side, runs: list[Run]) -> Run:
        """Put the last runs of a side together."""
        return self._segments.merge(stream, runs, self._windows[OTHER_SIDE[stream]])

    def _batch(self, side: Side, arrived: Arrived) -> KeyedBatch:
        counts = arrived.counts
        if counts is None and self._plan.time is None:  # none has come
            counts = {name: np.empty(0, np.int64) for name in OTHER_SIDE}
        arrival = None if counts is None else Arrival(counts[side], counts[OTHER_SIDE[side]])
        return KeyedBatch(self._plan, side, arrived.rows, arrival)


def _kept(group: Int32s | None, keep: Bools | None) -> Int32s | None:
    return group if group is None or keep is None else group[keep]


def _portions(matches: Iterator[Match], probing: KeyedBatch) -> Iterator[list[Match]]:
    """Yield matches, as many pairs at a time as a table of bounded size has."""
    own = row_bytes(probing.rows)
    waiting: list[Match] = []
    room = 1.0
    for match in matches:
        most = pairs_at_once(own + row_bytes(match.stored))
        begin = 0
        while begin < len(match.who):
            some = slice(begin, begin + max(1, int(room * most)))
            waiting.append(Match(match.who[some], match.stored, match.row[some]))
            room -= len(waiting[-1].who) / most
            begin = some.stop
            if room * most < 1:
                yield waiting
                waiting, room = [], 1.0
    if waiting:
        yield waiting
