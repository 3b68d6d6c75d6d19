"""Balance while a query runs: Spark's driver listens to the cores' reports and writes generations.

A listener of the session hears of every micro-batch of every query. Balanced joins have their digest in the metrics.
The loads of a join are added up, and at the end of each reorganisation epoch the balancer decides (see
:mod:`watersmeet.balance.balancer`). Its decision becomes a file that the routing tasks read (see
:mod:`watersmeet.balance.files`). The result does not depend on it: without the listener a query keeps the generation
that it has.

Each join of a query is balanced by itself. Only joins that nothing tells apart at the next start (see ``lasting`` in
:mod:`watersmeet.spark.identity`) share their routing tables, and are balanced by what they do together.

*How busy a core is.* The time in which a core could have worked is the time that the busiest core worked, and the time
in which the query waited for the next micro-batch. All other time of a micro-batch (planning, reading, committing) does
not count. So the busiest core of a query that never waits is fully busy, and such a query never gets fewer cores. A
core that is left out gets no rows. One window later it has no rows of its own, and gets no heartbeats either.

``spark.watersmeet.coreBytes`` limits the bytes that a core holds. With ``spark.watersmeet.decluster`` at ``false`` no
core is left out, however little there is to do.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final
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
from watersmeet.balance.generation import RoutingTable
from watersmeet.balance.loads import CoreLoad, GroupReport, Held, LoadMeter, added
from watersmeet.spark.identity import Identity
from watersmeet.spark.metrics import metrics
from watersmeet.spark.output import Report
from watersmeet.spark.routing.contract import Routing
from watersmeet.spark.session import bytes_setting, flag_setting
from watersmeet.spark.tables import Tables

__all__ = ["folder_of_tables", "tables_of"]

FOLDER: Final = "spark.watersmeet.balanceDir"
"""Setting of a session: a folder for routing tables, which all machines share and which is kept with the
checkpoints."""
CORE_BYTES: Final = "spark.watersmeet.coreBytes"
"""Setting of a session: bytes of state that a core may hold before its groups go to others."""
DECLUSTER: Final = "spark.watersmeet.decluster"
"""Setting of a session: whether cores are left out while there is little to do; ``true`` when not given."""
CHECKPOINTS: Final = "spark.sql.streaming.checkpointLocation"
EPOCH: Final = 10
"""Micro-batches in a reorganisation epoch."""
LONGEST_WAIT: Final = 10.0
"""The wait before a micro-batch counts as at most this many times the micro-batch's time, so that the first busy
minutes after a night without rows count as busy."""

_log = logging.getLogger(__name__)
_listeners: WeakKeyDictionary[SparkSession, _Listener] = WeakKeyDictionary()


def tables_of(
    spark: SparkSession,
    identity: Identity,
    routing: Routing[Any],
    core_ids: tuple[int, ...],
    *,
    balances: bool,
    is_streaming: bool,
) -> Tables:
    """Return the routing tables of a join; if they change, all its queries are balanced from now on."""
    cores = len(core_ids)
    folder = folder_of_tables(spark) if is_streaming and routing.has_groups and cores > 1 else None
    tables = Tables(cores, folder, balances=folder is not None and balances, join=identity.lasting)
    if tables.balances:
        _balance_queries(spark, identity.digest, tables, core_ids, has_buckets=routing.has_buckets)
    return tables


def _balance_queries(
    spark: SparkSession, digest: str, tables: Tables, core_ids: tuple[int, ...], *, has_buckets: bool
) -> None:
    """Balance all queries of a join from now on."""
    limit = bytes_setting(spark, CORE_BYTES, example=1 << 30)
    declusters = flag_setting(spark, DECLUSTER)
    settings = Settings(core_bytes=limit, decluster=declusters, has_buckets=has_buckets)
    if spark not in _listeners:
        _listeners[spark] = _Listener()
        spark.streams.addListener(_listeners[spark])
    _listeners[spark].joins[digest] = _Join(tables, core_ids, settings)


def folder_of_tables(spark: SparkSession) -> str | None:
    """Return the folder for routing tables, or None, with a note in the log, if there is none.

    A checkpoint's path without a scheme is a local folder only on a local master; elsewhere it may be on HDFS. On Spark
    Connect this process does not share its folders with the tasks.
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
    """Listens to all micro-batches of a session."""

    def __init__(self) -> None:
        self.joins: dict[str, _Join] = {}
        self._balanced: dict[tuple[str, str], _BalancedJoin] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 -- Spark's name
        """Do nothing: a query is known from its first micro-batch on."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 -- Spark's name
        """Add the loads of a micro-batch of each balanced join."""
        progress = event.progress
        sharing: dict[str, list[list[Report]]] = {}
        for shown in metrics(progress).values():
            if join := self.joins.get(shown.join):
                place = str(progress.id), join.tables.join
                if place not in self._balanced:
                    self._balanced[place] = _BalancedJoin(str(progress.id), join)
                # Without input the cores have only expired runs, which says nothing of their load.
                worked = [report for report in shown.cores if report.work_seconds > 0]
                sharing.setdefault(join.tables.join, []).append(worked)
        for tables, reports in sharing.items():
            if all(reports):
                self._balanced[str(progress.id), tables].reorganise(progress.batchId, _MicroBatch.of(progress), reports)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 -- Spark's name
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 -- Spark's name
        """Forget the query's joins; if it starts again, its files have its generations."""
        for place in [place for place in self._balanced if place[0] == str(event.id)]:
            del self._balanced[place]


