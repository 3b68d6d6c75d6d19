"""A table on one side of a streaming join: equal to Spark SQL's batch join, and to the oracle for every predicate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it

import oracle
import watersmeet as wm
from strategies import KINDS, STRUCTURES, Case, cases
from streams import run, stream
from watersmeet.engine.result import result_schema
from watersmeet.spark.envelope import joinable, one_batch
from watersmeet.spark.lookup import TABLE_BYTES, Lookup
from watersmeet.spec.expression import StreamName
from watersmeet.spec.kinds import How, returns_left_rows
from watersmeet.spec.sql import parse_predicate
from watersmeet.window.admission import keep_rows
from watersmeet.window.plan import plan_join

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

Streams = Callable[[str, list[pa.Table]], Path]
Rows = Counter[tuple[Any, ...]]
SUPPRESSED = [HealthCheck.too_slow, HealthCheck.data_too_large]
ALWAYS = wm.count_window(1 << 30)
KINDS_OF_JOIN: dict[StreamName, tuple[How, ...]] = {
    "left": ("inner", "left", "semi", "anti"),
    "right": ("inner", "right"),
}
ROWS = 300


# --- in this process: every predicate -----------------------------------------------------------------------------


@settings(suppress_health_check=SUPPRESSED)
@given(data=st.data())
def test_oracle_any_predicate(data: st.DataObject) -> None:
    for kind in data.draw(st.permutations(KINDS))[:3]:
        _looked_up(kind, data)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=SUPPRESSED)
@given(data=st.data())
def test_oracle_every_predicate(kind: str, data: st.DataObject) -> None:
    _looked_up(kind, data)


def _looked_up(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind))
    side: StreamName = data.draw(st.sampled_from(["left", "right"]))
    how = data.draw(st.sampled_from(KINDS_OF_JOIN[side]))
    assert _found(case, side, how, data.draw(st.sampled_from(STRUCTURES))) == _expected(case, side, how)


def _whole(case: Case, side: StreamName) -> pa.RecordBatch:
    pushed = [push[side == "right"] for push in case.pushes]
    return one_batch(
        pa.concat_tables([case.schemas[side].empty_table(), *(some for some in pushed if some is not None)])
    )


def _found(case: Case, side: StreamName, how: How, structure: Any) -> Rows:
    """Look up one push of a stream's rows after the other."""
    other: StreamName = "right" if side == "left" else "left"
    on = parse_predicate(case.on)
    plan = plan_join(
        *(case.schemas[name] for name in ("left", "right")), on, wm.count_window(1), structure, with_branches=True
    )
    whole = _whole(case, other)
    table = pa.Table.from_batches([keep_rows(whole, joinable(plan, other, whole)[0])])
    result = result_schema(case.schemas["left"], case.schemas["right"], how=how)
    lookup = Lookup.of(plan, how, side, result, table)
    found: Rows = Counter()
    for push in case.pushes:
        rows = push[side == "right"]
        for results in [] if rows is None else lookup.found(one_batch(rows)):
            assert results.schema == result
            names = ["id"] if returns_left_rows(how) else ["left_id", "right_id"]
            found.update(zip(*(results[name].to_pylist() for name in names), strict=True))
    return found


def _expected(case: Case, side: StreamName, how: How) -> Rows:
    """Return what the oracle says: all rows meet, and a null in a timestamp is no reason not to."""
    pairs = oracle.pairs(parse_predicate(case.on), ALWAYS, case.schemas, case.pushes)
    ids = set(_whole(case, side)["id"].to_pylist())
    met = {pair[side == "right"] for pair in pairs}
    match how:
        case "inner":
            return pairs
        case "semi":
            return Counter((one,) for one in met)
        case "anti":
            return Counter((one,) for one in ids - met)
    return pairs + Counter((one, None) if side == "left" else (None, one) for one in ids - met)


# --- on Spark ---------------------------------------------------------------------------------------------------------


def _tables(seed: int, batches: int, first_id: int = 0) -> list[pa.Table]:
    random = np.random.default_rng(seed)
    return [
        pa.table(
            {
                "id": np.arange(ROWS) + number * ROWS + first_id,
                "ts": pa.array(random.integers(number * 10**6, (number + 1) * 10**6, ROWS), pa.timestamp("us", "UTC")),
                "k": pa.array(random.integers(0, 4_000, ROWS), mask=random.random(ROWS) < 0.05),
                "s": random.choice(["a", "b", "c"], ROWS),
            }
        )
        for number in range(batches)
    ]


NEAR = "left.s = right.s AND left.k BETWEEN right.k - 5 AND right.k + 3"


def _truth(left: DataFrame, right: DataFrame, how: str) -> Rows:
    both = left.alias("left").join(right.alias("right"), F.expr(NEAR), how)
    columns = ["left.id"] if how in ("semi", "anti") else ["left.id", "right.id"]
    return Counter(map(tuple, both.select(*columns).collect()))


