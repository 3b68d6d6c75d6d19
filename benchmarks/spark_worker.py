"""The process of one contestant: a Spark session and a streaming query over the files that it is given.

``python -m benchmarks.spark_worker CONTESTANT TASK`` prints one line when Spark is up. For each line that it
reads it runs the query over all new files and prints one line per micro-batch, then ``null``. Queries of ours are
written with what the package makes public, so that the process may use an older tree of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial, reduce
from itertools import pairwise
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.readwriter import DataStreamWriter

import watersmeet as wm
from benchmarks.contestant import ContestantName, MicroBatch, SparkTask
from benchmarks.data import SideName

if TYPE_CHECKING:  # an older tree may have it elsewhere
    from watersmeet.spec.kinds import How
    from watersmeet.spec.window import TimeWindow

SCHEMA: Final = "key bigint, ts timestamp, payload bigint"
BUCKET_BANDS: Final = 4
"""Width of a bucket, in half-widths of the band: wider ones copy fewer rows and find more that do not match."""
SECONDS_BETWEEN_LOOKS: Final = 1


Frames = dict[SideName, DataFrame]


def _window(task: SparkTask) -> TimeWindow:
    return wm.time_window(timedelta(microseconds=task["window"]), ts="ts")


def _predicate(task: SparkTask) -> wm.Predicate:
    return wm.equal("key") if task["condition"] == "equality" else wm.band("key", "key", task["band"])


def _chain(task: SparkTask) -> wm.Predicate:
    """Return a band between each stream and the next."""
    bands = (wm.band(f"{one}.key", f"{other}.key", task["band"]) for one, other in pairwise(task["streams"]))
    return reduce(and_, bands)


def _ours(frames: Frames, task: SparkTask) -> DataFrame:
    if len(frames) > len(("left", "right")):
        return wm.multijoin({str(name): frame for name, frame in frames.items()}, _chain(task), _window(task))
    return wm.join(frames["left"], frames["right"], _predicate(task), _window(task))


def _of_kind(frames: Frames, task: SparkTask, how: How) -> DataFrame:
    return wm.join(frames["left"], frames["right"], _predicate(task), _window(task), how=how)


def _empty(frames: Frames, task: SparkTask) -> DataFrame:
    from benchmarks.empty_pipeline import empty_pipeline  # noqa: PLC0415 -- it is built of this tree's parts

    return empty_pipeline(frames["left"], frames["right"], _predicate(task), _window(task), cores=task["cores"])


def _sparks_own(frames: Frames, task: SparkTask) -> DataFrame:
    """Return Spark's stream-stream join; for a band, on buckets of values, as one has to write it by hand.

    Of many streams each is joined with the result of those before. That may have one event time only, the newest
    stream's, so the times of the others become numbers.
    """
    (last, frame), *others = frames.items()
    joined = _named(frame, last)
    earlier: list[SideName] = []
    for name, other in others:
        joined = _Sides(joined, last, _named(other, name), name, task).joined(earlier)
        joined = joined.withColumn(f"{last}_us", F.unix_micros(f"{last}_ts")).drop(f"{last}_ts")
        earlier, last = [*earlier, last], name
    return joined.observe("found", F.count(F.lit(1)).alias("pairs"))


def _named(frame: DataFrame, name: SideName) -> DataFrame:
    return frame.withWatermark("ts", "0 seconds").toDF(*(f"{name}_{column}" for column in frame.columns))


@dataclass(frozen=True)
class _Sides:
    """What Spark's own join puts together: rows with those of stream ``last`` in them, and those of ``name``."""

    left: DataFrame
    last: SideName
    right: DataFrame
    name: SideName
    task: SparkTask

    def joined(self, earlier: list[SideName]) -> DataFrame:
        """Join on the keys of both streams, and on the times of all: those of ``earlier`` streams are numbers."""
        key, other_key = F.col(f"{self.last}_key"), F.col(f"{self.name}_key")
        moment, other_moment = F.col(f"{self.last}_ts"), F.col(f"{self.name}_ts")
        length = F.expr(f"INTERVAL {self.task['window']} MICROSECONDS")
        near = moment.between(other_moment - length, other_moment + length)
        for stream in earlier:
            near &= F.abs(F.col(f"{stream}_us") - F.unix_micros(other_moment)) <= self.task["window"]
        if self.task["condition"] == "equality":
            return self.left.join(self.right, (key == other_key) & near)
        half = self.task["band"]

        def bucket(value: Column) -> Column:
            return F.floor(value / (BUCKET_BANDS * half))

        touched = F.sequence(bucket(other_key - half), bucket(other_key + half))
        return (
            self.left.withColumn("bucket", bucket(key))
            .join(
                self.right.withColumn("other_bucket", F.explode(touched)),
                (F.col("bucket") == F.col("other_bucket")) & key.between(other_key - half, other_key + half) & near,
            )
            .drop("bucket", "other_bucket")
        )


