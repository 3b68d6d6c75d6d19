"""Results of a micro-batch in order: the cores' sorted tables put together, and what a real query delivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from streams import run_to_end, stream
from watersmeet.engine.result import result_schema
from watersmeet.spark.ordering import OrderName, ResultOrder, merger
from watersmeet.window.plan import plan_join

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

Streams = Callable[[str, list[pa.Table]], Path]
Pair = tuple[int, int]
Moments = tuple[int | None, int | None]
"""Of the rows of a result; None: there is no such row."""
ON = "left.k BETWEEN right.k - 20 AND right.k + 20"
WINDOW = wm.time_window("400 milliseconds", ts="ts")
COUNT = wm.count_window(left=150, right=90, order_by="v")
ROWS, BATCHES = 300, 3


# --- what the one task does -----------------------------------------------------------------------------------------


MOMENT = st.integers(0, 9)
SIDE = pa.schema([("ts", pa.timestamp("us", "UTC")), ("text", pa.string())])


@given(
    tables=st.lists(
        st.lists(
            st.one_of(st.tuples(MOMENT, MOMENT), st.tuples(MOMENT, st.none()), st.tuples(st.none(), MOMENT)),
            min_size=1,
            max_size=9,
        ),
        max_size=5,
    ),
    name=st.sampled_from(["outer", "inner"]),
    nbytes=st.sampled_from([1, 100, 1 << 20]),
    seed=st.integers(0, 99),
)
def test_sorted_tables_become_one(tables: list[list[Moments]], name: OrderName, nbytes: int, seed: int) -> None:
    """Of whichever cores, in whichever order, and however small the blobs are and what is put in order at a time.

    A row that met nobody stands where it is itself.
    """
    plan = plan_join(SIDE, SIDE, wm.equal("text"), WINDOW, "auto")
    order = ResultOrder.of(name, plan, result_schema(SIDE, SIDE))
    random = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("watersmeet.spark.ordering.BLOB_BYTES", nbytes)
        patch.setattr("watersmeet.spark.ordering.HELD_BYTES", nbytes)
        rows = [row for some in tables for row in order.rows(_results(some)).to_dict("records")]
        random.shuffle(rows)  # type: ignore[arg-type]
        batch = pa.table(
            {
                "place": pa.array([None, *(row["place"] for row in rows)], pa.int64()),
                "blob": pa.array([None, *(row["blob"] for row in rows)], pa.binary()),
            }
        )
        found = [tuple(row) for some in merger(order)(batch.to_batches()) for row in _pairs(some)]
    assert Counter(found) == Counter(pair for some in tables for pair in some)
    known = [sorted(moment for moment in pair if moment is not None) for pair in found]
    places = [(moments[-1], moments[0] if name == "inner" else 0) for moments in known]
    assert places == sorted(places)


def _results(pairs: list[Moments]) -> pa.Table:
    left, right = ([pair[at] for pair in pairs] for at in (0, 1))
    text = ["x" * (number or 0) for number in left]
    times = [pa.array(own, pa.int64()).cast(SIDE.field("ts").type) for own in (left, right)]
    return pa.table([times[0], text, times[1], text], schema=result_schema(SIDE, SIDE))


def _pairs(batch: pa.RecordBatch) -> list[Moments]:
    assert batch.schema == result_schema(SIDE, SIDE)
    left, right = (batch[name].cast(pa.int64()).to_pylist() for name in ("left_ts", "right_ts"))
    assert [len(text) for text in batch["left_text"].to_pylist()] == [moment or 0 for moment in left]
    return list(zip(left, right, strict=True))


# --- real queries -----------------------------------------------------------------------------------------------------


def _tables(seed: int) -> list[pa.Table]:
    """Return micro-batches of half a second each; rows of a batch in no order."""
    random = np.random.default_rng(seed)
    return [
        pa.table(
            {
                "id": np.arange(ROWS) + number * ROWS,
                "ts": pa.array(
                    random.integers(number * 500_000, (number + 1) * 500_000, ROWS), pa.timestamp("us", "UTC")
                ),
                "k": random.integers(0, 2_000, ROWS),
                "v": random.permutation(ROWS),
            }
        )
        for number in range(BATCHES)
    ]


def _delivered(pairs: DataFrame, home: Path) -> list[list[tuple[int, ...]]]:
    """Return what each micro-batch delivers, as it is delivered."""
    delivered: list[list[tuple[int, ...]]] = []

    def take(frame: DataFrame, _: int) -> None:
        names = ("left_id", "right_id", "unix_micros(left_ts)", "unix_micros(right_ts)")
        delivered.append(list(map(tuple, frame.selectExpr(*names).collect())))

    writer = pairs.writeStream.foreachBatch(take).option("checkpointLocation", str(home / "checkpoint"))
    run_to_end(writer.trigger(availableNow=True).start)
    return [rows for rows in delivered if rows]


def test_each_micro_batch_delivers_in_order(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    """From several cores; and the order may be another when the query starts again."""
    left, right = _tables(1), _tables(2)
    found: Counter[Pair] = Counter()
    orders: list[tuple[slice, OrderName]] = [(slice(0, 2), "inner"), (slice(2, 3), "outer")]
    for part, order in orders:
        folders = [folder_of("left", left[part]), folder_of("right", right[part])]
        pairs = wm.join(*(stream(spark, folder) for folder in folders), ON, WINDOW, cores=3, order=order)
        batches = _delivered(pairs, tmp_path)
        assert len(batches) == part.stop - part.start
        for rows in batches:
            places = [(max(row[2:]), min(row[2:]) if order == "inner" else 0) for row in rows]
            assert all(one <= other for one, other in pairwise(places))
            found.update((row[0], row[1]) for row in rows)
    whole = wm.join(*(spark.read.parquet(str(folder)) for folder in folders), ON, WINDOW, cores=2, order="inner")
    batch = whole.selectExpr("left_id", "right_id", "unix_micros(left_ts) a", "unix_micros(right_ts) b").collect()
    assert Counter((row.left_id, row.right_id) for row in batch) == found
    assert found.total() > 1_000
    assert all(max(one.a, one.b) <= max(other.a, other.b) for one, other in pairwise(batch))


def test_count_windows_deliver_as_the_join_in_process(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    left, right = _tables(1), _tables(2)
    join = wm.StreamJoin(left=left[0].schema, right=right[0].schema, on=ON, window=COUNT, order="inner")
    pushed = [join.push(left=one, right=other) for one, other in zip(left, right, strict=True)]
    expected = [
        list(zip(*(some[name].to_pylist() for name in ("left_id", "right_id")), strict=True)) for some in pushed
    ]
    folders = [folder_of("left", left), folder_of("right", right)]
    pairs = wm.join(*(stream(spark, folder) for folder in folders), ON, COUNT, cores=3, order="inner")
    assert [[row[:2] for row in rows] for rows in _delivered(pairs, tmp_path)] == expected
    assert sum(map(len, expected)) > 300


def test_an_order_that_results_cannot_have_is_refused(spark: SparkSession, folder_of: Streams) -> None:
    frames = [spark.read.parquet(str(folder_of(name, _tables(1)))) for name in ("left", "right")]
    with pytest.raises(wm.SpecificationError, match=r"order is relaxed(?s:.*)give order=\"outer\""):
        wm.join(*frames, ON, WINDOW, order=wm.relaxed(rows=5))  # type: ignore[arg-type]
    with pytest.raises(wm.SpecificationError, match="order='newest'") as refused:
        wm.join(*frames, ON, WINDOW, order="newest")  # type: ignore[arg-type]
    assert "relaxed" not in refused.value.allowed, "that is one in a process alone"
    with pytest.raises(wm.SpecificationError, match="with how='left' in a count window"):
        wm.join(*frames, ON, COUNT, how="left", order="outer")
