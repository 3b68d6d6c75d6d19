"""The cache of decoded runs taken away or damaged under a query: it costs time, never truth."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from streams import Pairs, committed, metrics_of, run, start, stream

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

Streams = Callable[[str, list[pa.Table]], Path]
ROWS, BATCHES = 300, 14
ON = wm.band("k", "k", 25)
WINDOW = wm.time_window("3 seconds", ts="ts")


def _tables(seed: int) -> list[pa.Table]:
    """Return micro-batches of 150 milliseconds each: eight of them span less than half the window and are merged."""
    random = np.random.default_rng(seed)
    return [
        pa.table(
            {
                "id": np.arange(ROWS) + number * ROWS,
                "ts": pa.array(random.integers(0, 150_000, ROWS) + number * 150_000, pa.timestamp("us", "UTC")),
                "k": random.integers(0, 5_000, ROWS),
            }
        )
        for number in range(BATCHES)
    ]


LEFT, RIGHT = _tables(31), _tables(32)


@pytest.fixture(scope="module")
def truth() -> Pairs:
    """All rows lie within one window, so the truth needs no more than NumPy."""
    left, right = (pa.concat_tables(tables)["k"].to_numpy() for tables in (LEFT, RIGHT))
    lefts, rights = np.nonzero(np.abs(left[:, None] - right[None, :]) <= 25)
    return Counter(zip(lefts.tolist(), rights.tolist(), strict=True))


def _joined(spark: SparkSession, left: Path, right: Path) -> DataFrame:
    return wm.join(stream(spark, left), stream(spark, right), ON, WINDOW, cores=2)


def _caches(spark: SparkSession) -> list[Path]:
    return list(Path(spark.conf.get("spark.local.dir") or "").glob("**/watersmeet"))


def _files(spark: SparkSession) -> list[Path]:
    return [file for folder in _caches(spark) if folder.is_dir() for file in folder.iterdir()]


def _remove(spark: SparkSession) -> None:
    for folder in _caches(spark):
        shutil.rmtree(folder) if folder.is_dir() else folder.unlink()


def _overwrite(spark: SparkSession) -> None:
    random = np.random.default_rng(5)
    for file in _files(spark):
        with file.open("r+b") as opened:
            opened.write(random.bytes(file.stat().st_size))


def _overwrite_the_last_word(spark: SparkSession) -> None:
    for file in _files(spark):
        with file.open("r+b") as opened:
            opened.seek(file.stat().st_size - 8)
            opened.write(b"damaged!")


def _truncate(spark: SparkSession) -> None:
    for file in _files(spark):
        os.truncate(file, file.stat().st_size // 2)


def _empty(spark: SparkSession) -> None:
    for file in _files(spark):
        os.truncate(file, 0)


def _put_a_file_in_its_place(spark: SparkSession) -> None:
    for folder in _caches(spark):
        shutil.rmtree(folder)
        folder.write_bytes(b"a file in the folder's place")


DAMAGES = [_remove, _overwrite, _overwrite_the_last_word, _truncate, _empty, _put_a_file_in_its_place]


@pytest.mark.long
def test_cache_damaged_in_every_way(spark: SparkSession, folder_of: Streams, tmp_path: Path, truth: Pairs) -> None:
    """Two micro-batches a start, then damage; the workers stay and remember files that have changed since."""
    runs = []
    for begin, damage in zip(range(0, BATCHES, 2), [*DAMAGES, None], strict=True):
        left, right = (folder_of("left", LEFT[begin : begin + 2]), folder_of("right", RIGHT[begin : begin + 2]))
        query = run(_joined(spark, left, right), tmp_path)
        runs += [core["runs"] for metric in metrics_of(query) for core in metric.cores if core]
        if damage is not None:
            assert len(_files(spark)) >= 4, "nothing to damage"
            damage(spark)
    _remove(spark)
    assert committed(spark, tmp_path) == truth
    assert max(runs) < 2 * BATCHES, "runs were merged"


@pytest.mark.long
def test_cache_removed_all_the_time(spark: SparkSession, folder_of: Streams, tmp_path: Path, truth: Pairs) -> None:
    left, right = folder_of("left", LEFT), folder_of("right", RIGHT)
    query = start(_joined(spark, left, right), tmp_path)
    removed = 0
    while not query.awaitTermination(0.02):  # type: ignore[arg-type]
        for folder in _caches(spark):
            removed += 1
            shutil.rmtree(folder, ignore_errors=True)
    assert removed >= BATCHES // 2
    assert committed(spark, tmp_path) == truth


@pytest.mark.long
def test_a_cache_too_small_for_the_window(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, truth: Pairs
) -> None:
    left, right = folder_of("left", LEFT), folder_of("right", RIGHT)
    spark.conf.set("spark.watersmeet.cacheBytes", "20000")
    try:
        pairs = _joined(spark, left, right)
    finally:
        spark.conf.unset("spark.watersmeet.cacheBytes")
    run(pairs, tmp_path)
    assert committed(spark, tmp_path) == truth
