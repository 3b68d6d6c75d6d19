"""``<=>`` was refused, and ``x = x OR both null``, which says the same, made every stored row a candidate."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm

ROWS = pa.table({"k": pa.array([1, None, 3, None], pa.int64()), "id": range(4)})


@pytest.mark.parametrize(
    "on",
    [
        "left.k <=> right.k",
        "left.k = right.k OR (left.k IS NULL AND right.k IS NULL)",
        "NOT (left.k IS DISTINCT FROM right.k)",
    ],
)
def test_nulls_meet_nulls(on: str) -> None:
    join = wm.StreamJoin(left=ROWS.schema, right=ROWS.schema, on=on, window=wm.count_window(10))
    join.push(right=ROWS)
    join = wm.StreamJoin.restore(join.snapshot())
    pairs = join.push(left=ROWS)
    found = set(zip(pairs["left_id"].to_pylist(), pairs["right_id"].to_pylist(), strict=True))
    assert found == {(0, 0), (2, 2), (1, 1), (1, 3), (3, 1), (3, 3)}
    assert join.metrics.left_null == 0


@pytest.mark.parametrize("on", ["left.k <=> right.k", "left.k = right.k OR (left.k IS NULL AND right.k IS NULL)"])
def test_it_is_indexed(on: str) -> None:
    join = wm.StreamJoin(left=ROWS.schema, right=ROWS.schema, on=on, window=wm.count_window(10))
    assert "equality: left.k <=> right.k" in join.explain()
