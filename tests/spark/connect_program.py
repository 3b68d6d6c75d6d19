"""A program that runs one join on Spark Connect, as a stream and as a batch, and prints its pairs as JSON.

A process of its own, because classic sessions and those of Connect do not go together in one.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it

import watersmeet as wm
from streams import committed, ids, run, stream
from watersmeet.spark.java import find_java

MICROSECONDS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
"""By default ``to_json`` writes milliseconds."""


def main(left: str, right: str, on: str, seconds: str) -> None:
    """Join two folders of files."""
    find_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the server is started here, and starts the workers
    spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    window = wm.time_window(seconds, ts="ts")
    home = tempfile.mkdtemp()
    query = run(wm.join(stream(spark, left), stream(spark, right), on, window, name="near"), home)
    table = tempfile.mkdtemp()
    run(wm.join(stream(spark, left), spark.read.parquet(right), on, None), table)
    decoded = tempfile.mkdtemp()
    messages = stream(spark, left).select(F.to_json(F.struct("*"), MICROSECONDS).alias("value"))
    side = wm.decode(messages, schema="id bigint, ts timestamp, k bigint")
    run(wm.join(side, stream(spark, right), on, window), decoded)
    batch = wm.join(spark.read.parquet(left), spark.read.parquet(right), on, window)
    answer = {
        "session": type(spark).__module__,
        "streaming": sorted(committed(spark, home).items()),
        "looked up": sorted(committed(spark, table).items()),
        "decoded": sorted(committed(spark, decoded).items()),
        "batch": sorted(ids(batch).items()),
        "metrics": sum(wm.metrics(progress)["near"].pairs for progress in query.recentProgress),
        "cores": sum(core.pairs for progress in query.recentProgress for core in wm.metrics(progress)["near"].cores),
        "held": wm.metrics(query)["near"].window_rows,
    }
    print(json.dumps(answer))  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
