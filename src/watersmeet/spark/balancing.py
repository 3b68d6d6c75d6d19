"""Balance while a query runs: the driver listens to what its cores report, and writes generations of the routing table.

A listener of the session hears of every micro-batch of every query. Those of balanced joins carry the join's
digest in their metrics; a query's loads are put together, and at the end of each reorganisation epoch the balancer
is asked (see :mod:`watersmeet.balance.balancer`). What it decides becomes a file that the routing tasks read (see
:mod:`watersmeet.balance.files`). Nothing here is needed for the right answer: a driver that dies, or never hears
anything, leaves a query with the generation that it has.

*How busy a core is.* A core could have worked for as long as the busiest one did, and while the query waited for the
next micro-batch: what else a micro-batch takes (planning, reading, committing) is nobody's. So the busiest core of a
query that never waits is fully busy, whatever part of the time that is, and such a query is never given fewer cores. A
core that is left out gets no rows, and once it has none of its own, which takes a window, not even a heartbeat.

*What a core holds* may be limited, by ``spark.watersmeet.coreBytes``.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from watersmeet.balance.balancer import Settings, decide, forget
from watersmeet.balance.files import GenerationFiles
from watersmeet.balance.generation import RoutingTable
from watersmeet.balance.loads import CoreLoad, GroupReport, Held, LoadMeter
from watersmeet.spark.output import Report
from watersmeet.spark.session import bytes_setting
from watersmeet.spark.tables import Tables

__all__ = ["METRICS", "balance_queries", "folder_of_tables"]

METRICS: Final = "watersmeet"
"""Name under which a query's progress shows the join's metrics (``observedMetrics``)."""
FOLDER: Final = "spark.watersmeet.balanceDir"
"""Setting of a session: a folder, shared by all machines and kept with the checkpoints, for routing tables."""
CORE_BYTES: Final = "spark.watersmeet.coreBytes"
"""Setting of a session: bytes of state that a core may hold before its groups are given to others."""
CHECKPOINTS: Final = "spark.sql.streaming.checkpointLocation"
EPOCH: Final = 10
"""Micro-batches in a reorganisation epoch."""
LONGEST_WAIT: Final = 10.0
"""How many times as long as a micro-batch took the wait before it counts at most: after a night without rows, the first
busy minutes are to be seen as busy."""

_log = logging.getLogger(__name__)
_listeners: WeakKeyDictionary[SparkSession, _Listener] = WeakKeyDictionary()


def balance_queries(
    spark: SparkSession, digest: str, tables: Tables, core_ids: tuple[int, ...], *, has_buckets: bool
) -> None:
    """Balance all queries of a join from now on."""
    limit = bytes_setting(spark, CORE_BYTES, example=1 << 30)
    settings = Settings(core_bytes=limit, has_buckets=has_buckets)
    if spark not in _listeners:
        _listeners[spark] = _Listener()
        spark.streams.addListener(_listeners[spark])
    _listeners[spark].joins[digest] = _Join(tables, core_ids, settings)


def folder_of_tables(spark: SparkSession) -> str | None:
    """Return where routing tables may be kept; None, with a note, where there is no such place.

    A checkpoint's path without a scheme is a local folder only on a local master: elsewhere it may be one of HDFS. On
    Spark Connect this process does not share its folders with the tasks.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        _log.info("balance is off: it is not available on Spark Connect")
        return None
    given, checkpoints = spark.conf.get(FOLDER, None), spark.conf.get(CHECKPOINTS, None)
    is_local = str(spark.conf.get("spark.master", "")).startswith("local")
    if given is None and checkpoints and (is_local or checkpoints.startswith("file:")):
        given = f"{checkpoints}/watersmeet-balance"
    folder = None if given is None else given.removeprefix("file://").removeprefix("file:")
    if folder and not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", folder):
        return str(Path(folder).absolute())
    _log.info("balance is off: set %s to a folder that all machines share and that is kept", FOLDER)
    return None


@dataclass(frozen=True)
class _Join:
    tables: Tables
    core_ids: tuple[int, ...]
    settings: Settings


