"""The process of one contestant: a Spark session and a streaming query over the files that it is given.

``python -m watersmeet.cli.bench.spark_worker CONTESTANT TASK`` prints one line when Spark is up. For each line that it
reads it runs the query over all new files and prints one line per micro-batch, then ``null``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it
from pyspark.sql.streaming.listener import StreamingQueryProgress

import watersmeet as wm
from watersmeet.cli.bench.contestant import ContestantName, MicroBatch, SparkTask
from watersmeet.cli.bench.empty_pipeline import empty_pipeline
from watersmeet.cli.bench.feed import band_width
from watersmeet.spark.pipeline import METRICS
from watersmeet.spec.expression import Predicate
from watersmeet.spec.window import TimeWindow

SCHEMA: Final = "key bigint, ts timestamp, payload bigint"
BUCKET_BANDS: Final = 4
"""Width of a bucket, in half-widths of the band: wider ones copy fewer rows and find more that do not match."""
SECONDS_BETWEEN_LOOKS: Final = 1


def _window(task: SparkTask) -> TimeWindow:
    return wm.time_window(timedelta(microseconds=task["window"]), ts="ts")


def _predicate(task: SparkTask) -> Predicate:
    return wm.equal("key") if task["condition"] == "equality" else wm.band("key", "key", band_width(task["window"]))


def _ours(left: DataFrame, right: DataFrame, task: SparkTask) -> DataFrame:
    return wm.join(left, right, _predicate(task), _window(task))


def _empty(left: DataFrame, right: DataFrame, task: SparkTask) -> DataFrame:
    return empty_pipeline(left, right, _predicate(task), _window(task), cores=task["cores"])


def _sparks_own(left: DataFrame, right: DataFrame, task: SparkTask) -> DataFrame:
    """Return Spark's stream-stream join; for a band, on buckets of values, as one has to write it by hand."""
    names = [f"right_{name}" for name in right.columns]
    left, right = left.withWatermark("ts", "0 seconds"), right.withWatermark("ts", "0 seconds").toDF(*names)
    length = F.expr(f"INTERVAL {task['window']} MICROSECONDS")
    near = F.col("ts").between(F.col("right_ts") - length, F.col("right_ts") + length)
    if task["condition"] == "equality":
        joined = left.join(right, (F.col("key") == F.col("right_key")) & near)
    else:
        half = band_width(task["window"])

        def bucket(value: Column) -> Column:
            return F.floor(value / (BUCKET_BANDS * half))

        key, right_key = F.col("key"), F.col("right_key")
        touched = F.sequence(bucket(right_key - half), bucket(right_key + half))
        joined = (
            left.withColumn("bucket", bucket(key))
            .join(
                right.withColumn("right_bucket", F.explode(touched)),
                (F.col("bucket") == F.col("right_bucket")) & key.between(right_key - half, right_key + half) & near,
            )
            .drop("bucket", "right_bucket")
        )
    return joined.observe(METRICS, F.count(F.lit(1)).alias("pairs"))


CONTESTANTS: Final[dict[ContestantName, Callable[[DataFrame, DataFrame, SparkTask], DataFrame]]] = {
    "ours": _ours,
    "empty pipeline": _empty,
    "Spark, format 2": _sparks_own,
    "Spark, format 4": _sparks_own,
}


def _session(name: ContestantName, task: SparkTask) -> SparkSession:
    scratch = Path(task["folder"]) / "scratch"
    scratch.mkdir()
    return wm.session(
        task["cores"],
        name=name,
        memory=task["memory"],
        more={
            "spark.local.dir": str(scratch),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.sql.streaming.numRecentProgressUpdates": "1000",
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # a turn's end is not the stream's
            "spark.sql.streaming.join.stateFormatVersion": name[-1] if name.startswith("Spark") else "2",
        },
    )


def _micro_batch(progress: StreamingQueryProgress) -> MicroBatch:
    observed = progress.observedMetrics[METRICS].asDict(recursive=True)
    return {
        "rows": progress.numInputRows,
        "pairs": observed["pairs"],
        "seconds": progress.durationMs["triggerExecution"] / 1000,
        "add_batch_seconds": progress.durationMs["addBatch"] / 1000,
        "state_rows": sum(operator.numRowsTotal for operator in progress.stateOperators),
        "cores": observed.get("cores", []),
    }


def _take_turn(pairs: DataFrame, checkpoint: Path) -> None:
    """Run the query over all new files; say what each micro-batch took as soon as it is done."""
    query = (
        pairs.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    told, running = 0, True
    while running:
        running = not query.awaitTermination(SECONDS_BETWEEN_LOOKS)
        done = [progress for progress in query.recentProgress if progress.numInputRows]
        for progress in done[told:]:
            print(json.dumps(_micro_batch(progress)), flush=True)
        told = len(done)
    print(json.dumps(None), flush=True)


def run(name: ContestantName, task: SparkTask) -> None:
    """Start Spark and take turns until there is nothing more to read."""
    join = CONTESTANTS[name]
    spark = _session(name, task)
    spark.sparkContext.setLogLevel("ERROR")
    folder = Path(task["folder"])
    left, right = (
        spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / side))
        for side in ("left", "right")
    )
    pairs = join(left, right, task)
    print(json.dumps("ready"), flush=True)
    for _ in sys.stdin:
        _take_turn(pairs, folder / "checkpoint")
    spark.stop()


if __name__ == "__main__":
    run(sys.argv[1], json.loads(sys.argv[2]))  # type: ignore[arg-type]  # one of the names, by Arena.enter
