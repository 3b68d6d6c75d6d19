"""What follows a join in a streaming query: results carry the event time of either side, and the watermark arrives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it

import watersmeet as wm
from streams import ids, metrics_of, run, stream

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


@pytest.mark.parametrize(
    ("column", "lives"),
    [("ts", 2), pytest.param("ts", 6, marks=pytest.mark.long), pytest.param("at", 6, marks=pytest.mark.long)],
)
def test_oracle_windowed_count_follows_the_join_over_restarts(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, column: str, lives: int
) -> None:
    count, home = windows_by(column), tmp_path / "home"
    for life in range(lives):
        left, right = both(folder_of, range(3 * life, 3 * life + 3))
        run(count(wm.join(stream(spark, left), stream(spark, right), ON, WINDOW)), home)
    whole = wm.join(spark.read.parquet(str(left)), spark.read.parquet(str(right)), ON, WINDOW)
    expected = counts_of(count(whole))
    found = spark.read.parquet(f"{home}/pairs")
    closed = counts_of(found)
    assert closed == Counter({start: expected[start] for start in closed}), "a window that has closed is complete"
    assert len(closed) >= len(expected) - 4, "the watermark arrives, 2 + 7 seconds behind; windows are of 5"
    assert found.count() == len(closed)


@pytest.mark.long
def test_duplicates_are_dropped_by_either_side(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    left, right = both(folder_of, range(6))
    for column, key in (("ts", "left_id"), ("at", "right_id")):
        pairs = wm.join(stream(spark, left), stream(spark, right), ON, WINDOW).select(column, key)
        run(pairs.dropDuplicatesWithinWatermark([key]), tmp_path / column)
        whole = wm.join(spark.read.parquet(str(left)), spark.read.parquet(str(right)), ON, WINDOW)
        found = spark.read.parquet(f"{tmp_path}/{column}/pairs")
        assert found.count() == found.distinct().count()
        assert Counter(found.collect()) == Counter(whole.select(column, key).distinct().collect())


@pytest.mark.long
def test_oracle_sparks_own_join_follows(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    """An outer join of Spark's own needs both watermarks: rows of ours that meet nobody come out with nulls."""
    left, right = both(folder_of, range(8))
    third = folder_of("third", [rows(3, batch, "then", 8) for batch in range(8)])

    def query(frames: list[DataFrame]) -> DataFrame:
        pairs = wm.join(frames[0], frames[1], ON, WINDOW).withColumnRenamed("left_k", "k").alias("p")
        other = frames[2].alias("o")
        meets = F.expr("p.k = o.k AND o.then BETWEEN p.ts AND p.ts + INTERVAL 2 SECONDS")
        return pairs.join(other, meets, "left").selectExpr("p.ts", "left_id", "right_id", "o.id AS other_id")

    streams = [stream(spark, folder) for folder in (left, right, third)]
    run(query([*streams[:2], streams[2].withWatermark("then", "2 seconds")]), tmp_path / "home")
    found = Counter(spark.read.parquet(f"{tmp_path}/home/pairs").collect())
    expected = Counter(query([spark.read.parquet(str(folder)) for folder in (left, right, third)]).collect())
    assert not found - expected, "none is wrong"
    matched = Counter({row: n for row, n in expected.items() if row.other_id is not None})
    assert not matched - found
    alone = [row for row in found if row.other_id is None]
    assert len(alone) > 10, "the watermark arrives"


@pytest.mark.long
@pytest.mark.parametrize("column", ["ts", "at"])
def test_oracle_another_join_follows_over_a_restart(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, column: str
) -> None:
    """By either side's timestamp no result of the first join is late in the second, which fails if one is."""
    window = wm.time_window("2 seconds", left_ts=column, right_ts="then", lateness="2 seconds")

    def query(frames: list[DataFrame]) -> DataFrame:
        pairs = wm.join(frames[0], frames[1], ON, WINDOW).withColumnRenamed("left_k", "k").drop("right_k")
        chained = wm.join(pairs, frames[2], "left.k = right.k", window, late="error")
        assert not any(field.metadata for field in chained.schema.fields), "the watermark is not the second join's own"
        return chained.select("left_id", "right_id", "id")

    for part in (range(2), range(2, 4)):
        folders = [*both(folder_of, part), folder_of("third", [rows(3, batch, "then", 20) for batch in part])]
        run(query([stream(spark, folder) for folder in folders]), tmp_path / "home")
    found = Counter(spark.read.parquet(f"{tmp_path}/home/pairs").collect())
    assert found == Counter(query([spark.read.parquet(str(folder)) for folder in folders]).collect())
    assert found.total() > 300


def one_a_second(seconds: range, modulus: int) -> pa.Table:
    """Return a row a second; its k is what is left of the second."""
    moments = pa.array([START + second * SECOND for second in seconds], pa.timestamp("us", "UTC"))
    return pa.table({"id": list(seconds), "ts": moments, "k": [second % modulus for second in seconds]})