@dataclass(frozen=True)
class _MicroBatch:
    """When a micro-batch began, and how long it took (seconds)."""

    began: float
    took: float

    @classmethod
    def of(cls, progress: StreamingQueryProgress) -> _MicroBatch:
        return cls(datetime.fromisoformat(progress.timestamp).timestamp(), progress.batchDuration / 1000)

    def waited_after(self, last: _MicroBatch) -> float:
        """Return how long the query waited between the last micro-batch and this one; long waits are cut."""
        return min(max(0.0, self.began - last.began - last.took), LONGEST_WAIT * self.took)


class _BalancedJoin:
    """The balance of one join in one query, or of joins that share their tables."""

    def __init__(self, query: str, join: _Join) -> None:
        self._name = query
        self._cores = join.tables.cores
        self._number = {core_id: core for core, core_id in enumerate(join.core_ids)}
        self._files = join.tables.of_query(query)
        self._settings = join.settings
        self._meter = LoadMeter()
        self._last: _MicroBatch | None = None
        self._heard = 0

    def reorganise(self, micro_batch: int, run: _MicroBatch, joins: list[list[Report]]) -> None:
        """Add the cores' reports of a micro-batch, join by join, and at the end of an epoch let the balancer decide."""
        waited = 0.0 if self._last is None else run.waited_after(self._last)
        reports = [report for own in joins for report in own]
        self._meter.add(micro_batch, _room(waited, joins), added(map(self._load, reports)))
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
            level = logging.WARNING if decision.kind == "full" else logging.INFO
            _log.log(level, "query %s, %s: %s: %s", self._name, start, decision.kind, decision.reason)

    def _load(self, report: Report) -> CoreLoad:
        assert report.groups is not None, "a core that has worked has counted groups"
        newest = report.bytes_by_newest
        return CoreLoad(
            self._number[report.core],
            report.rows_in,
            report.pairs + report.given_elsewhere,
            report.work_seconds,  # what depends on the rows; the rest of a core's time is the same for all
            Held(report.state_bytes, newest["left"], newest["right"]),
            GroupReport.parse(report.groups),
        )


def _room(waited: float, joins: list[list[Report]]) -> float:
    """Return how much work in seconds a core could have done; work is a part of its busy time."""
    busy = sum(report.busy_seconds for reports in joins for report in reports)
    work = sum(report.work_seconds for reports in joins for report in reports)
    longest = sum(max(report.busy_seconds for report in reports) for reports in joins)
    return (longest + waited) * work / busy
