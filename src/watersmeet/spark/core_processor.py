"""One core of a join: a ``StatefulProcessor`` that gets envelopes and sends results to the unpacker.

This is what joins of two streams and of many have in common. In a micro-batch a core opens its envelopes and leaves out
late rows. The join gives results and adds runs to the manifest. The core removes runs that have expired, merges small
ones, and writes one record of metrics.

Spark also runs a micro-batch without input when the watermark has moved, and then no task sends envelopes. So a core
registers a timer that the next watermark reaches. When it expires, the core removes expired runs and writes its record.

Between micro-batches a core keeps nothing: its windows are built from the decoded runs of the manifest (see
:mod:`watersmeet.spark.runs`), which is fast if the worker has them.
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from watersmeet.balance.loads import GroupCounter
from watersmeet.engine.result import bounded_tables
from watersmeet.spark.clock import Clock
from watersmeet.spark.core_ids import KEEPER
from watersmeet.spark.envelope import Envelope, open_blob, together
from watersmeet.spark.gc_freeze import freeze_once
from watersmeet.spark.identity import Identity
from watersmeet.spark.late_rows import LateRows
from watersmeet.spark.output import Report, report_rows, result_rows
from watersmeet.spark.remembered import Owner
from watersmeet.spark.run_cache import RunCache
from watersmeet.spark.runs import DecodedRuns
from watersmeet.spark.state import Manifest, Run, RunStore, mergeable
from watersmeet.spark.tables import Tables
from watersmeet.spec.errors import SnapshotError
from watersmeet.spec.expression import StreamName
from watersmeet.window.admission import is_late, keep_rows, late_error, times_of
from watersmeet.window.expiry import Bounds, expired_before
from watersmeet.window.streams import Streams

__all__ = ["CoreOptions", "CoreProcessor"]

DECISIONS_SHOWN: Final = 50
"""Reasons of a generation that every micro-batch shows; the log has all."""


@dataclass(frozen=True, slots=True)
class Generations:
    """The newest and the oldest generation by which a micro-batch was routed."""

    newest: int
    oldest: int


@dataclass(slots=True)
class _Counts:
    """Numbers of a micro-batch: all rows, late ones, those left out because of a null; messages left out."""

    rows_in: int = 0
    late_rows: int = 0
    null_rows: int = 0
    bad_messages: int = 0
    live: set[Generations] = field(default_factory=set)
    """The generations that the routing tasks used."""
    kept_late: dict[StreamName, pa.RecordBatch] = field(default_factory=dict)
    """Late rows that this core gives."""


@dataclass(frozen=True, slots=True)
class CoreOptions:
    """What every core of a join is told, beside the join itself."""

    cache_bytes: int
    """Bytes of decoded runs that each executor may keep on its disk."""
    fail_on_late: bool = False
    behind: int = 0
    """Milliseconds by which the query's watermark lies behind the join's own."""
    follows: bool = False
    """Whether a row is late behind the watermark of the micro-batch before (:mod:`watersmeet.spark.event_time`)."""
    kept_late: LateRows | None = None
    """How late rows leave, if they are kept."""


class CoreProcessor(StatefulProcessor):
    """Joins the envelopes of one core."""

    runs: DecodedRuns[Any]
    """The join's decoded runs; made by :meth:`open`."""
    live: Generations
    """The generations of the current micro-batch."""
    groups: GroupCounter
    """Rows and pairs of the current micro-batch by group, if groups are counted."""
    given_elsewhere: int = 0
    """Results of the current micro-batch that this core found and another core gives."""
    keeps_marks: bool = False
    """Whether runs have marks beside them."""

    def __init__(self, streams: Streams, identity: Identity, tables: Tables, options: CoreOptions) -> None:
        self._streams = streams
        self._tables = tables
        self._identity = identity
        self._core_options = options
        self._kept_late = options.kept_late

    @abstractmethod
    def open(self, store: RunStore, cache: RunCache | None) -> DecodedRuns[Any]:
        """Return the join's decoded runs."""

    @abstractmethod
    def join(self, manifest: Manifest, arrived: dict[StreamName, Envelope]) -> Iterator[pa.Table]:
        """Yield a micro-batch's results in tables of bounded size, and add its rows to the manifest as runs."""

    @abstractmethod
    def merge(self, stream: StreamName, runs: list[Run]) -> Run:
        """Merge the last runs of a stream into one of the next level."""

    def given(self, results: pa.Table) -> pd.DataFrame:
        """Return results as Spark gets them."""
        return result_rows(results)

    def expired(self, runs: list[Run], before: int) -> list[Run]:
        """Return the runs to remove: those whose rows all lie before ``before``."""
        return [run for run in runs if run.high < before]

    def unmatched(
        self,
        manifest: Manifest,  # noqa: ARG002
        lone: Mapping[StreamName, pa.RecordBatch],  # noqa: ARG002
        before: Bounds,  # noqa: ARG002
    ) -> Iterator[pa.Table]:
        """Yield rows of preserved streams that met nobody: ``lone`` ones, and those that no row to come can meet."""
        return iter(())

    def beside(self, manifest: Manifest) -> int:  # noqa: ARG002
        """Return the bytes that lie beside the runs."""
        return 0

    def rest(self, manifest: Manifest) -> None:
        """Begin a micro-batch without envelopes, in which runs only expire."""

    def settled(self, manifest: Manifest, before: Mapping[StreamName, int]) -> None:
        """End a micro-batch: the manifest is final, and no row before ``before`` can be met any more."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._handle = handle
        self._heard: set[int] = set()
        self._store = RunStore(handle, marked=self.keeps_marks)
        self.runs = self.open(self._store, RunCache.of_executor(self._core_options.cache_bytes))

    def handleInputRows(  # noqa: N802 -- Spark's name
        self,
        key: Any,  # noqa: ANN401
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Join one micro-batch of this core's envelopes."""
        begin = time.perf_counter()
        core = int(key[0])
        manifest = self._open(core)
        clock = Clock.at(timerValues.getCurrentWatermarkInMs(), self._core_options.behind, manifest.clock)
        earlier, watermark = clock.reached, self._watermark(timerValues, clock)
        arrived, lone, counted, counts = self._arrived(rows, earlier if self._core_options.follows else watermark)
        self.live = _agreed(counts.live, manifest)
        self.groups, self.given_elsewhere = GroupCounter(), 0
        ready = time.perf_counter()
        pairs, late = 0, self._kept_late
        for results in bounded_tables(self.join(manifest, arrived)):
            pairs += results.num_rows
            yield self._leaving(results)
        for rows_of_stream in bounded_tables(late.of_rows(counts.kept_late)) if late is not None else ():
            yield self.given(rows_of_stream)
        reached = {stream: watermark if self._is_timed else counted.get(stream, 0) for stream in self._streams.schemas}
        unmatched = 0
        for results in bounded_tables(self.unmatched(manifest, lone, expired_before(self._streams, reached))):
            unmatched += results.num_rows
            yield self._leaving(results)
        done = time.perf_counter()
        before = self._expire(manifest, reached)
        for stream in before:
            self._merge(manifest, stream, before[stream])
        self.settled(manifest, before)
        self.runs.check()
        if self._is_timed:
            clock.hear(counted)
            manifest.clock = clock.to_json()
        self._store.save(manifest)
        self._heard.add(core)
        moment = timerValues.getCurrentWatermarkInMs()
        if moment >= 0 and core != KEEPER:  # below 0 a query has no timers
            self._handle.registerTimer(moment + 1)
        report = replace(
            self._held(core, manifest),
            rows_in=counts.rows_in,
            pairs=pairs,
            given_elsewhere=self.given_elsewhere,
            late_rows=counts.late_rows,
            null_rows=counts.null_rows,
            bad_messages=counts.bad_messages,
            unmatched_rows=unmatched,
            work_seconds=done - ready,
            busy_seconds=time.perf_counter() - begin,
            groups=self.groups.report(),
        )
        if core == KEEPER:  # it hears of every micro-batch
            waiting = clock.waiting_for(self._streams) if self._is_timed else None
            yield report_rows(report, "\n".join(self._decisions()), waiting)
        else:
            yield report_rows(report)
        freeze_once("join")

    def handleExpiredTimer(  # noqa: N802 -- Spark's name
        self,
        key: Any,  # noqa: ANN401
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        """Judge rows, remove expired runs and write the record, in a micro-batch without input."""
        begin, core = time.perf_counter(), int(key[0])
        if core in self._heard:  # its envelopes came in this micro-batch
            return
        manifest = self._open(core)
        stored = [run.generation for runs in manifest.runs.values() for run in runs]
        self.live = Generations(max(stored, default=0), min(stored, default=0))
        clock = Clock.at(timerValues.getCurrentWatermarkInMs(), self._core_options.behind, manifest.clock)
        watermark = self._watermark(timerValues, clock)
        manifest.clock = clock.to_json()
        self.rest(manifest)
        reached, unmatched = dict.fromkeys(self._streams.schemas, watermark), 0
        for results in bounded_tables(self.unmatched(manifest, {}, expired_before(self._streams, reached))):
            unmatched += results.num_rows
            yield self._leaving(results)
        self.settled(manifest, self._expire(manifest, reached))
        self.runs.check()
        self._store.save(manifest)
        report = replace(self._held(core, manifest), unmatched_rows=unmatched)
        yield report_rows(replace(report, busy_seconds=time.perf_counter() - begin))

    def close(self) -> None:
        """Do nothing: Spark closes the state."""

    def _open(self, core: int) -> Manifest:
        """Return the core's manifest."""
        manifest = self._store.load(self._identity, self._streams.schemas)
        self.runs.begin(Owner(manifest.join, core), manifest.runs)
        return manifest

    def _held(self, core: int, manifest: Manifest) -> Report:
        """Return what a core reports of the rows that it holds, and of where it found them."""
        runs = [run for some in manifest.runs.values() for run in some]
        return Report(
            core,
            window_rows=sum(run.rows for run in runs),
            state_bytes=sum(run.nbytes for run in runs) + self.beside(manifest),
            runs=len(runs),
            runs_remembered=self.runs.found.remembered,
            runs_mapped=self.runs.found.mapped,
            runs_read=self.runs.found.read,
            generation=self.live.newest,
            oldest=min((run.generation for run in runs), default=self.live.newest),
            newest_bytes=json.dumps(self.newest_bytes(manifest)),
        )

    def _decisions(self) -> list[str]:
        """Return the first reasons for the newest generation, and the number of all others."""
        reasons = self._tables.reasons(self.live.newest)
        more = len(reasons) - DECISIONS_SHOWN
        return [*reasons[:DECISIONS_SHOWN], *([f"and {more} more"] if more > 0 else [])]

    def newest_bytes(self, manifest: Manifest) -> dict[StreamName, int]:
        """Return how many bytes of each side were stored by the newest generation."""
        return {
            stream: sum(run.nbytes for run in runs if run.generation == self.live.newest)
            for stream, runs in manifest.runs.items()
        }

    def _leaving(self, results: pa.Table) -> pd.DataFrame:
        """Return results as they leave: beside late rows, each says that it is none."""
        return self.given(results if self._kept_late is None else self._kept_late.of_results(results))

    @property
    def _is_timed(self) -> bool:
        return self._streams.lateness is not None

    def _watermark(self, timers: TimerValues, clock: Clock) -> int | None:
        """Return the join's own watermark in units of the timestamps, or None while there is none."""
        return clock.advance(timers.getCurrentWatermarkInMs(), self._streams) if self._is_timed else None

    def _expire(self, manifest: Manifest, reached: Mapping[StreamName, int | None]) -> dict[StreamName, int]:
        """Remove runs whose rows have all expired. Return the places before which rows have expired."""
        before = {
            stream: min((run.low for run in manifest.runs[stream]), default=0) if place is None else place
            for stream, place in expired_before(self._streams, reached).items()
        }
        for stream, place in before.items():
            runs = manifest.runs[stream]
            for run in self.expired(runs, place):
                self.runs.remove(run)
                runs.remove(run)
        return before

    def _merge(self, manifest: Manifest, stream: StreamName, before: int) -> None:
        """Merge runs if there are enough; rows before ``before`` have expired."""
        runs = manifest.runs[stream]
        kept = max((run.high for run in runs), default=before) - before  # the window's length and the lateness
        while some := mergeable(runs, kept // 2):
            runs[-len(some) :] = [self.merge(stream, some)]

    def _arrived(
        self, frames: Iterator[pd.DataFrame], watermark: int | None
    ) -> tuple[dict[StreamName, Envelope], dict[StreamName, pa.RecordBatch], dict[StreamName, int], _Counts]:
        """Open the envelopes and leave out late rows. Also return lone rows, and how far each stream has come.

        That is in rows, or in a time window in time.
        """
        schemas = self._streams.schemas
        opened: dict[StreamName, list[tuple[int, Envelope]]] = {stream: [] for stream in schemas}
        alone: dict[StreamName, list[Envelope]] = {}
        counts = _Counts()
        counted: dict[StreamName, int] = {}
        for frame in frames:
            for row in frame.itertuples(index=False):  # a few envelopes, each of many rows
                counts.null_rows += int(row.null_rows)
                counts.bad_messages += int(row.bad_messages)
                counts.live.add(Generations(int(row.generation), int(row.oldest)))
                if row.counts is not None and not self._is_timed:
                    counted = dict(zip(schemas, map(int, row.counts), strict=True))
                elif row.counts is not None:
                    (largest,) = map(int, row.counts)
                    counted[row.stream] = max(largest, counted.get(row.stream, largest))
                if row.blob is not None:
                    envelope = open_blob(row.blob, schemas[row.stream])
                    if row.lone:
                        alone.setdefault(row.stream, []).append(envelope)
                    else:
                        opened[row.stream].append((int(row.part), envelope))
        arrived = {}
        for stream, some in opened.items():
            in_order = [envelope for _, envelope in sorted(some, key=itemgetter(0))]  # the same in every attempt
            whole = together(in_order, schemas[stream])
            counts.rows_in += whole.rows.num_rows
            arrived[stream] = self._in_time(stream, whole, watermark, counts)
        lone = {}
        for stream, rows in alone.items():
            whole = together(rows, schemas[stream])
            counts.rows_in += whole.rows.num_rows
            lone[stream] = self._in_time(stream, whole, watermark, counts).rows
        return arrived, lone, counted, counts

    def _in_time(self, stream: StreamName, whole: Envelope, watermark: int | None, counts: _Counts) -> Envelope:
        """Leave out late rows; the others have their timestamps from here on."""
        if not (self._is_timed and whole.rows.num_rows):
            return whole
        times, known = times_of(self._streams, stream, whole.rows)
        whole = replace(whole, times=times)
        late = None if watermark is None else is_late(times, watermark)
        if late is not None and known is not None:  # a lone row may have no time
            late &= known
        if watermark is None or late is None or not late.any():
            return whole
        late_rows = int(np.count_nonzero(late))
        if self._core_options.fail_on_late:
            raise late_error(self._streams, stream, late_rows, watermark)
        counts.late_rows += late_rows
        if self._kept_late is not None:
            kept = keep_rows(whole.rows, late if whole.first is None else late & whole.first)
            before = counts.kept_late.get(stream)
            counts.kept_late[stream] = kept if before is None else pa.concat_batches([before, kept])
        return whole.keep(~late)


def _agreed(live: set[Generations], manifest: Manifest) -> Generations:
    """Return the live generations; raise if routing tasks used different ones, or stored rows need others."""
    known = next(iter(live))
    stored = {run.generation for runs in manifest.runs.values() for run in runs}
    if len(live) > 1 or not stored <= set(range(known.oldest, known.newest + 1)):
        raise SnapshotError(
            f"rows were routed by {', '.join(map(str, live))}, and rows are stored by generations {sorted(stored)}",
            "one routing table for all tasks of a micro-batch, which knows where all stored rows lie",
            "restart the query with the folder of routing tables as it was",
        )
    return known
