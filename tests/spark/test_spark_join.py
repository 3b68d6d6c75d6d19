"""The join on a real local Spark: equal to Spark SQL's own batch join, streaming and batch, and across restarts."""

from __future__ import annotations

import csv
import io
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it

import watersmeet as wm
from streams import committed, ids, metrics_of, run, stream
from watersmeet.spark.core_ids import core_ids, partition_of
from watersmeet.spark.session import check_session

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

Streams = Callable[[str, list[pa.Table]], Path]
WINDOW = wm.time_window(left="400 milliseconds", right="250 milliseconds", ts="ts")
WINDOW_SQL = (
    "((l.ts >= r.ts AND l.ts <= r.ts + INTERVAL 250 MILLISECONDS)"
    " OR (l.ts < r.ts AND r.ts <= l.ts + INTERVAL 400 MILLISECONDS))"
)
CASES = {
    "hash": "left.s = right.s AND left.k BETWEEN right.k - 300 AND right.k + 300",
    "bucket": "left.k BETWEEN right.k - 20 AND right.k + 35",
    "broadcast": "left.k < right.k AND left.v - right.v > 0.9D",
}
ROWS, BATCHES = 400, 4


def _tables(seed: int, first_id: int = 0) -> list[pa.Table]:
    """Return micro-batches of half a second each, with some nulls; rows of a batch in no order."""
    random = np.random.default_rng(seed)
    tables = []
    for number in range(BATCHES):
        times = random.integers(number * 500_000, (number + 1) * 500_000, ROWS)
        missing = random.random(ROWS) < 0.05
        tables.append(
            pa.table(
                {
                    "id": pa.array(np.arange(ROWS) + number * ROWS + first_id),
                    "ts": pa.array(times, pa.timestamp("us", "UTC")),
                    "k": pa.array(random.integers(0, 5_000, ROWS), mask=missing),
                    "s": pa.array(random.choice(["a", "b", "ccc"], ROWS)),
                    "v": pa.array(random.random(ROWS)),
                    "tags": pa.array([[1, 2], []] * (ROWS // 2), pa.list_(pa.int64())),
                }
            )
        )
    return tables


LEFT, RIGHT = _tables(1), _tables(2, 10_000)


def _truth(spark: SparkSession, left: Path, right: Path, on: str, window: str = WINDOW_SQL) -> Counter[tuple[int, int]]:
    spark.read.parquet(str(left)).createOrReplaceTempView("l")
    spark.read.parquet(str(right)).createOrReplaceTempView("r")
    predicate = on.replace("left.", "l.").replace("right.", "r.")
    both = spark.table("l").alias("l").join(spark.table("r").alias("r"), F.expr(f"{predicate} AND {window}"))
    return ids(both.selectExpr("l.id left_id", "r.id right_id"))


@pytest.mark.parametrize("routing", CASES)
def test_streaming_equals_spark_sql(spark: SparkSession, folder_of: Streams, tmp_path: Path, routing: str) -> None:
    left, right = folder_of("left", LEFT), folder_of("right", RIGHT)
    pairs = wm.join(stream(spark, left), stream(spark, right), CASES[routing], WINDOW, cores=3)
    query = run(pairs, tmp_path)
    truth = _truth(spark, left, right, CASES[routing])
    assert len(truth) > 100
    found = spark.read.parquet(str(tmp_path / "pairs"))
    assert ids(found) == truth
    assert found.columns == [f"{side}_{name}" for side in ("left", "right") for name in LEFT[0].column_names]
    metrics = metrics_of(query)
    assert sum(metric.pairs for metric in metrics) == truth.total()
    assert sum(metric.null_rows for metric in metrics) > 0
    took_part = {core["core"] for metric in metrics for core in metric.cores if core}
    assert took_part <= set(core_ids(3, 2))
    assert routing == "hash" or len(took_part) == 3  # three strings may hash to fewer than three cores


@pytest.mark.parametrize("routing", CASES)
def test_batch_equals_spark_sql(spark: SparkSession, folder_of: Streams, routing: str) -> None:
    left, right = folder_of("left", LEFT), folder_of("right", RIGHT)
    frames = [spark.read.parquet(str(folder)) for folder in (left, right)]
    pairs = wm.join(frames[0], frames[1], CASES[routing], WINDOW, routing=routing, cores=2)  # type: ignore[arg-type]
    assert ids(pairs) == _truth(spark, left, right, CASES[routing])


@pytest.mark.parametrize("order_by", [None, "v"])
def test_count_windows_equal_the_join_in_process(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, order_by: str | None
) -> None:
    left, right = folder_of("left", LEFT), folder_of("right", RIGHT)
    window = wm.count_window(left=150, right=90, order_by=order_by)
    join = wm.StreamJoin(left=LEFT[0].schema, right=RIGHT[0].schema, on=CASES["bucket"], window=window)
    truth: Counter[tuple[int, int]] = Counter()
    for one, other in zip(LEFT, RIGHT, strict=True):
        found = join.push(left=one, right=other)
        truth.update(zip(found["left_id"].to_pylist(), found["right_id"].to_pylist(), strict=True))
    run(wm.join(stream(spark, left), stream(spark, right), CASES["bucket"], window, cores=2), tmp_path)
    assert committed(spark, tmp_path) == truth


def test_restart_goes_on_where_it_stopped(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    """Rows of both halves meet across the restart; the second start may use another structure."""
    left, right = folder_of("left", LEFT[:2]), folder_of("right", RIGHT[:2])
    on = CASES["hash"]
    run(wm.join(stream(spark, left), stream(spark, right), on, WINDOW, cores=2), tmp_path)
    folder_of("left", LEFT[2:])
    folder_of("right", RIGHT[2:])
    run(wm.join(stream(spark, left), stream(spark, right), on, WINDOW, cores=2, structure="bi_sort"), tmp_path)
    assert committed(spark, tmp_path) == _truth(spark, left, right, on)


def test_lateness_and_columns_may_change(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    """Rows of the first start have null where the second one has a column more, and are met all the same."""
    left, right = folder_of("left", LEFT[:2]), folder_of("right", RIGHT[:2])
    on = CASES["hash"]
    run(wm.join(stream(spark, left).drop("v"), stream(spark, right), on, WINDOW, cores=2), tmp_path)
    folder_of("left", LEFT[2:])
    folder_of("right", RIGHT[2:])
    patient = replace(WINDOW, lateness=timedelta(minutes=1))
    run(wm.join(stream(spark, left), stream(spark, right), on, patient, cores=2), tmp_path)
    assert committed(spark, tmp_path) == _truth(spark, left, right, on)
    found = spark.read.option("mergeSchema", "true").parquet(f"{tmp_path}/pairs")
    old = f"left_id IN ({', '.join(str(number) for table in LEFT[:2] for number in table['id'].to_pylist())})"
    nulls = found.selectExpr(f"{old} AS is_old", "left_v IS NULL AS is_null").distinct().collect()
    assert {tuple(row) for row in nulls} >= {(True, True), (False, False)}
    assert (True, False) not in {tuple(row) for row in nulls}


def test_another_join_on_the_checkpoint_is_refused(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    """By what differs, and nothing has changed then; without new rows there is no micro-batch that could be refused."""
    left, right = folder_of("left", LEFT[:1]), folder_of("right", RIGHT[:1])
    on = CASES["hash"]

    def pairs(on: str) -> DataFrame:
        return wm.join(stream(spark, left), stream(spark, right), on, WINDOW, cores=2)

    run(pairs(on), tmp_path)
    other = pairs(f"{on} AND left.v > 0")
    assert not metrics_of(run(other, tmp_path))
    folder_of("left", LEFT[1:2])
    with pytest.raises(
        StreamingQueryException, match=r"state of another join: predicate: was .*, is .* AND left\.v > 0"
    ):
        run(other, tmp_path)
    run(pairs(on), tmp_path)
    assert committed(spark, tmp_path) == _truth(spark, left, right, on)


def test_other_shuffle_partitions_are_refused(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    """Ids of cores follow from the partitions; with others every core would begin with an empty window."""
    left, right = folder_of("left", LEFT[:1]), folder_of("right", RIGHT[:1])
    run(wm.join(stream(spark, left), stream(spark, right), CASES["hash"], WINDOW, cores=1), tmp_path)
    folder_of("left", LEFT[1:2])
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.set(name, "5")
    try:
        other = wm.join(stream(spark, left), stream(spark, right), CASES["hash"], WINDOW, cores=1)
    finally:
        spark.conf.set(name, before)
    assert not set(core_ids(1, 5)) & set(core_ids(1, 2))
    with pytest.raises(StreamingQueryException, match="state of another join"):
        run(other, tmp_path)


def test_every_core_reports_every_micro_batch(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    one_key = [table.set_column(3, "s", pa.array(["a"] * ROWS)) for table in LEFT]
    left, right = folder_of("left", one_key), folder_of("right", RIGHT)
    query = run(wm.join(stream(spark, left), stream(spark, right), CASES["hash"], WINDOW, cores=5), tmp_path)
    metrics = [metric for metric in metrics_of(query) if metric.rows_in]
    assert len(metrics) == BATCHES
    for metric in metrics:
        assert sorted(core["core"] for core in metric.cores if core) == sorted(core_ids(5, 2))


def test_late_rows_are_counted_and_not_joined(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    on_time, late = LEFT[:3], LEFT[0].set_column(0, "id", pa.array(np.arange(ROWS) + 90_000))
    left, right = folder_of("left", [*on_time, late]), folder_of("right", [*RIGHT[:3], RIGHT[3]])
    query = run(wm.join(stream(spark, left), stream(spark, right), CASES["bucket"], WINDOW, cores=2), tmp_path)
    found = committed(spark, tmp_path)
    assert not any(left_id >= 90_000 for left_id, _ in found)
    metrics = metrics_of(query)
    assert sum(metric.late_rows for metric in metrics) >= ROWS * 9 // 10


def test_spark_spreads_the_cores_as_we_compute(spark: SparkSession) -> None:
    rows = spark.range(300).selectExpr("cast(id AS int) id", "pmod(hash(cast(id AS int)), 7) place").collect()
    assert [partition_of(row.id, 7) for row in rows] == [row.place for row in rows]


def test_refusals_before_the_query_starts(spark: SparkSession, folder_of: Streams) -> None:
    left, right = folder_of("left", LEFT[:1]), folder_of("right", RIGHT[:1])
    frames = [spark.read.parquet(str(folder)) for folder in (left, right)]
    streaming = stream(spark, left)
    for error, words, call in (
        (wm.SchemaError, "no column 'nothing'", lambda: wm.join(*frames, "left.nothing = right.k", WINDOW)),
        (wm.ColumnTypeError, "compares", lambda: wm.join(*frames, "left.s = right.k", WINDOW)),
        (wm.ColumnTypeError, "timestamp", lambda: wm.join(*frames, CASES["hash"], wm.time_window("1 second", ts="k"))),
        (wm.SpecificationError, "streaming", lambda: wm.join(streaming, frames[1], CASES["hash"], WINDOW)),
        (wm.SpecificationError, "how=", lambda: wm.join(*frames, CASES["hash"], WINDOW, how="outer")),
        (wm.SpecificationError, "cores=", lambda: wm.join(*frames, CASES["hash"], WINDOW, cores=0)),
    ):
        with pytest.raises(error, match=words) as refused:
            call()  # type: ignore[no-untyped-call]
        assert "allowed:" in str(refused.value)
        assert "next step:" in str(refused.value)


def test_an_output_mode_that_a_join_cannot_have_is_refused(
    spark: SparkSession, folder_of: Streams, tmp_path: Path
) -> None:
    left, right = folder_of("left", LEFT[:1]), folder_of("right", RIGHT[:1])
    pairs = wm.join(stream(spark, left), stream(spark, right), CASES["hash"], WINDOW)
    writer = pairs.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(AnalysisException, match="complete"):
        writer.outputMode("complete").start()


@pytest.mark.parametrize(("package", "version"), [("pyspark", "4.0.1"), ("pyspark", "3.5.4"), ("pandas", "3.0.0")])
def test_versions_that_do_not_work_are_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, package: str, version: str
) -> None:
    monkeypatch.setattr(f"{package}.__version__", version)
    with pytest.raises(wm.SpecificationError, match=rf"(?s){version}.*allowed:.*next step: pip install '{package}"):
        check_session(spark)


@pytest.mark.parametrize("symbol", ["ibm", pytest.param("bac", marks=pytest.mark.long)])
def test_real_ticks_equal_spark_sql(
    spark: SparkSession, folder_of: Streams, shared_data: Path, tmp_path: Path, symbol: str
) -> None:
    """Trades with the quotes within a second whose bid is near their price: a morning, in three micro-batches."""

    def read(kind: str, limit: int) -> list[pa.Table]:
        with zipfile.ZipFile(shared_data / "ticks" / f"{symbol}_20131007_{kind}.zip") as archive:
            text = io.TextIOWrapper(archive.open(archive.namelist()[0]))
            rows = [(int(row[0]), int(row[1])) for row in csv.reader(text) if int(row[1]) > 0]
        times, prices = (np.array(column[:limit]) for column in zip(*sorted(rows), strict=True))
        columns = {"id": np.arange(limit), "k": prices, "ts": pa.array(times * 1000, pa.timestamp("us", "UTC"))}
        return [pa.table(columns).slice(begin, limit // 3) for begin in range(0, limit, limit // 3)]

    left, right = folder_of("left", read("trade", 3_999)), folder_of("right", read("quote", 12_000))
    on = "left.k BETWEEN right.k - 500 AND right.k + 500"
    pairs = wm.join(stream(spark, left), stream(spark, right), on, wm.time_window("1 second", ts="ts"))
    run(pairs, tmp_path)
    near = "l.ts BETWEEN r.ts - INTERVAL 1 SECOND AND r.ts + INTERVAL 1 SECOND"
    truth = _truth(spark, left, right, on, near)
    assert len(truth) > 1000
    assert committed(spark, tmp_path) == truth
