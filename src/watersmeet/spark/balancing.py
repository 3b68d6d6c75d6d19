"""Balance while a query runs: the driver listens to what its cores report, and writes generations of the routing table.

A listener of the session hears of every micro-batch of every query. Those of balanced joins carry the join's
fingerprint in their metrics; a query's loads are put together, and at the end of each reorganisation epoch the balancer
is asked (see :mod:`watersmeet.balance.balancer`). What it decides becomes a file that the routing tasks read (see
:mod:`watersmeet.balance.files`). Nothing here is needed for the right answer: a driver that dies, or never hears
anything, leaves a query with the generation that it has.

The number of active cores is left alone: Spark runs the task of every core in every micro-batch anyway.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
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
)

from watersmeet.balance.balancer import Settings, decide, forget
from watersmeet.balance.files import GenerationFiles
from watersmeet.balance.generation import RoutingTable
from watersmeet.balance.loads import CoreLoad, GroupCounter, LoadMeter
from watersmeet.spark.routing import Routing

__all__ = ["METRICS", "balance_queries", "folder_of_tables"]

METRICS: Final = "watersmeet"
"""Name under which a query's progress shows the join's metrics (``observedMetrics``)."""
FOLDER: Final = "spark.watersmeet.balanceDir"
"""Setting of a session: a folder, shared by all machines and kept with the checkpoints, for routing tables."""
CHECKPOINTS: Final = "spark.sql.streaming.checkpointLocation"
EPOCH: Final = 10
"""Micro-batches in a reorganisation epoch."""

_log = logging.getLogger(__name__)
_listeners: WeakKeyDictionary[SparkSession, _Listener] = WeakKeyDictionary()


def balance_queries(spark: SparkSession, fingerprint: str, routing: Routing, core_ids: tuple[int, ...]) -> None:
    """Balance all queries of a join from now on."""
    if spark not in _listeners:
        _listeners[spark] = _Listener()
        spark.streams.addListener(_listeners[spark])
    _listeners[spark].joins[fingerprint] = _Join(routing, core_ids)


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
    routing: Routing
    core_ids: tuple[int, ...]


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
        records = [record for record in metrics["cores"] if record is not None]
        query.reorganise(progress.batchId, progress.batchDuration / 1000, records)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 -- Spark's name
        """Nothing to do."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 -- Spark's name
        """Forget the query; should it start again, its files say where it stands."""
        self._queries.pop(str(event.id), None)


class _Query:
    """The balance of one query."""

    def __init__(self, name: str, join: _Join) -> None:
        assert join.routing.tables is not None
        self._name = name
        self._cores = join.routing.cores
        self._number = {core_id: core for core, core_id in enumerate(join.core_ids)}
        self._files = GenerationFiles(Path(join.routing.tables) / name, self._cores)
        self._settings = Settings(decluster=False, has_buckets=join.routing.kind == "bucket")
        self._meter = LoadMeter()
        self._heard = 0

    def reorganise(self, micro_batch: int, seconds: float, records: list[Any]) -> None:
        """Add what the cores report of a micro-batch, and at the end of an epoch ask the balancer."""
        self._meter.add(micro_batch, seconds, [self._load(record) for record in records])
        self._heard += 1
        generations = self._files.generations()
        if any(record["generation"] != generations[-1].number for record in records):
            return  # the newest generation is not in effect yet
        table = RoutingTable(tuple(generations[generations[-1].oldest :]))
        oldest = min(record["oldest"] for record in records)
        plan = forget(table, micro_batch, oldest)
        if self._heard % EPOCH == 0:
            decided = decide(table, self._meter.observation(oldest), self._cores, self._settings)
            plan = plan if decided.generation is None else decided
        if plan.generation is not None:
            self._files.write(plan.generation)
            for decision in plan.decisions:
                _log.info("query %s, from micro-batch %d: %s", self._name, plan.generation.first, decision.reason)

    def _load(self, record: Any) -> CoreLoad:  # noqa: ANN401 -- a Row
        *heaviest, rest = GroupCounter.parse(record["groups"])
        return CoreLoad(
            self._number[record["core"]],
            record["rows_in"],
            record["pairs"],
            record["work_seconds"],  # what depends on the rows; the rest of a core's time is the same for all
            record["state_bytes"],
            tuple(heaviest),
            rest,
        )
