"""What ``wm.join`` and ``wm.multijoin`` refuse before anything runs: each was once taken, or failed unkindly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it

import watersmeet as wm
from streams import run
from watersmeet.spark.balancing import CHECKPOINTS, FOLDER, folder_of_tables


def test_a_watermark_on_another_column_than_the_windows(spark: SparkSession, tmp_path: Path) -> None:
    """It would decide which rows are late, and which expire."""
    (tmp_path / "rows").mkdir()
    frame = spark.readStream.schema("ts timestamp, seen timestamp, k long").parquet(str(tmp_path / "rows"))
    window = wm.time_window("1 second", ts="ts")
    with pytest.raises(wm.SpecificationError, match="the left stream has a watermark on seen, its window is on ts"):
        wm.join(frame.withWatermark("seen", "1 minute"), frame, wm.equal("k"), window)
    wm.join(frame.withWatermark("ts", "1 minute"), frame, wm.equal("k"), window)


@contextmanager
def _case_sensitive(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def _stream(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    return spark.readStream.schema(schema).parquet(str(folder))


def test_a_watermark_shorter_than_the_lateness(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that the lateness promises to wait for would be dropped."""
    frame = _stream(spark, tmp_path, "ts timestamp, k long")
    window = wm.time_window("1 minute", ts="ts", lateness="30 seconds")
    with pytest.raises(wm.SpecificationError, match="a watermark of 10 seconds, its window a lateness of 30 seconds"):
        wm.join(frame.withWatermark("ts", "10 seconds"), frame, wm.equal("k"), window)
    with pytest.raises(wm.SpecificationError, match="a watermark of 10 seconds"):
        wm.multijoin({"a": frame, "b": frame.withWatermark("ts", "10 seconds")}, "a.k = b.k", window)
    wm.join(frame.withWatermark("ts", "40 seconds"), frame.withWatermark("ts", "30 seconds"), wm.equal("k"), window)


def test_a_watermark_of_the_stream_that_is_ahead(spark: SparkSession) -> None:
    policy, frame = "spark.sql.streaming.multipleWatermarkPolicy", spark.createDataFrame([], "k long")
    spark.conf.set(policy, "max")
    try:
        with pytest.raises(wm.SpecificationError, match="multipleWatermarkPolicy is 'max'"):
            wm.join(frame, frame, wm.equal("k"), wm.count_window(3))
    finally:
        spark.conf.unset(policy)


def test_timestamps_on_which_spark_has_no_watermarks(spark: SparkSession, tmp_path: Path) -> None:
    window = wm.time_window("1 minute", ts="ts")
    frame = _stream(spark, tmp_path, "ts timestamp_ntz, k long")
    with pytest.raises(wm.SpecificationError, match=r"'ts' of the left stream has the Spark type timestamp_ntz"):
        wm.join(frame, frame, wm.equal("k"), window)


@pytest.mark.parametrize("window", [wm.time_window("1 minute", ts="a.ts é"), wm.count_window(5, order_by="a.ts é")])
def test_names_with_dots_and_backticks(spark: SparkSession, tmp_path: Path, window: wm.TimeWindow) -> None:
    """PySpark takes what stands before a dot for a struct; the join finds columns by their names alone."""
    rows = spark.createDataFrame([(0, 1), (9, 1)], "s long, k long").select(
        F.timestamp_seconds("s").alias("a.ts é"), F.col("k").alias("a.`k"), F.col("s").alias("S"), F.col("k").alias("s")
    )
    on = wm.equal("a.`k") & wm.equal("S")
    names = [f"{side}_{name}" for side in ("left", "right") for name in rows.columns]
    with _case_sensitive(spark):
        rows.write.parquet(str(tmp_path / "rows"))
        batch = wm.join(rows, rows, on, window)
        assert batch.columns == names
        assert len(batch.collect()) == 2
        streamed = [spark.readStream.schema(rows.schema).parquet(str(tmp_path / "rows")) for _ in range(2)]
        run(wm.join(*streamed, on, window), tmp_path)
        assert spark.read.parquet(str(tmp_path / "pairs")).count() == 2


def test_a_text_as_time(spark: SparkSession, tmp_path: Path) -> None:
    frame = _stream(spark, tmp_path, "ts string, k long")
    with pytest.raises(wm.ColumnTypeError, match="has type string"):
        wm.join(frame, frame, wm.equal("k"), wm.time_window("1 minute", ts="ts"))


def test_names_are_found_as_the_session_finds_them(spark: SparkSession) -> None:
    """In any case, and then names that differ in it alone are one name; or not."""
    left = spark.createDataFrame([(1, 7)], "K long, Price long")
    right = spark.createDataFrame([(1, 7)], "k long, price long")
    pairs = wm.join(left, right, wm.equal("K") & wm.equal("PRICE"), wm.count_window(3))
    assert pairs.columns == ["left_K", "left_Price", "right_k", "right_price"]
    assert pairs.count() == 1
    assert wm.multijoin({"a": left, "b": right}, "A.k = b.K AND a.price = b.price", wm.count_window(3)).count() == 1
    with _case_sensitive(spark):
        with pytest.raises(wm.SchemaError, match="there is no column 'PRICE'"):
            wm.join(left, right, wm.equal("PRICE"), wm.count_window(3))
        pairs = wm.join(left, right, wm.equal("Price", "price"), wm.count_window(3))
        assert pairs.columns == ["K", "Price", "k", "price"]
        assert pairs.count() == 1


def test_strings_that_do_not_compare_byte_by_byte(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "ts timestamp, k string collate UTF8_LCASE")
    with pytest.raises(wm.SchemaError, match="column 'k' has the collation UTF8_LCASE"):
        wm.join(frame, frame, wm.equal("k"), wm.time_window("1 second", ts="ts"))


