"""``StreamJoin`` as a user sees it: results, options, metrics, refusals, explanations."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from strategies import STRUCTURES

WINDOW = wm.time_window("10 seconds", ts="ts")
LEFT = pa.table({"id": [1, 2], "ts": pa.array([1, 2], pa.timestamp("s")), "price": [10, 20]})
RIGHT = pa.table({"id": [7, 8], "ts": pa.array([1, 30], pa.timestamp("s")), "bid": [11, 20]})


def tick_join(**options: Any) -> wm.StreamJoin:
    given: dict[str, Any] = {
        "left": LEFT.schema,
        "right": RIGHT.schema,
        "on": wm.band("price", "bid", 5),
        "window": WINDOW,
        **options,
    }
    return wm.StreamJoin(**given)


def test_result_has_left_columns_then_right_with_prefixes_for_shared_names() -> None:
    join = tick_join()
    assert join.schema.names == ["left_id", "left_ts", "price", "right_id", "right_ts", "bid"]
    pairs = join.push(left=LEFT, right=RIGHT)
    assert pairs.schema == join.schema
    assert pairs.select(["left_id", "price", "right_id", "bid"]).to_pylist() == [
        {"left_id": 1, "price": 10, "right_id": 7, "bid": 11}
    ]


def test_prefixes_that_collide_are_refused() -> None:
    schema = LEFT.schema.append(pa.field("left_id", pa.int64()))
    with pytest.raises(wm.SpecificationError, match="left_id"):
        tick_join(left=schema)


def test_record_batches_and_chunked_tables_are_taken() -> None:
    join = tick_join()
    chunked = pa.concat_tables([LEFT.slice(0, 1), LEFT.slice(1, 1)])
    assert join.push(left=chunked, right=RIGHT.combine_chunks().to_batches()[0]).num_rows == 1


def test_nothing_pushed_gives_nothing() -> None:
    join = tick_join()
    assert join.push().num_rows == 0
    assert join.push(left=LEFT.slice(0, 0)).schema == join.schema
    assert join.finish().schema == join.schema


@pytest.mark.parametrize("structure", STRUCTURES)
def test_columns_of_any_type_travel(structure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.window.chunks.FAN_IN", 2)
    nested = {
        "list": pa.array([[1, None], [], None, [2]], pa.list_(pa.int32())),
        "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, {"a": 2, "b": None}]),
        "map": pa.array([[("k", 1)], [], None, [("m", 2)]], pa.map_(pa.string(), pa.int64())),
        "dictionary": pa.array(["red", "blue", None, "red"]).dictionary_encode(),
        "bytes": pa.array([b"\0", b"", None, b"\xff"], pa.large_binary()),
        "fixed": pa.array([b"ab", b"cd", None, b"ef"], pa.binary(2)),
        "duration": pa.array([1, 2, None, 3], pa.duration("ms")),
        "time": pa.array([1, 2, None, 3], pa.time64("us")),
        "nothing": pa.nulls(4),
    }
    left = pa.table({"k": [0, 1, 2, 3], "ts": pa.array([0, 1, 2, 3], pa.timestamp("s")), **nested})
    right = pa.table({"r": [3, 2, 1, 0], "ts": pa.array([0, 1, 2, 3], pa.timestamp("s"))})
    join = wm.StreamJoin(
        left=left.schema, right=right.schema, on=wm.equal("k", "r"), window=WINDOW, structure=structure
    )
    for row in range(4):
        assert join.push(left=left.slice(row, 1)).num_rows == 0
    join = wm.StreamJoin.restore(join.snapshot())
    pairs = join.push(right=right).sort_by("k")
    pairs.validate(full=True)
    assert pairs.select(list(nested)).to_pylist() == left.select(list(nested)).to_pylist()
    assert pairs["r"].to_pylist() == [0, 1, 2, 3]
    assert [pairs.schema.field(name).type for name in nested] == [left.schema.field(name).type for name in nested]


def test_a_layout_that_arrow_cannot_gather_is_refused_at_once() -> None:
    schema = LEFT.schema.append(pa.field("view", pa.string_view()))
    with pytest.raises(wm.ColumnTypeError, match="string_view") as caught:
        tick_join(left=schema)
    assert_helpful(caught.value)


def test_dictionaries_may_change_from_push_to_push() -> None:
    schema = pa.schema([("ts", pa.timestamp("s")), ("k", pa.dictionary(pa.int32(), pa.string()))])

    def table(values: list[str | None]) -> pa.Table:
        return pa.table({"ts": [1] * len(values), "k": pa.array(values).dictionary_encode()}, schema=schema)

    join = wm.StreamJoin(left=schema, right=schema, on=wm.equal("k"), window=WINDOW)
    join.push(left=table(["a", "b"]))
    join.push(left=table(["c", "a", None]))
    assert sorted(join.push(right=table(["c", "a"]))["left_k"].to_pylist()) == ["a", "a", "c"]


def test_metrics_count_rows_pairs_late_and_null() -> None:
    join = tick_join()
    assert all(getattr(join.metrics, field.name) in (0, None) for field in fields(wm.JoinMetrics))
    join.push(left=LEFT, right=RIGHT)
    late_and_null = pa.table({"id": [3, 4, 5], "ts": [1, None, 40], "price": [10, 10, None]}, schema=LEFT.schema)
    join.push(left=late_and_null)
    metrics = join.metrics
    assert (metrics.left_rows, metrics.right_rows, metrics.pairs) == (5, 2, 1)
    assert (metrics.left_late, metrics.right_late) == (1, 0)
    assert (metrics.left_null, metrics.right_null) == (2, 0)
    assert metrics.watermark == 30_000_000
    assert metrics.left_window_rows + metrics.right_window_rows > 0
    assert metrics.window_bytes > 0


def test_late_error_changes_nothing() -> None:
    join = tick_join(late="error")
    join.push(left=LEFT, right=RIGHT)
    before = join.metrics
    with pytest.raises(wm.LateRowError) as caught:
        join.push(left=LEFT.slice(0, 1), right=RIGHT.slice(1, 1))
    assert "1 row(s) of the left stream" in str(caught.value)
    assert_helpful(caught.value)
    assert join.metrics == before


@pytest.mark.parametrize(
    "table",
    [
        LEFT.drop_columns(["price"]),
        LEFT.set_column(2, "price", LEFT["price"].cast(pa.int32())),
        LEFT.select(["ts", "id", "price"]),
        LEFT.rename_columns(["id", "ts", "cost"]),
        LEFT.to_pydict(),
        LEFT["id"],
    ],
    ids=["fewer", "type", "order", "name", "dict", "column"],
)
def test_another_schema_is_refused_and_changes_nothing(table: Any) -> None:
    join = tick_join()
    join.push(left=LEFT, right=RIGHT)
    before = (join.metrics, join.snapshot())
    with pytest.raises(wm.SchemaError) as caught:
        join.push(left=table, right=RIGHT)
    assert_helpful(caught.value)
    assert (join.metrics, join.snapshot()) == before
    assert join.push(right=RIGHT.slice(1, 1)).num_rows == 0


def test_metadata_of_a_schema_does_not_matter() -> None:
    assert tick_join().push(left=LEFT.replace_schema_metadata({"a": "b"}), right=RIGHT).num_rows == 1


def test_push_after_finish_is_refused() -> None:
    join = tick_join()
    join.push(left=LEFT)
    assert join.finish().num_rows == 0
    with pytest.raises(wm.SpecificationError, match=r"after finish\(\)") as caught:
        join.push(right=RIGHT)
    assert_helpful(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"how": "sideways"},
        {"topology": "round"},
        {"late": "maybe"},
        {"structure": "heap"},
        {"cores": 0},
        {"cores": True},
        {"cores": 1.5},
        {"block_rows": 0},
        {"batch_rows": 0},
        {"batch_seconds": 0},
        {"order": "upside down"},
        {"left": LEFT},
        {"right": None},
        {"on": 5},
        {"on": "price = bid"},
        {"window": "10 seconds"},
        {"window": None},
    ],
    ids=str,
)
def test_unknown_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(wm.SpecificationError) as caught:
        tick_join(**options)
    assert_helpful(caught.value)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"on": wm.equal("nothing")}, wm.SchemaError),
        ({"window": wm.time_window("1 second", ts="when")}, wm.SchemaError),
        ({"window": wm.count_window(5, order_by="price")}, wm.SchemaError),
        ({"window": wm.time_window("1 second", left_ts="price", right_ts="ts")}, wm.ColumnTypeError),
        ({"on": wm.equal("ts", "bid")}, wm.ColumnTypeError),
    ],
)
def test_columns_are_checked_when_the_join_is_built(options: dict[str, Any], error: type[wm.WatersmeetError]) -> None:
    with pytest.raises(error) as caught:
        tick_join(**options)
    assert_helpful(caught.value)


def test_order_by_text_is_refused() -> None:
    schema = pa.schema([("k", pa.int64()), ("name", pa.string())])
    with pytest.raises(wm.ColumnTypeError, match="order_by='name'"):
        wm.StreamJoin(left=schema, right=schema, on=wm.equal("k"), window=wm.count_window(5, order_by="name"))


def test_a_predicate_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="&"):
        bool(wm.equal("a"))


def test_explain_says_what_is_indexed_verified_and_chosen() -> None:
    on = (
        "left.price BETWEEN right.bid - 5 AND right.bid + 5 AND left.id = right.id"
        " AND left.price * right.bid > 0 AND left.price > 1"
    )
    join = tick_join(on=on)
    text = join.explain()
    assert "band: left.price - right.bid in [-5, 5] (exact)" in text
    assert "equality: left.id = right.id (exact)" in text
    assert "time window: left.ts - right.ts in [-10, 10] (exact)" in text
    indexed, verified = text.split("verified on every candidate:")
    assert "(left.price * right.bid) > 0" in verified
    assert "(left.price * right.bid) > 0" not in indexed.split("can be indexed:")[1]
    assert "filtered on arrival, left: left.price > 1" in text
    assert "chosen when the first rows arrive" in text
    join.push(left=LEFT, right=RIGHT)
    text = join.explain()
    assert "chosen when the first rows arrive" not in text
    assert "left window: 2 rows" in text
    assert "lets through a fraction of" in text


@pytest.mark.parametrize("structure", STRUCTURES)
def test_explain_names_the_structure(structure: str) -> None:
    join = tick_join(structure=structure)
    join.push(left=LEFT, right=RIGHT)
    text = join.explain()
    assert f"structure {structure}" in text
    if structure == "auto":
        assert "because" in text
    else:
        assert f"newest subwindow: {structure};" in text
        assert f"structure {structure} was asked for" in text


def test_explain_says_when_nothing_can_be_indexed() -> None:
    join = tick_join(on="left.price * right.bid > 0", window=wm.count_window(10))
    assert "can be indexed:\n  nothing" in join.explain()
    join.push(left=LEFT, right=RIGHT)
    assert "every row in the window is a candidate" in join.explain()


@pytest.mark.parametrize("structure", STRUCTURES)
def test_differential_result_does_not_depend_on_pushes_or_their_order(structure: str) -> None:
    random = np.random.default_rng(5)
    window = wm.time_window("10 seconds", ts="ts", lateness="1 hour")
    count = 300
    moments = pa.array(random.integers(0, 60, count), pa.timestamp("s"))
    left = pa.table({"id": np.arange(count), "ts": moments, "price": random.integers(0, 50, count)})
    right = pa.table({"id": np.arange(count), "ts": moments, "bid": random.integers(0, 50, count)})

    def found(join: wm.StreamJoin, pushes: list[tuple[pa.Table | None, pa.Table | None]]) -> Counter[tuple[int, int]]:
        pairs = pa.concat_tables([join.push(left=a, right=b) for a, b in pushes])
        return Counter(zip(pairs["left_id"].to_pylist(), pairs["right_id"].to_pylist(), strict=True))

    at_once = found(tick_join(structure=structure, window=window), [(left, right)])
    shuffled = [table.take(pa.array(random.permutation(count))) for table in (left, right)]
    pieces = [(shuffled[0].slice(i, 30), None) for i in range(0, count, 30)] + [
        (None, shuffled[1].slice(i, 50)) for i in range(0, count, 50)
    ]
    order = random.permutation(len(pieces)).tolist()
    assert found(tick_join(structure=structure, window=window), [pieces[i] for i in order]) == at_once
    assert at_once.total() > 1_000
    assert max(at_once.values()) == 1


def assert_helpful(error: BaseException) -> None:
    assert "allowed:" in str(error)
    assert "next step:" in str(error)
