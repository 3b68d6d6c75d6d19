"""``wm.multijoin`` against Spark SQL's own batch join: streaming and batch, all routings and strategies, restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import reduce
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import oracle
import watersmeet as wm
from streams import metrics_of, run, stream
from watersmeet.spec.streams import read_predicate
from watersmeet.spec.window import windows_of

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

Streams = Callable[[str, list[pa.Table]], Path]

SPAN = 1_000_000
"""Microseconds that one file spans."""
BATCHES = 4
LENGTHS = {"a": 2 * SPAN, "b": SPAN, "c": 3 * SPAN, "d": SPAN // 2}
CHAIN = "a.k = b.k AND b.x BETWEEN c.x - 3 AND c.x + 2"
CASES = {
    "hash": ("abc", "a.k = b.k AND b.k = c.k AND a.x + b.x > c.x", {}),
    "bucket": ("abc", "a.x BETWEEN b.x - 2 AND b.x + 1 AND b.x BETWEEN c.x - 1 AND c.x + 1", {}),
    "replicate": ("abc", CHAIN, {"largest": "b"}),
    "star of four": ("abcd", "a.x = b.x AND a.x BETWEEN c.x - 1 AND c.x + 1 AND a.k = d.k", {}),
    "cycle": ("abc", "a.k = b.k AND b.k = c.k AND c.x BETWEEN a.x - 9 AND a.x + 9", {"strategy": "stashed"}),
    "overwritten": ("abc", CHAIN, {"strategy": "stashed", "stash_rows": 1}),
    "circular": ("abc", CHAIN, {"strategy": "circular", "cores": 3}),
}
FAST = ("hash", "bucket")

Results = Counter[tuple[int, ...]]


def _tables(name: str, batches: int = BATCHES, rows: int = 60) -> list[pa.Table]:
    """Return a stream's files; keys and times repeat, some are null, and time is disordered inside a file."""
    rng = np.random.default_rng(ord(name))
    tables = []
    for batch in range(batches):
        ts = rng.integers(batch * SPAN, (batch + 1) * SPAN, rows)
        k, x = rng.integers(0, 12, rows).tolist(), rng.integers(0, 90, rows).tolist()
        k[0] = None
        tables.append(
            pa.table(
                {
                    "id": pa.array(batch * rows + np.arange(rows)),
                    "ts": pa.array(ts, pa.timestamp("us", "UTC")),
                    "k": pa.array(k, pa.int64()),
                    "x": pa.array(x, pa.int32()),
                }
            )
        )
    return tables


def _window(names: str) -> Any:
    lengths = {name: f"{LENGTHS[name]} microseconds" for name in names}
    return wm.time_window(lengths, ts="ts", lateness="1 second")


def _truth(spark: SparkSession, folders: dict[str, Path], on: str, lengths: dict[str, int] = LENGTHS) -> Results:
    """Return the results of Spark SQL's join of all rows."""
    frames = [spark.read.parquet(str(folder)).alias(name) for name, folder in folders.items()]
    windows = [
        f"unix_micros({later}.ts) - unix_micros({row}.ts) <= {lengths[row]}" for row, later in permutations(folders, 2)
    ]
    joined = reduce(DataFrame.crossJoin, frames).where(" AND ".join([on, *windows]))
    return Counter(map(tuple, joined.select(*(f"{name}.id" for name in folders)).collect()))


def _ids(frame: DataFrame, names: str) -> Results:
    return Counter(map(tuple, frame.select(*(f"{name}_id" for name in names)).collect()))