@pytest.mark.parametrize("cores", ["two", "2", 0, -1, True, 1.5, 10**6])
def test_cores_of_a_session(cores: object) -> None:
    with pytest.raises(wm.SpecificationError, match=f"cores={cores!r}"):
        wm.session(cores=cores)  # type: ignore[arg-type]


@pytest.mark.parametrize("memory", [4, "4", "4 g", "0g", "g", ""])
def test_memory_of_a_session(memory: object) -> None:
    with pytest.raises(wm.SpecificationError, match="a number and its unit"):
        wm.session(memory=memory)  # type: ignore[arg-type]


def test_a_condition_of_sparks_own(spark: SparkSession) -> None:
    """It does not tell which stream a name is of."""
    frame = spark.range(3).selectExpr("timestamp_millis(id) AS ts", "id")
    with pytest.raises(wm.SpecificationError, match=r'names the streams, such as on="left.x < right.y"'):
        wm.join(frame, frame, frame.id == frame.id, wm.time_window("1 second", ts="ts"))  # type: ignore[arg-type]
    with pytest.raises(wm.SpecificationError, match=r'names the streams, such as on="a.x < b.y"'):
        wm.multijoin({"a": frame, "b": frame}, F.col("id") == 1, wm.time_window("1 second", ts="ts"))  # type: ignore[arg-type]


def test_streams_without_names(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr("timestamp_millis(id) AS ts", "id")
    with pytest.raises(
        wm.SpecificationError, match=r"streams=list\n  allowed: a mapping from names to Spark DataFrames"
    ):
        wm.multijoin([frame, frame], "a.id = b.id", wm.time_window("1 second", ts="ts"))  # type: ignore[arg-type]


def test_arguments_of_the_wrong_kind(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "ts timestamp, k long")
    window = wm.time_window("1 second", ts="ts")
    with pytest.raises(wm.SpecificationError, match="of two streams: left and right"):
        wm.join(frame, frame, wm.equal("k"), wm.time_window({"left": "1 second", "right": "1 second"}, ts="ts"))  # type: ignore[arg-type]
    with pytest.raises(wm.SpecificationError, match="on=int"):
        wm.multijoin({"a": frame, "b": frame}, 5, window)  # type: ignore[arg-type]
    with pytest.raises(wm.SpecificationError, match="window=None"):
        wm.multijoin({"a": frame, "b": frame}, "a.k = b.k", None)  # type: ignore[arg-type]
    with pytest.raises(wm.SpecificationError, match="right is a pandas DataFrame"):
        wm.join(frame, pd.DataFrame({"k": [1]}), wm.equal("k"), window)
    with pytest.raises(wm.SpecificationError, match="a is a pyarrow Table"):
        wm.multijoin({"a": pa.table({"k": [1]}), "b": frame}, "a.k = b.k", window)
    with pytest.raises(wm.SpecificationError, match="cores='4'"):
        wm.join(frame, frame, wm.equal("k"), window, cores="4")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("setting", "path", "is_used"),
    [
        (CHECKPOINTS, "/a/b", True),  # the session's master is local
        (CHECKPOINTS, "file:/a/b", True),
        (CHECKPOINTS, "dbfs:/a/b", False),
        (FOLDER, "/a/b", True),
        (FOLDER, "hdfs://host/a/b", False),
    ],
)
def test_folders_for_routing_tables_are_plain_ones(spark: SparkSession, setting: str, path: str, is_used: bool) -> None:
    spark.conf.set(setting, path)
    try:
        found = folder_of_tables(spark)
    finally:
        spark.conf.unset(setting)
    assert (found is not None) == is_used
    assert found is None or found.startswith("/a/b")


ZONE = "America/New_York"
LEFT = "timestamp_ltz '2024-03-09 22:00:00' t, date '2024-03-09' d, timestamp_ntz '2024-03-09 22:00:00' n, 'x' s"
RIGHT = "timestamp '2024-03-09 00:00:00' midnight, timestamp '2024-03-09 22:00:00' u, timestamp '2024-03-10 22:00:00' v"


@pytest.mark.parametrize(
    ("on", "by_zone"),
    [
        ("CAST(left.t AS date) = left.d AND left.t = right.u", True),
        ("left.d = right.midnight", True),
        ("left.n = right.u", True),
        ("left.t = right.u AND left.t = TIMESTAMP '2024-03-09 22:00:00'", True),
        ("left.t = right.v - INTERVAL 1 DAY", True),  # that day has 23 hours
        ("left.t = right.u", False),
        ("left.t = right.v - INTERVAL 23 HOURS", False),
        ("left.d = CAST(left.n AS date) AND left.t = right.u", False),
        ("left.t <=> right.u AND left.d = DATE '2024-03-09'", False),
    ],
)
def test_another_time_zone_than_utc(spark: SparkSession, on: str, by_zone: bool) -> None:
    """What Spark computes by the session's zone is refused; the join gave other pairs. All of these hold in Spark."""
    window = wm.count_window(9)
    spark.conf.set("spark.sql.session.timeZone", ZONE)
    try:
        left, right = spark.sql(f"SELECT {LEFT}"), spark.sql(f"SELECT {RIGHT}")
        assert left.alias("left").join(right.alias("right"), F.expr(on)).count() == 1
        if by_zone:
            with pytest.raises(wm.SpecificationError, match="depends on the session's time zone, which is America"):
                wm.join(left, right, on, window)
            with pytest.raises(wm.SpecificationError, match="depends on the session's time zone"):
                wm.multijoin({"left": left, "right": right}, on, window)
        else:
            assert wm.join(left, right, on, window).count() == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
