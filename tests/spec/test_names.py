"""Columns are found as Spark finds them: in any case, by predicates and windows, of two streams and of many."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.spec.names import resolve_name
from watersmeet.window.plan import plan_join

LEFT = pa.table({"Ts": pa.array([0, 9], pa.timestamp("s")), "Symbol": ["a", "b"], "Price": [1, 2]})
RIGHT = pa.table({"TS": pa.array([1, 9], pa.timestamp("s")), "SYMBOL": ["a", "a"], "bid": [1, 2]})
WINDOWS = [wm.time_window("5 seconds", ts="ts"), wm.count_window(9, order_by="ts")]
ONS = [
    wm.equal("symbol") & wm.band("PRICE", "BID", 5),
    "left.symbol = right.symbol AND left.price BETWEEN right.Bid - 5 AND right.Bid + 5",
]


@pytest.mark.parametrize("window", WINDOWS, ids=["time", "count"])
@pytest.mark.parametrize("on", ONS, ids=["functions", "text"])
def test_two_streams(on: Any, window: Any) -> None:
    join = wm.StreamJoin(left=LEFT.schema, right=RIGHT.schema, on=on, window=window)
    restored = wm.StreamJoin.restore(join.snapshot())
    for each in (join, restored):
        pairs = each.push(left=LEFT, right=RIGHT)
        assert pairs.column_names == ["Ts", "Symbol", "Price", "TS", "SYMBOL", "bid"]
        assert pairs["bid"].to_pylist() == ([1] if isinstance(window, type(WINDOWS[0])) else [1, 2])


@pytest.mark.parametrize("window", WINDOWS, ids=["time", "count"])
def test_many_streams(window: Any) -> None:
    on = "A.symbol = b.symbol AND b.BID BETWEEN c.price - 5 AND c.price + 5"
    join = wm.MultiStreamJoin(streams={"a": LEFT.schema, "b": RIGHT.schema, "c": LEFT.schema}, on=on, window=window)
    restored = wm.MultiStreamJoin.restore(join.snapshot())
    found = [each.push(a=LEFT, b=RIGHT, c=LEFT) for each in (join, restored)]
    assert found[0].num_rows == found[1].num_rows > 0


def test_an_exact_name_comes_first_and_two_that_are_alike_are_none() -> None:
    assert resolve_name("x", ["X", "x"]) == "x"
    assert resolve_name("x", ["X", "y"]) == "X"
    assert resolve_name("x", ["X", "y"], case_sensitive=True) == "x"
    schema = pa.schema([("Price", pa.int64()), ("price", pa.int64())])
    with pytest.raises(wm.SchemaError, match="there is no column 'PRICE'"):
        wm.StreamJoin(left=schema, right=schema, on=wm.equal("PRICE"), window=wm.count_window(3))


def test_a_session_that_tells_cases_apart() -> None:
    schema = pa.schema([("k", pa.int64())])
    assert plan_join(schema, schema, wm.equal("K"), wm.count_window(3), "auto").predicate == wm.equal("k")
    with pytest.raises(wm.SchemaError, match="there is no column 'K'"):
        plan_join(schema, schema, wm.equal("K"), wm.count_window(3), "auto", case_sensitive=True)


STRUCT = pa.schema([("payload", pa.struct([("id", pa.int64())])), ("a.b", pa.int64())])


@pytest.mark.parametrize("on", [wm.equal("payload.id"), "left.payload.id = right.payload.id"])
def test_a_field_of_a_struct_is_no_column(on: Any) -> None:
    with pytest.raises(wm.WatersmeetError, match="before the join"):
        wm.StreamJoin(left=STRUCT, right=STRUCT, on=on, window=wm.count_window(3))


@pytest.mark.parametrize("on", [wm.equal("a.b"), "left.`a.b` = right.`a.b`"])
def test_a_column_with_a_dot(on: Any) -> None:
    join = wm.StreamJoin(left=STRUCT, right=STRUCT, on=on, window=wm.count_window(3))
    rows = pa.table({"payload": [{"id": 1}], "a.b": [7]}, schema=STRUCT)
    assert join.push(left=rows, right=rows).num_rows == 1