def test_a_stream_looks_up_in_a_table_that_is_another_after_a_restart(
    spark: SparkSession, folder_of: Streams, tmp_path: Path
) -> None:
    """Left rows with partners from the table of their time; both sides may be the table; the count follows in time."""
    tables = [spark.createDataFrame(pa.concat_tables(_tables(seed, 1, 50_000)).to_pandas()) for seed in (32, 33)]
    expected: Rows = Counter()
    for part, table in zip((slice(0, 2), slice(2, 3)), tables, strict=True):
        folder = folder_of("stream", _tables(31, 3)[part])
        joined = wm.join(stream(spark, folder), table, NEAR, None, how="left")
        assert joined.columns == [f"{side}_{name}" for side in ("left", "right") for name in ("id", "ts", "k", "s")]
        run(joined.select("left_id", "right_id"), tmp_path / "left")
        new = spark.read.parquet(str(folder)).where(f"id >= {part.start * ROWS}")
        expected += _truth(new, table, "left_outer")
    assert _rows(spark, tmp_path / "left") == expected
    assert None in {right for _, right in expected}
    assert expected.total() > 3 * ROWS
    turned = "left.s = right.s AND right.k BETWEEN left.k - 5 AND left.k + 3"
    inner = wm.join(tables[0], stream(spark, folder), turned, None)
    run(inner.select("left_id", "right_id"), tmp_path / "right")
    both = _truth(spark.read.parquet(str(folder)), tables[0], "inner")
    assert _rows(spark, tmp_path / "right") == Counter({(table, row): count for (row, table), count in both.items()})


def test_the_streams_event_time_stays(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    """A windowed count after a look-up: Spark takes it only with a watermark, and gives what is over."""
    folder = folder_of("stream", _tables(31, 4))
    table = spark.read.parquet(str(folder_of("table", _tables(32, 1)))).drop("ts")
    met = wm.join(stream(spark, folder).withWatermark("ts", "0 seconds"), table, NEAR, None, how="semi")
    assert met.columns == ["id", "ts", "k", "s"]
    counted = met.groupBy(F.window("ts", "1 second")).count().selectExpr("window.start AS start", "count")
    run(counted, tmp_path)
    rows = spark.read.parquet(str(folder)).alias("left").join(table.alias("right"), F.expr(NEAR), "semi")
    whole = rows.groupBy(F.window("ts", "1 second")).count().selectExpr("window.start AS start", "count").collect()
    assert sorted(_rows(spark, tmp_path)) == sorted(map(tuple, whole))[:-1]


def _rows(spark: SparkSession, home: Path) -> Rows:
    return Counter(map(tuple, spark.read.parquet(f"{home}/pairs").collect()))


def test_a_table_beyond_the_limit_is_refused(spark: SparkSession, folder_of: Streams) -> None:
    folder = folder_of("stream", _tables(31, 1))
    table = spark.range(100_000).selectExpr("id AS k", "'a' AS s")
    spark.conf.set(TABLE_BYTES, "10000")
    try:
        with pytest.raises(
            wm.SpecificationError, match=r"the right side is a table of [\d,]+ bytes(?s:.*)10,000 bytes"
        ):
            wm.join(stream(spark, folder), table, NEAR, None)
        assert wm.join(stream(spark, folder), table.where("k < 100"), NEAR, None).isStreaming
    finally:
        spark.conf.unset(TABLE_BYTES)


def test_what_a_table_cannot_have_is_refused(spark: SparkSession, folder_of: Streams) -> None:
    folder = folder_of("stream", _tables(31, 1))
    rows, own = spark.read.parquet(str(folder)), stream(spark, folder)
    for words, call in (
        (
            r"how='full' where the right side is a table(?s:.*)'anti'",
            lambda: wm.join(own, rows, NEAR, None, how="full"),
        ),
        ("how='right' where the right", lambda: wm.join(own, rows, NEAR, None, how="right")),
        (
            r"how='anti' where the left side is a table(?s:.*)'inner', 'right'",
            lambda: wm.join(rows, own, NEAR, None, how="anti"),
        ),
        ("both sides are streaming", lambda: wm.join(own, own, NEAR, None)),
        (r"both sides are batch(?s:.*)Spark's own join", lambda: wm.join(rows, rows, NEAR, None)),
        (r"cores=3\n(?s:.*)leave cores out", lambda: wm.join(own, rows, NEAR, None, cores=3)),
        ("name='near'", lambda: wm.join(own, rows, NEAR, None, name="near")),
        ("late='error'", lambda: wm.join(own, rows, NEAR, None, late="error")),
        (r"give window=None", lambda: wm.join(own, rows, NEAR, wm.time_window("1 second", ts="ts"))),
    ):
        with pytest.raises(wm.SpecificationError, match=words):
            call()  # type: ignore[no-untyped-call]
