"""Timestamps beyond the finer unit's 64 bits (to 2262 for nanoseconds) were all one moment: 2262 met the year 9999."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm

NANO = pa.schema([("ts", pa.timestamp("ns")), ("k", pa.int64())])
MICRO = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64())])
LAST = 2**63 - 1  # nanoseconds, in the year 2262
BEYOND = LAST // 1000 + 1
YEAR_9999 = 253_402_300_799_000_000
SECOND = 1_000_000


def rows(schema: pa.Schema, *times: int) -> pa.Table:
    stamps = pa.array(times, pa.int64()).cast(schema.field("ts").type)
    return pa.table([stamps, [1] * len(times)], schema=schema)


def expected(left: list[int], right: list[int], reach: int = SECOND) -> int:
    return sum(abs(a - 1000 * b) <= 1000 * reach for a in left for b in right)


LEFT = [LAST, LAST - 10**8, LAST - 10**9, -(2**63), 0]
RIGHT = [YEAR_9999, BEYOND, BEYOND + SECOND // 2, BEYOND + 2 * SECOND, LAST // 1000, -YEAR_9999, -BEYOND - 1, 0]


@pytest.mark.parametrize(
    "options",
    [
        {"structure": structure, **more}
        for structure in ("auto", "bi_sort", "scan")
        for more in ({}, {"topology": "handshake", "cores": 2}, {"result": "count"}, {"result": "ranges"})
    ],
    ids=str,
)
@pytest.mark.parametrize("on", ["left.k = right.k", "left.k <= right.k"])
@pytest.mark.parametrize("swapped", [False, True])
def test_two_streams(options: dict[str, Any], on: str, *, swapped: bool) -> None:
    schemas = (MICRO, NANO) if swapped else (NANO, MICRO)
    join = wm.StreamJoin(
        left=schemas[0],
        right=schemas[1],
        on=on,
        window=wm.time_window("1 second", ts="ts"),
        **options,
    )
    given = (rows(MICRO, *RIGHT), rows(NANO, *LEFT)) if swapped else (rows(NANO, *LEFT), rows(MICRO, *RIGHT))
    found = [join.push(left=given[0]), join.push(right=given[1]), join.finish()]
    if options.get("result"):
        count = sum(sum(table["pairs"].to_pylist()) for table in found)
    else:
        count = sum(table.num_rows for table in found)
    assert count == expected(LEFT, RIGHT) > 4


def test_more_than_the_ends() -> None:
    """The stored rows' own index is not by time, and their segment seems to lie inside the window as a whole."""
    join = wm.StreamJoin(left=NANO, right=MICRO, on="left.k = right.k", window=wm.time_window("1 second", ts="ts"))
    assert join.push(left=rows(NANO, LAST), right=rows(MICRO, YEAR_9999)).num_rows == 0


@pytest.mark.parametrize("strategy", ["circular", "stashed"])
def test_many_streams(strategy: Any) -> None:
    join = wm.MultiStreamJoin(
        streams={"a": NANO, "b": MICRO, "c": MICRO},
        on="a.k = b.k AND b.k = c.k",
        window=wm.time_window("1 second", ts="ts"),
        strategy=strategy,
    )
    year_2500 = 16_725_225_600_000_000
    assert join.push(a=rows(NANO, LAST), b=rows(MICRO, year_2500), c=rows(MICRO, YEAR_9999)).num_rows == 0
    found = join.push(b=rows(MICRO, BEYOND, BEYOND + SECOND), c=rows(MICRO, BEYOND + SECOND // 2, BEYOND + 2 * SECOND))
    assert found.num_rows == 1  # of (b, c) all but the first with the last meet; a meets the first b only, and one c


def test_order_of_arrival() -> None:
    right = rows(MICRO, YEAR_9999, YEAR_9999 - 2 * SECOND, BEYOND + SECOND)
    left = rows(NANO, LAST, 0)
    join = wm.StreamJoin(
        left=NANO, right=MICRO, on="left.k = right.k", window=wm.count_window(left=2, right=1, order_by="ts")
    )
    join.push(left=left, right=right)
    later = join.push(left=rows(NANO, 5))
    assert later["right_ts"].cast(pa.int64()).to_pylist() == [YEAR_9999]