class _Listener(StreamingQueryListener):
    """Hears of all micro-batches."""

    def __init__(self) -> None:
        self.joins: dict[str, _Join] = {}
        self._queries: dict[str, _Query] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 -- Spark's name
        """Nothing to do: a query is known from its first micro-batch on."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 -- Spark's name
        """Take note of a micro-batch."""
        progress = event.progress
        metrics = progress.observedMetrics.get(METRICS)
        join = None if metrics is None else self.joins.get(metrics["join"])
        if metrics is None or join is None:
            return
        query = self._queries.setdefault(str(progress.id), _Query(str(progress.id), join))
        # Without input the cores have only tidied: that says nothing of their load.
        shown = (Report.read(row.asDict()) for row in metrics["cores"] if row is not None)
        reports = [report for report in shown if report.work_seconds > 0]
        if reports:
            query.reorganise(progress.batchId, _Run.of(progress), reports)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 -- Spark's name
        """Nothing to do."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 -- Spark's name
        """Forget the query; should it start again, its files say where it stands."""
        self._queries.pop(str(event.id), None)


@dataclass(frozen=True)
class _Run:
    """When a micro-batch began, and how long it took (seconds)."""

    began: float
    took: float

    @classmethod
    def of(cls, progress: StreamingQueryProgress) -> _Run:
        return cls(datetime.fromisoformat(progress.timestamp).timestamp(), progress.batchDuration / 1000)

    def waited_after(self, last: _Run) -> float:
        """Return how long the query waited between the last micro-batch and this one."""
        return min(max(0.0, self.began - last.began - last.took), LONGEST_WAIT * self.took)


class _Query:
    """The balance of one query."""

    def __init__(self, name: str, join: _Join) -> None:
        assert join.tables.folder is not None
        self._name = name
        self._cores = join.tables.cores
        self._number = {core_id: core for core, core_id in enumerate(join.core_ids)}
        self._files = GenerationFiles(Path(join.tables.folder) / name, self._cores)
        self._settings = join.settings
        self._meter = LoadMeter()
        self._last: _Run | None = None
        self._heard = 0

    def reorganise(self, micro_batch: int, run: _Run, reports: list[Report]) -> None:
        """Add what the cores report of a micro-batch, and at the end of an epoch ask the balancer."""
        waited = 0.0 if self._last is None else run.waited_after(self._last)
        self._meter.add(micro_batch, _room(waited, reports), list(map(self._load, reports)))
        self._last = run
        self._heard += 1
        generations = self._files.live()
        if any(report.generation != generations[-1].number for report in reports):
            return  # the newest generation is not in effect yet
        table = RoutingTable(generations)
        oldest = min(report.oldest for report in reports)
        plan = forget(table, micro_batch, oldest)
        if self._heard % EPOCH == 0:
            decided = decide(table, self._meter.observation(oldest), self._cores, self._settings)
            plan = plan if decided.generation is None and plan.generation is not None else decided
        if plan.generation is not None:
            self._files.write(plan.generation)
        start = "later" if plan.generation is None else f"from micro-batch {plan.generation.first}"
        for decision in plan.decisions:
            _log.info("query %s, %s: %s: %s", self._name, start, decision.kind, decision.reason)

    def _load(self, report: Report) -> CoreLoad:
        assert report.groups is not None, "a core that has worked has counted groups"
        newest = report.bytes_by_newest
        return CoreLoad(
            self._number[report.core],
            report.rows_in,
            report.pairs,
            report.work_seconds,  # what depends on the rows; the rest of a core's time is the same for all
            Held(report.state_bytes, newest["left"], newest["right"]),
            GroupReport.parse(report.groups),
        )


def _room(waited: float, reports: list[Report]) -> float:
    """Return how much work (seconds) a core could have done: of its busy time, work is a part."""
    busy = sum(report.busy_seconds for report in reports)
    work = sum(report.work_seconds for report in reports)
    return (max(report.busy_seconds for report in reports) + waited) * work / busy
