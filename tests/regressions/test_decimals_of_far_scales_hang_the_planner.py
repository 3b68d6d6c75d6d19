"""A decimal key with a scale of millions kept the planner busy with powers of ten: for minutes, or for ever."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.spec.errors import ColumnTypeError

WINDOW = wm.count_window(10)


@pytest.mark.parametrize("scale", [77, -77, 10**7, 2**30, -(2**31)])
@pytest.mark.parametrize("on", ["left.d = right.d", "left.d BETWEEN right.d - 1 AND right.d + 1", "left.d + 1 < 5"])
def test_they_are_refused_at_once(scale: int, on: str) -> None:
    for kind in (pa.decimal128(10, scale), pa.decimal256(10, scale)):
        rows = pa.schema([("d", kind)])
        with pytest.raises(ColumnTypeError, match=r"left\.d has type .*decimal(128|256)\(10, ") as refused:
            wm.StreamJoin(left=rows, right=rows, on=on, window=WINDOW)
        assert "from -76 to 76" in refused.value.allowed
        with pytest.raises(ColumnTypeError):
            wm.MultiStreamJoin(streams={"left": rows, "right": rows}, on="left.d = right.d", window=WINDOW)


@pytest.mark.parametrize("scale", [76, 38, -2, -70])
def test_others_are_joined(scale: int) -> None:
    rows = pa.table({"d": pa.array([None, Decimal((0, (1,), -scale))], pa.decimal256(76, scale))})
    join = wm.StreamJoin(left=rows.schema, right=rows.schema, on="left.d = right.d", window=WINDOW)
    assert join.push(left=rows, right=rows).num_rows == 1