@pytest.mark.parametrize(
    "case", [case if case in FAST else pytest.param(case, marks=pytest.mark.long) for case in CASES]
)
def test_results_are_those_of_spark_sql(spark: SparkSession, folder_of: Streams, tmp_path: Path, case: str) -> None:
    """In four micro-batches with a restart in the middle, and in one batch."""
    names, on, options = CASES[case]
    tables = {name: _tables(name) for name in names}
    folders = {name: folder_of(name, some[:2]) for name, some in tables.items()}

    def join(frames: dict[str, DataFrame]) -> DataFrame:
        return wm.multijoin(frames, on, _window(names), **options)

    run(join({name: stream(spark, folder) for name, folder in folders.items()}), tmp_path)
    for name, some in tables.items():
        folder_of(name, some[2:])
    query = run(join({name: stream(spark, folder) for name, folder in folders.items()}), tmp_path)
    truth = _truth(spark, folders, on)
    assert truth.total() > 100
    assert _ids(spark.read.parquet(f"{tmp_path}/pairs"), names) == truth
    assert any(metrics.window_rows for metrics in metrics_of(query))
    assert not any(metrics.late_rows for metrics in metrics_of(query))
    batch = join({name: spark.read.parquet(str(folder)) for name, folder in folders.items()})
    assert batch.columns == [f"{name}_{column}" for name in names for column in ("id", "ts", "k", "x")]
    assert _ids(batch, names) == truth


def test_count_windows_are_those_of_the_oracle(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    tables = {name: _tables(name, 3, 30) for name in "abc"}
    window = wm.count_window({"a": 25, "b": 40, "c": 7}, order_by="ts")
    folders = {name: folder_of(name, some) for name, some in tables.items()}
    run(wm.multijoin({name: stream(spark, folder) for name, folder in folders.items()}, CHAIN, window), tmp_path)
    pushes = [{name: pq.read_table(folders[name] / f"{batch:03d}.parquet") for name in "abc"} for batch in range(3)]
    schemas = {name: some[0].schema for name, some in tables.items()}
    names = tuple(schemas)
    truth = oracle.results(read_predicate(CHAIN, names), windows_of(window, names), schemas, pushes)
    assert truth.total() > 20
    assert _ids(spark.read.parquet(f"{tmp_path}/pairs"), "abc") == truth


@pytest.mark.long
def test_runs_are_merged_and_expire(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    """Twenty-four micro-batches: eight runs are merged into one, those past the window go, no result is lost."""
    batches = 24
    folders = {name: folder_of(name, _tables(name, batches, 20)) for name in "abc"}
    lengths = dict.fromkeys("abc", f"{12 * SPAN} microseconds")
    frames = {name: stream(spark, folder) for name, folder in folders.items()}
    query = run(wm.multijoin(frames, CHAIN, wm.time_window(lengths, ts="ts"), cores=2), tmp_path)
    metrics = [metric for metric in metrics_of(query) if metric.rows_in]
    most = max(core["runs"] for metric in metrics for core in metric.asDict(recursive=True)["cores"])
    assert most < 3 * 16, "not one run per micro-batch and stream"
    assert max(metric.window_rows for metric in metrics) < 2 * 2 * 3 * 20 * 18, "rows expire"
    truth = _truth(spark, folders, CHAIN, dict.fromkeys("abc", 12 * SPAN))
    assert _ids(spark.read.parquet(f"{tmp_path}/pairs"), "abc") == truth


def test_another_join_on_the_checkpoint_is_refused(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    folders = {name: folder_of(name, _tables(name, 1)) for name in "abc"}
    frames = {name: stream(spark, folder) for name, folder in folders.items()}
    run(wm.multijoin(frames, CHAIN, _window("abc")), tmp_path)
    for name in "abc":
        folder_of(name, _tables(name, 2)[1:])
    with pytest.raises(StreamingQueryException, match="the checkpoint holds the state of another join"):
        run(wm.multijoin(frames, f"{CHAIN} AND a.x > 3", _window("abc")), tmp_path)


def test_what_cannot_be_joined_is_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "ts timestamp, k long, x int")
    frames = dict.fromkeys("abc", frame)
    window = wm.time_window("1 second", ts="ts")
    with pytest.raises(wm.SpecificationError, match=r"a\.k = b\.k.*|connect"):
        wm.multijoin(frames, "a.k = b.k", window)
    with pytest.raises(wm.SpecificationError, match="strategy='fast'"):
        wm.multijoin(frames, CHAIN, window, strategy="fast")  # type: ignore[arg-type]
    with pytest.raises(wm.SpecificationError, match="hash needs equalities"):
        wm.multijoin(frames, CHAIN, window, routing="hash")
    with pytest.raises(wm.SpecificationError, match="1 stream"):
        wm.multijoin({"a": frame}, "a.k = 1", window)
