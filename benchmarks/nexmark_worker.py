"""The process of one contestant of Nexmark: a Spark session in which queries run one after the other.

``python -m benchmarks.nexmark_worker NAME TASK`` prints one line per micro-batch and a null after each query. The
join of a query is posed to ``wm.join`` or to Spark; what comes after it is Spark's for both.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypedDict

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it
from pyspark.sql.streaming.listener import StreamingQueryProgress

import watersmeet as wm
from benchmarks.nexmark_queries import COLUMNS, MOMENTS, QUERIES, Query, Side

__all__ = ["NexmarkBatch", "NexmarkTask"]

SCHEMAS: Final = {
    "person": "id bigint, name string, city string, state string, ts timestamp",
    "auction": "id bigint, seller bigint, category bigint, initial_bid bigint, expires timestamp, ts timestamp",
    "bid": "auction bigint, bidder bigint, price bigint, ts timestamp",
    "highest": "price bigint, ts timestamp",
}
TEN_SECONDS: Final = "10 seconds"
MODULUS: Final = 1_000_000_007


class NexmarkTask(TypedDict):
    """What the process is told."""

    folder: str
    data: str
    queries: list[str]
    cores: int
    memory: str


class NexmarkBatch(TypedDict):
    """One micro-batch."""

    rows: int
    seconds: float
    results: int
    checksum: int


Streams = dict[str, DataFrame]


def _ours(query: Query, streams: Streams) -> DataFrame:
    left_ts, right_ts = MOMENTS[query.left.kind], MOMENTS[query.right.kind]
    window = wm.time_window(left=query.left_stays, right=query.right_stays, left_ts=left_ts, right_ts=right_ts)
    return wm.join(_side(query.left, streams), _side(query.right, streams), query.on, window)


def _sparks_own(query: Query, streams: Streams) -> DataFrame:
    """Return Spark's join: both sides have watermarks, and a condition is on the times."""
    before, after = (f"INTERVAL {stay.total_seconds():.0f} SECONDS" for stay in (query.right_stays, query.left_stays))
    left_ts, right_ts = f"left.{MOMENTS[query.left.kind]}", f"right.{MOMENTS[query.right.kind]}"
    near = f"{right_ts} BETWEEN {left_ts} - {before} AND {left_ts} + {after}"
    left, right = (
        _side(side, streams).withWatermark(MOMENTS[side.kind], "0 seconds") for side in (query.left, query.right)
    )
    return left.alias("left").join(right.alias("right"), F.expr(f"({query.on}) AND {near}"))


def _side(side: Side, streams: Streams) -> DataFrame:
    rows = streams[side.kind].toDF(*COLUMNS[side.kind])
    return rows.where(side.where).withColumns({name: F.expr(text) for name, text in side.more.items()})


def _after(query: Query, joined: DataFrame) -> DataFrame:
    """Return the results of a query; an auction has one moment, and so its pairs are in one window."""
    if not query.per_auction:
        return joined.selectExpr(*query.select)
    groups = joined.groupBy(F.window("a_ts", TEN_SECONDS), "id", "category")
    return groups.agg(F.expr(query.per_auction).alias("found")).drop("window")


CONTESTANTS: Final[dict[str, Callable[[Query, Streams], DataFrame]]] = {"ours": _ours, "Spark, format 4": _sparks_own}


def _observed(results: DataFrame) -> DataFrame:
    """Count the results, and sum a hash of each."""
    checksum = F.sum(F.pmod(F.xxhash64(*results.columns), F.lit(MODULUS)))
    return results.observe("found", F.count(F.lit(1)).alias("results"), checksum.alias("checksum"))


def _batch(progress: StreamingQueryProgress) -> NexmarkBatch:
    found = progress.observedMetrics["found"].asDict()
    return {
        "rows": progress.numInputRows,
        "seconds": progress.durationMs["triggerExecution"] / 1000,
        "results": found["results"],
        "checksum": found["checksum"] or 0,
    }


def run(name: str, task: NexmarkTask) -> None:
    """Run the queries over the files of ``data``, one micro-batch a file of each kind."""
    folder = Path(task["folder"])
    folder.mkdir()
    spark = wm.session(
        task["cores"],
        name=name,
        memory=task["memory"],
        more={
            "spark.local.dir": str(folder / "scratch"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.streaming.numRecentProgressUpdates": "1000",
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # the last files end everything
            "spark.sql.streaming.join.stateFormatVersion": "4" if name.startswith("Spark") else "2",
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    for query in task["queries"]:
        _run_query(spark, name, query, folder, Path(task["data"]))
    spark.stop()


def _run_query(spark: SparkSession, name: str, query: str, folder: Path, data: Path) -> None:
    streams = {
        kind: spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(data / kind))
        for kind, schema in SCHEMAS.items()
    }
    checkpoint = folder / "checkpoint"
    results = _observed(_after(QUERIES[query], CONTESTANTS[name](QUERIES[query], streams)))
    sink = results.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).outputMode("append")
    running = sink.trigger(availableNow=True).start()
    running.awaitTermination()
    for progress in running.recentProgress:
        if progress.numInputRows:
            print(json.dumps(_batch(progress)), flush=True)
    print(json.dumps(None), flush=True)
    shutil.rmtree(checkpoint)


if __name__ == "__main__":
    run(sys.argv[1], json.loads(sys.argv[2]))
