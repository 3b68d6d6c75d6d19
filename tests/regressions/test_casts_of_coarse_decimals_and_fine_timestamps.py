"""A decimal of negative scale was cast with a float factor, and a nanosecond timestamp kept its nanoseconds in a cast.

Spark's timestamps have microseconds, so a cast rounds finer ones down.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import watersmeet as wm

COARSE = pa.schema([("x", pa.decimal128(30, -2))])
FINE = pa.schema([("x", pa.timestamp("ns"))])


@pytest.mark.parametrize(
    ("on", "value"),
    [
        ("CAST(left.x AS BIGINT) = 1234567890123456700", Decimal(1234567890123456700)),
        ("CAST(left.x AS DECIMAL(38,0)) = 123456789012345678901200", Decimal(123456789012345678901200)),
        ("CAST(left.x AS DOUBLE) = 30000000000000000100D", Decimal(30000000000000000100)),
        ("CAST(left.x AS FLOAT) = CAST(16777217 * 100 AS FLOAT)", Decimal(1677721700)),
        ("left.x = 300 AND left.x / 3 = 100", Decimal(300)),
    ],
)
def test_decimal_of_negative_scale(on: str, value: Decimal) -> None:
    rows = pa.table({"x": pa.array([value], COARSE.field("x").type)})
    join = wm.StreamJoin(left=COARSE, right=COARSE, on=f"{on} AND left.x = right.x", window=wm.count_window(3))
    assert join.push(left=rows, right=rows).num_rows == 1


@pytest.mark.parametrize(("left", "right", "pairs"), [(1, 999, 1), (1, 1000, 0), (-1, -1000, 1), (-1, 0, 0)])
def test_nanosecond_timestamp(left: int, right: int, pairs: int) -> None:
    on = "CAST(left.x AS TIMESTAMP) = CAST(right.x AS TIMESTAMP)"
    join = wm.StreamJoin(left=FINE, right=FINE, on=on, window=wm.count_window(3))
    tables = [pa.table({"x": pa.array([n], pa.timestamp("ns"))}) for n in (left, right)]
    assert join.push(left=tables[0], right=tables[1]).num_rows == pairs