CONTESTANTS: Final[dict[ContestantName, Callable[[Frames, SparkTask], DataFrame]]] = {
    "ours": _ours,
    "ours before": _ours,
    "ours, left": partial(_of_kind, how="left"),
    "ours, full": partial(_of_kind, how="full"),
    "ours, semi": partial(_of_kind, how="semi"),
    "ours, anti": partial(_of_kind, how="anti"),
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
            **task["settings"],
        },
    )


def _micro_batch(progress: StreamingQueryProgress) -> MicroBatch:
    (observation,) = progress.observedMetrics.values()  # a query has one join
    observed = observation.asDict(recursive=True)
    return {
        "rows": progress.numInputRows,
        "pairs": observed["pairs"],
        "unmatched_rows": observed.get("unmatched_rows", 0),
        "seconds": progress.durationMs["triggerExecution"] / 1000,
        "add_batch_seconds": progress.durationMs["addBatch"] / 1000,
        "state_rows": sum(operator.numRowsTotal for operator in progress.stateOperators),
        "cores": observed.get("cores", []),
    }


def _take_turn(checkpoint: Path, sink: DataStreamWriter) -> Iterator[MicroBatch]:
    """Run the query over all new files; yield what each micro-batch took as soon as it is done."""
    query = sink.option("checkpointLocation", str(checkpoint)).outputMode("append").trigger(availableNow=True).start()
    told, running = 0, True
    while running:
        running = not query.awaitTermination(SECONDS_BETWEEN_LOOKS)
        done = [progress for progress in query.recentProgress if progress.numInputRows]
        yield from map(_micro_batch, done[told:])
        told = len(done)


class _Query:
    """One query over all streams."""

    def __init__(self, name: ContestantName, frames: Frames, task: SparkTask) -> None:
        self._results = CONTESTANTS[name](frames, task)
        self._checkpoint = Path(task["folder"]) / "checkpoint"

    def take_turn(self) -> Iterator[MicroBatch]:
        """Run the query over all new files."""
        return _take_turn(self._checkpoint, self._results.writeStream.format("noop"))


class _PairByPair:
    """Two streams joined by one query, its pairs and the third by another."""

    def __init__(self, spark: SparkSession, frames: Frames, task: SparkTask) -> None:
        folder = Path(task["folder"])
        self._checkpoints = folder / "checkpoint", folder / "checkpoint-2"
        self._pairs_folder = folder / "pairs"
        self._pairs_folder.mkdir()
        left, right, third = frames.values()
        self._pairs = wm.join(left, right, _predicate(task), _window(task))
        between = spark.readStream.schema(self._pairs.schema).parquet(str(self._pairs_folder))
        half, window = task["band"], f"INTERVAL {task['window']} MICROSECONDS"
        length = timedelta(microseconds=task["window"])
        # A pair of a new row and an old one is as late as that is old.
        self._results = wm.join(
            between,
            third,
            f"left.right_key BETWEEN right.key - {half} AND right.key + {half}"
            f" AND left.left_ts BETWEEN right.ts - {window} AND right.ts + {window}",
            wm.time_window(left=length, right=length, left_ts="right_ts", right_ts="ts", lateness=length),
        )

    def take_turn(self) -> Iterator[MicroBatch]:
        """Run both queries; what they report is put together."""
        sink = self._pairs.writeStream.format("parquet").option("path", str(self._pairs_folder))
        for first in _take_turn(self._checkpoints[0], sink):
            for second in _take_turn(self._checkpoints[1], self._results.writeStream.format("noop")):
                rows = first["rows"] + first["rows"] // 2  # the third stream has as many as each of the others
                seconds = first["seconds"] + second["seconds"]
                yield {**second, "rows": rows, "seconds": seconds, "cores": [*first["cores"], *second["cores"]]}


def run(name: ContestantName, task: SparkTask) -> None:
    """Start Spark and take turns until there is nothing more to read."""
    if name not in CONTESTANTS and name != "ours, pair by pair":
        raise SystemExit(f"no contestant is called {name}")
    spark = _session(name, task)
    spark.sparkContext.setLogLevel("ERROR")
    frames: Frames = {
        side: spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(Path(task["folder"]) / side))
        for side in task["streams"]
    }
    taking = _PairByPair(spark, frames, task) if name == "ours, pair by pair" else _Query(name, frames, task)
    print(json.dumps(str(Path(wm.__file__).parent)), flush=True)
    for _ in sys.stdin:
        for micro_batch in taking.take_turn():
            print(json.dumps(micro_batch), flush=True)
        print(json.dumps(None), flush=True)
    spark.stop()


if __name__ == "__main__":
    run(sys.argv[1], json.loads(sys.argv[2]))  # type: ignore[arg-type]  # one of the names, by Arena.enter
