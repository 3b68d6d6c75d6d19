"""Kinds of joins on a real local Spark: equal to Spark SQL's batch join, and to Spark's own streaming outer joins.

Rows of a streaming query that met nobody come out when the watermark (or the count) has passed them. So the streams end
with rows that match nothing and lie far ahead; the last watermark then passes all rows but these.
"""

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
from streams import metrics_of, run, stream

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

Streams = Callable[[str, list[pa.Table]], Path]
Results = Counter[tuple[Any, ...]]
WINDOW = wm.time_window(left="400 milliseconds", right="250 milliseconds", ts="ts")
IN_TIME = "r.ts >= l.ts - INTERVAL 250 MILLISECONDS AND r.ts <= l.ts + INTERVAL 400 MILLISECONDS"
COUNTED = wm.count_window(left=150, right=90)
IN_COUNT = "((l.n < r.seen AND r.seen - l.n <= 150) OR (l.n >= r.seen AND l.seen - r.n <= 90))"
CASES = {
    "hash": "left.s = right.s AND left.k BETWEEN right.k - 30 AND right.k + 30",
    "bucket": "left.k BETWEEN right.k - 2 AND right.k + 5 AND left.v > 0.1D",
    "broadcast": "left.k < right.k - 4000 AND left.v - right.v > 0.2D",
}
SQL = {"inner": "inner", "left": "left", "right": "right", "full": "full", "semi": "leftsemi", "anti": "leftanti"}
ROWS, BATCHES, LAST = 200, 4, 400


def _every(*fast: tuple[str, str]) -> list[Any]:
    """Return all kinds with all routings; all but ``fast`` ones are marked long."""
    every = [(how, routing) for how in SQL for routing in CASES]
    return [pytest.param(*each, marks=[] if each in fast else [pytest.mark.long]) for each in every]


