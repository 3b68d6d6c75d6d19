"""A program that runs a real streaming join and keeps the progress of its micro-batches, as Spark shows it, in a file.

``python tests/live/record.py classic|connect|job FILE``. The tests of figures read what it has written, so they need
no Spark. A half of the rows has one key, some keys are null, some rows are late, and the right stream ends before the
left one, which then waits for it. On a classic session the join is balanced. ``job`` is a job file's join of two topics
of a real Kafka, all of which are there from the beginning.

A process of its own, because classic sessions and those of Connect do not go together in one.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import watersmeet as wm
from broker import Broker
from jars import jars
from streams import PATIENT, stream, write_files
from watersmeet.jobs.display import Display
from watersmeet.jobs.reading import read_job
from watersmeet.jobs.runner import run_job
from watersmeet.jobs.stop import Stop
from watersmeet.live.figures import MicroBatch
from watersmeet.live.history import Figures
from watersmeet.spark.java import find_java

CORES: Final = 4
ROWS: Final = 2_000
SPACING: Final = 500_000
"""Microseconds of the streams' own time in one micro-batch."""
FROM_2026: Final = 1_767_605_400_000_000
HOT: Final = 7
BATCHES: Final = {"classic": (44, 36), "connect": (12, 8)}
"""Micro-batches that have rows of the left stream, and of the right one."""


def tables(seed: int, batches: int) -> list[pa.Table]:
    """Return a stream's micro-batches; from the second on one key has half of the rows, and some rows are late."""
    random = np.random.default_rng(seed)
    result = []
    for number in range(batches):
        keys = random.integers(0, 20_000, ROWS)
        if number:
            keys = np.where(random.random(ROWS) < 0.5, HOT, keys)
        moments = random.integers(number * SPACING, (number + 1) * SPACING, ROWS)
        moments[: 5 if number > 6 else 0] = 0
        result.append(
            pa.table(
                {
                    "id": np.arange(ROWS) + number * ROWS,
                    "ts": pa.array(FROM_2026 + moments, pa.timestamp("us", "UTC")),
                    "k": pa.array(keys, mask=random.random(ROWS) < 0.002),
                    "price": random.integers(0, 1_000, ROWS),
                }
            )
        )
    return result


def session(kind: str, home: Path) -> SparkSession:
    """Return a session of one kind; with Spark Connect the server is started here, and starts the workers."""
    if kind == "classic":
        return wm.session(
            2, name="record progress", more=PATIENT | {"spark.watersmeet.balanceDir": str(home / "tables")}
        )
    find_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    connected = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    connected.conf.set("spark.sql.shuffle.partitions", CORES)
    return connected


def begin(spark: SparkSession, home: Path, batches: tuple[int, int]) -> StreamingQuery:
    """Start the join over so many micro-batches of the left stream, and of the right one."""
    sides = []
    for seed, (name, number) in enumerate(zip(("left", "right"), batches, strict=True)):
        (home / name).mkdir()
        sides.append(stream(spark, write_files(home / name, tables(seed, number))))
    on = wm.equal("k") & wm.band("price", "price", 2)
    pairs = wm.join(*sides, on, wm.time_window("1200 milliseconds", ts="ts"), cores=CORES, name="near")
    return (
        pairs.writeStream.format("noop")
        .queryName("prices")
        .option("checkpointLocation", str(home / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


JOB: Final = """
name = "prices"
checkpoint = "checkpoint"

[streams.left]
format = "kafka"
servers = "${SERVERS}"
topic = "left"
schema = "id INT, ts TIMESTAMP, k INT, price INT"
starting_offsets = "earliest"
arrival = "arrived"
options = { maxOffsetsPerTrigger = 2000 }

[streams.right]
format = "kafka"
servers = "${SERVERS}"
topic = "right"
schema = "id INT, ts TIMESTAMP, k INT, price INT"
starting_offsets = "earliest"
arrival = "arrived"
options = { maxOffsetsPerTrigger = 2000 }

[joins.near]
left = "left"
right = "right"
on = "left.k = right.k AND left.price BETWEEN right.price - 2 AND right.price + 2"
window = { time = "1200 milliseconds", ts = "ts", lateness = "10 seconds" }

[sink]
format = "parquet"
path = "pairs"

[trigger]
available_now = true

[spark]
master = "local[2]"
memory = "1g"

[spark.settings]
"spark.sql.shuffle.partitions" = 4
"spark.jars" = "${JARS}"
"""


class Kept(Figures):
    """Figures that keep what they are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []

    def add(self, progress: Mapping[str, Any]) -> MicroBatch | None:
        """Keep it if it is new."""
        batch = super().add(progress)
        if batch is not None:
            self.shown.append(progress.json)  # type: ignore[attr-defined] # Spark's own class of it
        return batch


def record_job(home: Path, batches: int = 6) -> list[dict[str, Any]]:
    """Run the job over topics that have all from the beginning."""
    figures = Kept()
    with Broker(home / "kafka") as broker:
        for seed, side in enumerate(("left", "right")):
            broker.create(side)
            rows = pa.concat_tables(tables(seed, batches)).to_pylist()
            broker.write(side, (json.dumps(row, default=str) for row in rows))
        os.environ["SERVERS"] = broker.servers
        os.environ["JARS"] = ",".join(map(str, jars("connector")))
        (home / "job.toml").write_text(JOB, encoding="utf-8")
        file = read_job(home / "job.toml")
        with Stop() as stop, Display(file, figures) as display:
            run_job(file, display, stop, figures)
    return [json.loads(one.replace(str(home), "/data").replace(broker.servers, "kafka:9092")) for one in figures.shown]


def record(kind: str, home: Path) -> list[dict[str, Any]]:
    """Run the join to its end; return the progress of each micro-batch as Spark's JSON has it."""
    if kind == "job":
        return record_job(home)
    spark = session(kind, home)
    query = begin(spark, home, BATCHES[kind])
    query.awaitTermination()
    shown = [json.loads(progress.json.replace(str(home), "/data")) for progress in query.recentProgress]
    spark.stop()
    return shown


def main(kind: str, file: str) -> None:
    """Record one kind of session."""
    with tempfile.TemporaryDirectory() as home:
        shown = record(kind, Path(home))
    Path(file).write_text("[\n" + ",\n".join(json.dumps(one) for one in shown) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
