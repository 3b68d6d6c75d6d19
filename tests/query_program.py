"""A program that runs streaming joins and may be killed: one job a line of its input (JSON), one answer a line.

The answer is ``done`` when the query has consumed all there is; the file ``found`` in its home then has the pairs it
has committed. It is ``failed: …`` when Spark gave the query up. Run again, a job goes on from its checkpoint.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it
from pyspark.sql.functions import expr, xxhash64

import streams
import topics
import watersmeet as wm
from streams import stream
from watersmeet.spark import balancing

SHOWN: Final = {"": ("left_id", "right_id"), "count": ("second", "pairs"), "join": ("left_id", "right_id", "id")}
"""The columns of results that the file ``found`` has, by what follows the join."""


@dataclass(frozen=True)
class Job:
    """A join of two folders of files, read one a micro-batch, into the folder ``home``."""

    left: str
    right: str
    home: str
    on: str
    window: dict[str, str | int]
    """Arguments of ``time_window``, or of ``count_window``."""
    routing: str = "auto"
    structure: str = "auto"
    cores: int = 2
    tables: str | None = None
    """Folder of routing tables; None: the first one stays."""
    epoch: int = 10
    """Micro-batches in a reorganisation epoch."""
    truth: str | None = None
    """Condition of Spark SQL's batch join over ``left.parquet`` and ``right.parquet`` in ``home``, whose pairs the file
    ``verdict`` then compares with those committed, all columns of them."""

    then: str = ""
    """What follows in the same query: ``count`` counts the pairs of each second, ``join`` is a join with a third folder
    on ``left.right_k = right.k``, at most a second apart."""
    third: str = ""
    servers: str = ""
    """Of a Kafka: ``left`` and ``right`` are then topics (see :mod:`topics`)."""
    sink: str = ""
    """The topic that gets the results; none: files in ``home``."""

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"


def joined(spark: SparkSession, job: Job) -> DataFrame:
    """Return the job's pairs."""
    balancing.EPOCH = job.epoch  # type: ignore[misc]
    if job.tables is not None:
        spark.conf.set(balancing.FOLDER, job.tables)
    in_time = "ts" in job.window or "left_ts" in job.window
    window = wm.time_window(**job.window) if in_time else wm.count_window(**job.window)  # type: ignore[arg-type]
    left, right = (
        topics.topic_stream(spark, job.servers, side) if job.servers else stream(spark, side)
        for side in (job.left, job.right)
    )
    return wm.join(
        left,
        right,
        job.on,
        window,
        routing=job.routing,  # type: ignore[arg-type]
        structure=job.structure,  # type: ignore[arg-type]
        cores=job.cores,
        balance="off" if job.tables is None else "auto",
    )


def whole(spark: SparkSession, job: Job) -> DataFrame:
    """Return the results of the job's query: of the join, and what follows."""
    pairs = joined(spark, job)
    if not job.then:
        return pairs
    return followed(pairs, stream(spark, job.third) if job.then == "join" else None)


def followed(pairs: DataFrame, third: DataFrame | None) -> DataFrame:
    """Return what follows a join in the same query; pairs have the event times of both rows."""
    if third is None:
        counted = pairs.groupBy(F.window("left_ts", "1 second")).count()
        return counted.selectExpr("unix_seconds(window.start) AS second", "count AS pairs")
    window = wm.time_window(left="1 second", right="1 second", left_ts="right_ts", right_ts="at")
    right = third.select(F.col("ts").alias("at"), "id", "k")
    return wm.join(pairs, right, "left.right_k = right.k", window, cores=2)


def run(spark: SparkSession, job: Job) -> str:
    """Run a job over all there is, into files or a topic."""
    results = whole(spark, job)
    try:
        if job.sink:
            streams.run_to_end(lambda: topics.start(results, job.servers, job.sink, job.home))
            return "done"
        streams.run(results, job.home)
    except StreamingQueryException as error:
        return f"failed: {str(error).splitlines()[0]}"
    if job.truth is not None:
        Path(job.home, "verdict").write_text(json.dumps(verdict(spark, job, job.truth)), encoding="utf-8")
        return "done"
    found = list(map(list, spark.read.parquet(f"{job.home}/pairs").select(*SHOWN[job.then]).collect()))
    Path(job.home, "found").write_text(json.dumps(found), encoding="utf-8")
    return "done"


def verdict(spark: SparkSession, job: Job, truth: str) -> dict[str, int]:
    """Count the pairs that were committed, and those that Spark SQL's batch join has more and fewer of."""
    widths = [len(spark.read.parquet(folder).columns) for folder in (job.left, job.right)]
    left, right = (spark.read.parquet(f"{job.home}/{side}.parquet").alias(side) for side in ("left", "right"))
    both = left.join(right, expr(truth)).toDF(*map(str, range(sum(widths) + 4)))  # each side has two numbers behind it
    numbers = [*range(widths[0]), *range(widths[0] + 2, sum(widths) + 2)]
    expected = digests(both.select([f"`{n}`" for n in numbers]))
    found = digests(spark.read.parquet(f"{job.home}/pairs"))
    return {
        "found": found.total(),
        "lost": (expected - found).total(),
        "wrong": (found - expected).total(),
    }


def digests(frame: DataFrame) -> Counter[int]:
    """Return a digest of every row, all columns of it."""
    plain = frame.toDF(*map(str, range(len(frame.columns))))
    return Counter(row[0] for row in plain.select(xxhash64(*plain.columns)).collect())


def main(scratch: Path, settings: dict[str, str]) -> None:
    """Answer jobs until the input ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a JVM prints is no answer
    local = {"spark.local.dir": str(scratch), "spark.sql.warehouse.dir": str(scratch / "tables")}
    spark = wm.session(
        2, memory="1g", more=streams.PATIENT | local | {"spark.ui.showConsoleProgress": "false"} | settings
    )
    spark.sparkContext.setLogLevel("OFF")
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        print(run(spark, Job(**json.loads(line))), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