@pytest.mark.long
def test_a_join_takes_what_an_anti_join_before_it_gives(
    spark: SparkSession, folder_of: Streams, tmp_path: Path
) -> None:
    """Such a row lies behind the watermark that has just decided it, and not behind the one before."""
    steps = [range(5), range(5, 10), range(10, 15), range(15, 20), range(20, 60)]
    window = wm.time_window("4 seconds", ts="ts")
    seconds = folder_of("seconds", [one_a_second(step, 2) for step in steps])
    every, odd = stream(spark, seconds), stream(spark, seconds).filter("k = 1")
    other = stream(spark, folder_of("other", [one_a_second(step, 1 << 20) for step in steps]))
    even = wm.join(every, odd, "left.k = right.k", window, how="anti", name="even")
    query = run(wm.join(even, other, "left.id = right.k", window, late="error", name="then"), tmp_path / "home")
    found = sorted(row.left_id for row in spark.read.parquet(f"{tmp_path}/home/pairs").collect())
    assert found[:8] == [0, 2, 4, 6, 8, 10, 12, 14]
    assert len(found) == len(set(found))
    assert len(found) == sum(wm.metrics(progress)["even"].unmatched_rows for progress in query.recentProgress)


def test_a_watermark_of_the_users_is_kept_and_then_results_have_none(spark: SparkSession, folder_of: Streams) -> None:
    left, right = both(folder_of, range(1))
    own = stream(spark, left).withWatermark("ts", "20 seconds")
    pairs = wm.join(own, stream(spark, right), ON, WINDOW)
    assert not any(field.metadata for field in pairs.schema.fields)
    with pytest.raises(AnalysisException, match="watermark"):  # before any row is read
        windows_by("ts")(pairs).writeStream.format("noop").outputMode("append").start()
    ours = wm.join(stream(spark, left), stream(spark, right), ON, WINDOW)
    marked = {field.name: field.metadata["spark.watermarkDelayMs"] for field in ours.schema.fields if field.metadata}
    assert marked == {"ts": 9_000, "at": 9_000}, "lateness and the longest stay"


def test_idle_goes_with_no_watermark_of_the_users(spark: SparkSession, folder_of: Streams) -> None:
    left, right = both(folder_of, range(1))
    idle = wm.time_window("1 second", left_ts="ts", right_ts="at", idle="1 minute")
    with pytest.raises(wm.SpecificationError, match="has a watermark already, its window idle=1 minute") as refused:
        wm.join(stream(spark, left).withWatermark("ts", "1 minute"), stream(spark, right), ON, idle)
    assert "next step:" in str(refused.value)


@pytest.mark.parametrize("how", ["full", pytest.param("inner", marks=pytest.mark.long)])
def test_an_hour_of_pause(spark: SparkSession, folder_of: Streams, tmp_path: Path, how: Any) -> None:
    """The right stream has rows in its first and last file only; a micro-batch is ten minutes.

    Rows that met nobody come out once, those that came late only as such.
    """

    def tens_of_minutes(name: str, first: int, numbers: list[int]) -> pa.Table:
        minutes = [10 * number + minute for number in numbers for minute in range(10)]
        moments = pa.array([START + 60 * SECOND * minute for minute in minutes], pa.timestamp("us", "UTC"))
        numbered = pa.array([first + minute for minute in minutes], pa.int64())
        return pa.table({"id": numbered, name: moments, "k": pa.array([0] * len(minutes), pa.int64())})

    window = wm.time_window("2 minutes", left_ts="ts", right_ts="at", idle="5 minutes")
    left = folder_of("left", [tens_of_minutes("ts", 0, [number]) for number in range(9)])
    paused = [
        tens_of_minutes("at", 1000, [0]),
        *[tens_of_minutes("at", 0, [])] * 7,
        tens_of_minutes("at", 1000, [3, 8]),
    ]
    right = folder_of("right", paused)
    lonely = stream(spark, right).selectExpr("id", "at", "CAST(id = 1004 AS BIGINT) AS k")
    results = wm.join(stream(spark, left), lonely, ON, window, how=how, late="keep", cores=2)
    query = run(results, tmp_path / "home")
    found = spark.read.parquet(f"{tmp_path}/home/pairs")
    late = found.filter("late IS NOT NULL").collect()
    assert sorted(row.right_id for row in late) == [1000 + minute for minute in range(30, 40)]
    assert all(row.late == "right" and row.left_id is None and row.at is not None for row in late)
    near = {(a, 1000 + b) for a in range(90) for b in (*range(10), *range(80, 90)) if abs(a - b) <= 2 and b != 4}
    alone = {(a, None) for a in range(90) if a not in {a for a, _ in near}} | {(None, 1004)}
    assert ids(found.filter("late IS NULL")) == Counter(near | (alone if how == "full" else set()))
    metrics = metrics_of(query)
    assert sum(metric.late_rows for metric in metrics) == 10
    assert sum(metric.unmatched_rows for metric in metrics) == (len(alone) if how == "full" else 0)
    assert max(metric.window_rows for metric in metrics) <= 40, "not the hour's 80"
