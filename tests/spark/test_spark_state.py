"""What the join keeps and who does the work: state stays bounded, every core is busy, merging bears restarts."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from streams import Pairs, committed, ids, metrics_of, run, stream
from watersmeet.spark.core_ids import core_ids, partition_of
from watersmeet.spark.state import FAN_IN

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

Streams = Callable[[str, list[pa.Table]], Path]
SPAN: Final = 100_000
"""Microseconds of a micro-batch."""
ROWS: Final = 2_000
ON: Final = "left.k BETWEEN right.k - 3 AND right.k + 3"


def _tables(seed: int, batches: int, rows: int = ROWS) -> list[pa.Table]:
    random = np.random.default_rng(seed)
    return [
        pa.table(
            {
                "id": np.arange(rows) + number * rows,
                "ts": pa.array(random.integers(0, SPAN, rows) + number * SPAN, pa.timestamp("us", "UTC")),
                "k": random.integers(0, 100_000, rows),
            }
        )
        for number in range(batches)
    ]


def _records(metrics: Any) -> list[Any]:
    """Return the metrics of each core of a micro-batch."""
    return [core for core in metrics.cores if core]


def _files(spark: SparkSession) -> int:
    scratch = Path(spark.conf.get("spark.local.dir") or "")
    return len(list(scratch.glob("**/watersmeet/*.run")))


@pytest.mark.parametrize(("windows", "batches_per_window"), [(5, 4), pytest.param(10, 20, marks=pytest.mark.long)])
def test_state_stays_bounded(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, windows: int, batches_per_window: int
) -> None:
    """Several windows of data; with 20 micro-batches a window runs are merged, with four they are not."""
    batches = windows * batches_per_window
    lefts, rights = _tables(61, batches), _tables(62, batches)
    left, right = folder_of("left", lefts), folder_of("right", rights)
    window = wm.time_window(f"{batches_per_window * SPAN} microseconds", ts="ts")
    before = _files(spark)
    query = run(wm.join(stream(spark, left), stream(spark, right), ON, window, cores=2), tmp_path)
    metrics = [metric for metric in metrics_of(query) if metric.rows_in]
    assert len(metrics) > min(batches, 100) // 2, "the progress keeps the last hundred micro-batches"
    live = 2 * batches_per_window * lefts[0].nbytes
    assert max(metric.state_bytes for metric in metrics) <= 2.5 * live
    # Narrowed rows take about half their raw bytes here.
    assert min(metric.state_bytes for metric in metrics[-batches_per_window:]) >= live / 4, "the window is there"
    levels = 2 + log(batches_per_window, FAN_IN)
    most = max(core["runs"] for metric in metrics for core in _records(metric))
    assert most <= 2 * FAN_IN * levels  # both sides
    kept = sum(core["runs"] for core in _records(metrics[-1]))
    assert _files(spark) - before <= kept + 2 * 2, "no more files than live runs and those of a micro-batch"


def test_a_micro_batch_without_input_tidies_and_reports(
    spark: SparkSession, folder_of: Streams, tmp_path: Path
) -> None:
    """Spark runs one after the last, as the watermark has moved: only now the rows of the second may go."""
    tables = _tables(69, 5, 50)
    left, right = folder_of("left", tables), folder_of("right", tables)
    window = wm.time_window(f"{2 * SPAN - SPAN // 20} microseconds", ts="ts")  # runs leave as a whole
    query = run(wm.join(stream(spark, left), stream(spark, right), ON, window, cores=2), tmp_path)
    *_, last, idle = metrics_of(query)
    assert (last.rows_in > 0, idle.rows_in) == (True, 0)
    assert 2 * 2 * 50 <= idle.window_rows < last.window_rows, "both sides; more than a window, less than before"
    assert sum(core["window_rows"] for core in _records(idle)) == idle.window_rows
    assert idle.state_bytes > 0
    assert len(_records(idle)) == 2


@pytest.mark.long
def test_runs_stay_few_when_lateness_is_longer_than_the_window(
    spark: SparkSession, folder_of: Streams, tmp_path: Path
) -> None:
    """Rows stay for window and lateness together, here twenty micro-batches, although the window is only five long."""
    batches = 20
    left, right = folder_of("left", _tables(67, batches, 50)), folder_of("right", _tables(68, batches, 50))
    window = wm.time_window("500 milliseconds", ts="ts", lateness="10 seconds")
    query = run(wm.join(stream(spark, left), stream(spark, right), ON, window, cores=2), tmp_path)
    runs = [core["runs"] for metric in metrics_of(query) for core in _records(metric)]
    assert max(runs) <= 2 * 2 * FAN_IN, "both sides: eight small runs are merged once they are half of what is kept"


def test_every_core_is_busy_in_every_micro_batch(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    batches = 5
    left, right = folder_of("left", _tables(63, batches)), folder_of("right", _tables(64, batches))
    window = wm.time_window("1 second", ts="ts")
    query = run(wm.join(stream(spark, left), stream(spark, right), ON, window, cores=2), tmp_path)
    full = [metric for metric in metrics_of(query) if metric.rows_in]
    assert len(full) == batches
    for metric in full:
        records = _records(metric)
        assert sorted(core["core"] for core in records) == sorted(core_ids(2, 2))
        assert all(core["rows_in"] > ROWS // 2 for core in records), "about half of both sides' rows"
        assert all(core["busy_seconds"] > 0 for core in records)
    assert {partition_of(core, 2) for core in core_ids(2, 2)} == {0, 1}, "different partitions, so different tasks"


@pytest.mark.parametrize("first", [pytest.param(7, marks=pytest.mark.long), 8, pytest.param(9, marks=pytest.mark.long)])
def test_restart_around_a_merge(spark: SparkSession, folder_of: Streams, tmp_path: Path, first: int) -> None:
    """The eighth micro-batch merges runs; a start with another structure goes on just before, just after and later."""
    batches, rows = 18, 200
    lefts, rights = _tables(65, batches, rows), _tables(66, batches, rows)
    on, window = "left.k BETWEEN right.k - 300 AND right.k + 300", wm.time_window("1600 milliseconds", ts="ts")
    starts: list[tuple[int, Any]] = [(first, "rap_table"), (first + 8, "wib_tree"), (batches, "bi_sort")]
    begin, merged = 0, list[Any]()
    for end, structure in starts:
        left, right = folder_of("left", lefts[begin:end]), folder_of("right", rights[begin:end])
        pairs = wm.join(stream(spark, left), stream(spark, right), on, window, cores=2, structure=structure)
        for metric in metrics_of(run(pairs, tmp_path)):
            merged.extend(core["runs"] for core in _records(metric))
        begin = end
    assert max(merged) < batches, "runs were merged"
    assert committed(spark, tmp_path) == _truth(spark, left, right, on, 1_600)


def _truth(spark: SparkSession, left: Path, right: Path, on: str, milliseconds: int) -> Pairs:
    frames = [spark.read.parquet(str(folder)).alias(name) for name, folder in (("l", left), ("r", right))]
    near = f"abs(unix_micros(l.ts) - unix_micros(r.ts)) <= {milliseconds} * 1000"
    predicate = on.replace("left.", "l.").replace("right.", "r.")
    both = frames[0].crossJoin(frames[1]).where(f"{predicate} AND {near}")
    return ids(both.selectExpr("l.id left_id", "r.id right_id"))
