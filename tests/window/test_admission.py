"""Rows without a value on some axis match nothing; a null may lie in a column or, in a dictionary column, behind it."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm

WITHOUT_ROW_1 = {
    "a null": pa.array(["a", None, "c"]),
    "a null index": pa.array(["a", None, "c"]).dictionary_encode(),
    "an index of a null": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array(["a", None, "c"])),
}


@pytest.mark.parametrize("key", WITHOUT_ROW_1.values(), ids=list(WITHOUT_ROW_1))
def test_a_row_whose_key_is_null_matches_nothing(key: pa.Array) -> None:
    rows = pa.table({"key": key, "ts": pa.array([0, 1, 2], pa.timestamp("us"))})
    join = wm.StreamJoin(
        left=rows.schema, right=rows.schema, on=wm.equal("key"), window=wm.time_window("1 second", ts="ts")
    )
    pairs = join.push(left=rows, right=rows)
    assert pairs["left_key"].to_pylist() == pairs["right_key"].to_pylist()
    assert sorted(pairs["left_key"].to_pylist()) == ["a", "c"]
    assert (join.metrics.left_null, join.metrics.right_null) == (1, 1)
