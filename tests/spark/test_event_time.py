"""What follows a join in a streaming query: results carry the event time of either side, and the watermark arrives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it

import watersmeet as wm
from streams import run, stream

Streams = Callable[[str, list[pa.Table]], Path]

START = 1_700_000_000_000_000
SECOND = 1_000_000
WINDOW = wm.time_window(left="7 seconds", right="4 seconds", left_ts="ts", right_ts="at", lateness="2 seconds")
ON = "left.k = right.k"


def rows(seed: int, batch: int, name: str, count: int = 60) -> pa.Table:
    """Return a micro-batch of three seconds; its rows are up to two seconds older than they should be."""
    random = np.random.default_rng([seed, batch])
    moments = START + (3 * batch * SECOND) + random.integers(-2 * SECOND + 1, 3 * SECOND, count)
    return pa.table(
        {
            "id": 1000 * batch + np.arange(count),
            name: pa.array(moments, pa.timestamp("us", "UTC")),
            "k": random.integers(0, 12, count),
        }
    )


def both(folder_of: Streams, batches: range) -> tuple[Path, Path]:
    return (
        folder_of("left", [rows(1, batch, "ts") for batch in batches]),
        folder_of("right", [rows(2, batch, "at") for batch in batches]),
    )


def windows_by(column: str) -> Callable[[DataFrame], DataFrame]:
    def count(pairs: DataFrame) -> DataFrame:
        counted = pairs.groupBy(F.window(column, "5 seconds").alias("w")).agg(F.count("*").alias("pairs"))
        return counted.select(F.col("w.start").alias("start"), F.col("w.end").alias("end"), "pairs")

    return count


def counts_of(frame: DataFrame) -> Counter[Any]:
    return Counter({row.start: row.pairs for row in frame.collect()})


@pytest.mark.parametrize("column", ["ts", "at"])
def test_oracle_windowed_count_follows_the_join_over_restarts(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, column: str
) -> None:
    count, home = windows_by(column), tmp_path / "home"
    for life in range(5):
        left, right = both(folder_of, range(2 * life, 2 * life + 2))
        run(count(wm.join(stream(spark, left), stream(spark, right), ON, WINDOW)), home)
    whole = wm.join(spark.read.parquet(str(left)), spark.read.parquet(str(right)), ON, WINDOW)
    expected = counts_of(count(whole))
    found = spark.read.parquet(f"{home}/pairs")
    closed = counts_of(found)
    assert closed == Counter({start: expected[start] for start in closed}), "a window that has closed is complete"
    assert len(closed) >= len(expected) - 4, "of 32 seconds, windows close 5, 2 and 7 seconds later"
    assert found.count() == len(closed)
