"""A window longer than 64 bits in the units of its timestamps, or in rows, was made, and the first push failed."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

import watersmeet as wm


@pytest.mark.parametrize("length", [timedelta.max, timedelta(microseconds=2**63)])
def test_time(length: timedelta) -> None:
    for given in ({"left": length, "right": timedelta(1)}, {"length": timedelta(1), "lateness": length}):
        with pytest.raises(wm.SpecificationError, match="at most 2"):
            wm.time_window(ts="ts", **given)
    with pytest.raises(wm.SpecificationError, match="at most 2"):
        wm.time_window({"a": length, "lateness": "1 day"}, ts="ts")


def test_rows() -> None:
    with pytest.raises(wm.SpecificationError, match="from 1 to 2"):
        wm.count_window(2**63)


def test_nanoseconds() -> None:
    window = wm.time_window("200000 days", ts="ts")
    schemas = [pa.schema([("ts", pa.timestamp(unit)), ("x", pa.int64())]) for unit in ("us", "ns")]
    join = wm.StreamJoin(left=schemas[0], right=schemas[0], on=wm.equal("x"), window=window)
    rows = pa.table({"ts": [2**62], "x": [1]}, schema=schemas[0])
    assert join.push(left=rows, right=rows).num_rows == 1
    with pytest.raises(wm.SpecificationError, match="nanoseconds"):
        wm.StreamJoin(left=schemas[0], right=schemas[1], on=wm.equal("x"), window=window)


def test_longest_windows_work() -> None:
    schema = pa.schema([("ts", pa.timestamp("us")), ("x", pa.int64())])
    ends = pa.table({"ts": [-(2**63), 2**63 - 1], "x": [1, 1]}, schema=schema)
    longest = timedelta(microseconds=2**63 - 1)
    for window, pairs in ((wm.time_window(longest, ts="ts", lateness=longest), 2), (wm.count_window(2**62), 4)):
        join = wm.StreamJoin(left=schema, right=schema, on=wm.equal("x"), window=window)
        assert wm.StreamJoin.restore(join.snapshot()).push(left=ends, right=ends).num_rows == pairs