def _tables(seed: int, side: str) -> list[pa.Table]:
    """Return micro-batches of half a second each, with some nulls, and one that lies far ahead."""
    random = np.random.default_rng(seed)
    tables = []
    for number in range(BATCHES + 1):
        is_last = number == BATCHES
        rows = LAST if is_last else ROWS
        times = np.full(rows, 10**8) if is_last else random.integers(number * 500_000, (number + 1) * 500_000, rows)
        missing = (random.random(rows) < 0.05) & (not is_last)
        far = {"left": 10**6, "right": -(10**6)}[side]
        before = number * ROWS
        tables.append(
            pa.table(
                {
                    "id": pa.array(
                        -1 - np.arange(rows) if is_last else np.arange(rows) + before + 10_000 * (side == "right")
                    ),
                    "ts": pa.array(times, pa.timestamp("us", "UTC"), mask=(random.random(rows) < 0.02) & (not is_last)),
                    "k": pa.array(np.full(rows, far) if is_last else random.integers(0, 5_000, rows), mask=missing),
                    "s": pa.array([side] * rows if is_last else random.choice(["a", "b", "ccc", "d"], rows)),
                    "v": pa.array(np.full(rows, 0.5) if is_last else random.random(rows)),
                    "tags": pa.array([[1, 2], []] * (rows // 2), pa.list_(pa.int64())),
                    "n": pa.array(np.arange(rows) + before),
                    "seen": pa.array(np.full(rows, before + (rows if side == "right" else 0))),
                }
            )
        )
    return tables


LEFT, RIGHT = _tables(1, "left"), _tables(2, "right")


def _truth(spark: SparkSession, folders: tuple[Path, Path], routing: str, how: str, window: str = IN_TIME) -> Results:
    frames = [spark.read.parquet(str(folder)).alias(name) for folder, name in zip(folders, "lr", strict=True)]
    predicate = CASES[routing].replace("left.", "l.").replace("right.", "r.")
    both = frames[0].join(frames[1], F.expr(f"{predicate} AND {window}"), SQL[how])
    return _results(both.selectExpr(*(["l.id id"] if how in ("semi", "anti") else ["l.id left_id", "r.id right_id"])))


def _results(frame: DataFrame) -> Results:
    """Return the ids of results, without those of the last rows."""
    names = [name for name in ("id", "left_id", "right_id") if name in frame.columns]
    found = Counter(tuple(row) for row in frame.select(*names).collect())
    return Counter({ids: often for ids, often in found.items() if all(each is None or each >= 0 for each in ids)})


def _committed(spark: SparkSession, home: Path) -> Results:
    return _results(spark.read.parquet(f"{home}/pairs"))


@pytest.mark.parametrize(("how", "routing"), _every(("full", "bucket")))
def test_streaming_equals_spark_sql(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, how: Any, routing: Any
) -> None:
    folders = folder_of("left", LEFT), folder_of("right", RIGHT)
    frames = [stream(spark, folder) for folder in folders]
    joined = wm.join(*frames, CASES[routing], WINDOW, how=how, routing=routing, cores=3)
    query = run(joined, tmp_path)
    truth = _truth(spark, folders, routing, how)
    assert len(truth) > 100
    assert _committed(spark, tmp_path) == truth
    given = sum(metric.unmatched_rows for metric in metrics_of(query))
    assert given == sum(often for ids, often in truth.items() if None in ids or how == "anti")


@pytest.mark.parametrize(("how", "routing"), _every(("anti", "broadcast")))
def test_batch_equals_spark_sql(spark: SparkSession, folder_of: Streams, how: Any, routing: Any) -> None:
    folders = folder_of("left", LEFT), folder_of("right", RIGHT)
    frames = [spark.read.parquet(str(folder)) for folder in folders]
    joined = wm.join(*frames, CASES[routing], WINDOW, how=how, routing=routing, cores=3)
    assert _results(joined) == _truth(spark, folders, routing, how)
    assert all(field.nullable for field in joined.schema.fields)


@pytest.mark.parametrize(("how", "routing"), _every(("semi", "bucket")))
def test_count_windows_equal_spark_sql(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, how: Any, routing: Any
) -> None:
    folders = folder_of("left", LEFT), folder_of("right", RIGHT)
    frames = [stream(spark, folder) for folder in folders]
    run(wm.join(*frames, CASES[routing], COUNTED, how=how, routing=routing, cores=2), tmp_path)
    assert _committed(spark, tmp_path) == _truth(spark, folders, routing, how, IN_COUNT)


@pytest.mark.parametrize("how", ["left", pytest.param("full", marks=pytest.mark.long)])
def test_restart_goes_on_with_the_marks(spark: SparkSession, folder_of: Streams, tmp_path: Path, how: Any) -> None:
    """Rows that met one before the restart are not given as unmatched after it, and the others once."""
    folders = folder_of("left", LEFT[:2]), folder_of("right", RIGHT[:2])

    def start() -> None:
        frames = [stream(spark, folder) for folder in folders]
        run(wm.join(*frames, CASES["bucket"], WINDOW, how=how, cores=2), tmp_path)

    start()
    folder_of("left", LEFT[2:])
    folder_of("right", RIGHT[2:])
    start()
    assert _committed(spark, tmp_path) == _truth(spark, folders, "bucket", how)


@pytest.mark.long
@pytest.mark.parametrize("how", ["left", "right", "full", "semi"])
def test_the_same_rows_as_sparks_own_streaming_join(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, how: Any
) -> None:
    """An equality and a range of time are what both can join. Spark has no streaming anti join.

    Spark's own join keeps rows without a timestamp for ever, where its batch join and ours give them.
    """
    folders = folder_of("left", LEFT), folder_of("right", RIGHT)
    frames = [stream(spark, folder).where("ts IS NOT NULL") for folder in folders]
    run(wm.join(*frames, CASES["hash"], WINDOW, how=how, cores=2), tmp_path / "ours")
    left, right = (frame.withWatermark("ts", "0 seconds").alias(name) for frame, name in zip(frames, "lr", strict=True))
    predicate = CASES["hash"].replace("left.", "l.").replace("right.", "r.")
    both = left.join(right, F.expr(f"{predicate} AND {IN_TIME}"), SQL[how])
    own = ["l.id id"] if how == "semi" else ["l.id left_id", "r.id right_id"]
    run(both.selectExpr(*own), tmp_path / "sparks")
    found = _committed(spark, tmp_path / "sparks")
    assert len(found) > 100
    assert _committed(spark, tmp_path / "ours") == found
