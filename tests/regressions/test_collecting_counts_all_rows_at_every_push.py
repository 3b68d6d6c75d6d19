"""With ``batch_rows`` every push counted the rows of all pushes that waited, so many small ones took quadratic time."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.window.batch import KeyedBatch

SCHEMA = pa.schema([("k", pa.int64())])


def test_a_push_looks_at_its_own_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    length = KeyedBatch.__len__

    def counted(batch: KeyedBatch) -> int:
        nonlocal looks
        looks += 1
        return length(batch)

    monkeypatch.setattr(KeyedBatch, "__len__", counted)
    window = wm.count_window(10_000)
    join = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on="left.k = right.k", window=window, batch_rows=100)
    row = pa.table({"k": [7]}, SCHEMA)
    looks_after = []
    for _ in range(2):
        for _ in range(40):
            assert join.push(left=row).num_rows == 0
        looks_after.append(looks)
    assert looks_after[1] <= 2 * looks_after[0]
    for _ in range(19):
        assert join.push(left=row).num_rows == 0
    assert join.push(right=row).num_rows == 99
    for _ in range(98):
        assert join.push(left=row).num_rows == 0
    assert join.push(right=row).num_rows == 0, "99 rows wait: those that were taken do not count"
    assert join.push(right=row).num_rows == 98 + 2 * (99 + 98)
