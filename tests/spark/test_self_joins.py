"""A stream joined with itself: one DataFrame on both sides, each pair once, equal to Spark SQL's batch join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it

import watersmeet as wm
from streams import committed, ids, run, stream

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

Streams = Callable[[str, list[pa.Table]], Path]
ROWS, SPACING, BATCHES = 200, 500_000, 3
CASES = {
    "one timestamp": ("left.id < right.id AND left.k = right.k", "ts"),
    "one timestamp, a watermark": ("left.id < right.id AND left.k BETWEEN right.k - 1 AND right.k + 1", "ts"),
    "two timestamps": ("left.id < right.id AND left.k BETWEEN right.k - 1 AND right.k + 1", "at"),
}


def _tables() -> list[pa.Table]:
    """Return micro-batches of half a second each; a row has two timestamps."""
    random = np.random.default_rng(21)
    tables = []
    for number in range(BATCHES):
        ts, at = random.integers(number * SPACING, (number + 1) * SPACING, (2, ROWS))
        tables.append(
            pa.table(
                {
                    "id": random.permutation(ROWS) + number * ROWS,
                    "ts": pa.array(ts, pa.timestamp("us", "UTC")),
                    "at": pa.array(at, pa.timestamp("us", "UTC")),
                    "k": random.integers(0, 60, ROWS),
                }
            )
        )
    return tables


def _truth(spark: SparkSession, folder: Path, on: str, right_ts: str) -> Counter[tuple[int, int]]:
    rows = spark.read.parquet(str(folder))
    in_time = f"left.ts BETWEEN right.{right_ts} - INTERVAL 1 SECOND AND right.{right_ts} + INTERVAL 1 SECOND"
    both = rows.alias("left").join(rows.alias("right"), F.expr(f"{on} AND {in_time}"))
    return ids(both.selectExpr("left.id left_id", "right.id right_id"))


@pytest.mark.parametrize(
    "case", ["one timestamp", pytest.param("one timestamp, a watermark", marks=pytest.mark.long), "two timestamps"]
)
def test_a_pair_comes_once(spark: SparkSession, folder_of: Streams, tmp_path: Path, case: str) -> None:
    on, right_ts = CASES[case]
    folder = folder_of("rows", _tables())
    window = wm.time_window(left="1 second", right="1 second", left_ts="ts", right_ts=right_ts)
    truth = _truth(spark, folder, on, right_ts)
    assert len(truth) > 1_000
    assert not any((other, one) in truth for one, other in truth)
    rows = spark.read.parquet(str(folder))
    assert ids(wm.join(rows, rows, on, window, cores=2)) == truth
    own = stream(spark, folder)
    if case == "one timestamp, a watermark":
        own = own.withWatermark("ts", "0 seconds")
    run(wm.join(own, own, on, window, cores=2), tmp_path)
    assert committed(spark, tmp_path) == truth
