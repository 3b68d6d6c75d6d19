"""A largest timestamp of 0 (the epoch) counted as "none yet", so an earlier row moved the watermark's edge back."""

from __future__ import annotations

import pyarrow as pa

import watersmeet as wm

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))])


def row(moment: int) -> pa.Table:
    return pa.table({"k": [1], "ts": [moment]}, schema=SCHEMA)


def test_watermark_is_the_largest_time_even_at_the_epoch() -> None:
    join = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on=wm.equal("k"), window=wm.time_window("1 second", ts="ts"))
    join.push(left=row(0))
    join.push(left=row(-5))
    join.push(right=row(7))
    assert join.metrics.watermark == 0
