"""``order_by`` refused timestamps of two different units, although its own message allowed timestamps."""

from __future__ import annotations

import pyarrow as pa

import watersmeet as wm


def test_order_by_milliseconds_and_nanoseconds() -> None:
    left = pa.table({"k": [1, 1], "t": pa.array([1, 3], pa.timestamp("ms"))})
    right = pa.table({"k": [1], "t": pa.array([2_000_000], pa.timestamp("ns"))})
    join = wm.StreamJoin(
        left=left.schema, right=right.schema, on=wm.equal("k"), window=wm.count_window(left=1, right=1, order_by="t")
    )
    assert join.push(left=left, right=right).num_rows == 2
