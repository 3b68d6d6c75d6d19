"""What ``wm.join`` and ``wm.multijoin`` refuse before anything runs: each was once taken, or failed unkindly."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from watersmeet.spark.balancing import CHECKPOINTS, FOLDER, folder_of_tables


def test_a_watermark_on_another_column_than_the_windows(spark: SparkSession, tmp_path: Path) -> None:
    """It would decide which rows are late, and which expire."""
    (tmp_path / "rows").mkdir()
    frame = spark.readStream.schema("ts timestamp, seen timestamp, k long").parquet(str(tmp_path / "rows"))
    window = wm.time_window("1 second", ts="ts")
    with pytest.raises(wm.SpecificationError, match="the left stream has a watermark on seen, its window is on ts"):
        wm.join(frame.withWatermark("seen", "1 minute"), frame, wm.equal("k"), window)
    wm.join(frame.withWatermark("ts", "1 minute"), frame, wm.equal("k"), window)


def test_strings_that_do_not_compare_byte_by_byte(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "ts timestamp, k string collate UTF8_LCASE")
    with pytest.raises(wm.SchemaError, match="column 'k' has the collation UTF8_LCASE"):
        wm.join(frame, frame, wm.equal("k"), wm.time_window("1 second", ts="ts"))


def test_arguments_of_the_wrong_kind(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "ts timestamp, k long")
    window = wm.time_window("1 second", ts="ts")
    with pytest.raises(wm.SpecificationError, match="of two streams: left and right"):
        wm.join(frame, frame, wm.equal("k"), wm.time_window({"left": "1 second", "right": "1 second"}, ts="ts"))  # type: ignore[arg-type]
    with pytest.raises(wm.SpecificationError, match="on=int"):
        wm.multijoin({"a": frame, "b": frame}, 5, window)  # type: ignore[arg-type]
    with pytest.raises(wm.SpecificationError, match="window=None"):
        wm.multijoin({"a": frame, "b": frame}, "a.k = b.k", None)  # type: ignore[arg-type]
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
