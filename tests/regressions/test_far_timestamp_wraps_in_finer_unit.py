"""A microsecond timestamp after 2262 wrapped around when the other stream had nanoseconds, and met rows long past."""

from __future__ import annotations

import pyarrow as pa

import watersmeet as wm


def test_far_future_meets_nothing_near() -> None:
    far = 253_402_300_799_000_000  # 9999-12-31 23:59:59
    wrapped = (far * 1000 + 2**63) % 2**64 - 2**63
    left = pa.table({"k": [1], "ts": pa.array([far], pa.timestamp("us"))})
    right = pa.table({"k": [1], "ts": pa.array([wrapped], pa.timestamp("ns"))})
    join = wm.StreamJoin(
        left=left.schema, right=right.schema, on=wm.equal("k"), window=wm.time_window("1 second", ts="ts")
    )
    assert join.push(left=left, right=right).num_rows == 0
