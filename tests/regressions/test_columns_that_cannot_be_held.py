"""Columns that no row can be made of, and names of hidden columns, failed in the first push, or not in our words."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm

UNION = pa.dense_union([pa.field("a", pa.int64())])


@pytest.mark.parametrize("column", [pa.field("p", UNION), pa.field("\0left", pa.int64())])
@pytest.mark.parametrize("order", [None, "outer"])
def test_column_is_refused_when_the_join_is_built(column: pa.Field, order: Any) -> None:
    schema = pa.schema([pa.field("k", pa.int64()), column])
    with pytest.raises(wm.WatersmeetError, match="next step"):
        wm.StreamJoin(left=schema, right=schema, on=wm.equal("k"), window=wm.count_window(9), order=order)
    with pytest.raises(wm.WatersmeetError, match="next step"):
        wm.MultiStreamJoin(streams={"a": schema, "b": schema}, on="a.k = b.k", window=wm.count_window(9))
