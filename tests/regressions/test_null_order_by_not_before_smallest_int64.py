"""A null ``order_by`` stood for the smallest int64, so it tied with that value instead of coming before it."""

from __future__ import annotations

import pyarrow as pa

import watersmeet as wm


def test_null_arrives_before_the_smallest_number() -> None:
    schema = pa.schema([("k", pa.int64()), ("o", pa.int64())])
    join = wm.StreamJoin(left=schema, right=schema, on=wm.less("k"), window=wm.count_window(1, order_by="o"))
    join.push(right=pa.table({"k": [5], "o": [0]}, schema=schema))
    # The right row with a null comes first and pushes 5 out of the window of one, before the left row arrives.
    pairs = join.push(
        left=pa.table({"k": [1], "o": [-(2**63)]}, schema=schema),
        right=pa.table({"k": [0], "o": [None]}, schema=schema),
    )
    assert pairs.num_rows == 0
