"""Unsigned keys above 2^63 were compared as floats: 2,048 neighbours were one key, and nearly every row a candidate."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.subwindow.bi_sort import BiSort
from watersmeet.subwindow.contract import Matches, Probes, count_matches
from watersmeet.window import stream_window

FIRST = 2**63 + 2**20


@pytest.mark.parametrize(
    ("kind", "first"), [(pa.uint64(), FIRST), (pa.decimal128(38, 0), 10**30), (pa.decimal256(50, 2), 10**30)]
)
def test_only_equal_keys_are_candidates(kind: pa.DataType, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    candidates: list[int] = []
    keys = pa.array(range(first, first + 500), pa.decimal128(38, 0)).cast(kind)
    rows = pa.table({"k": keys, "id": range(500)})
    join = wm.StreamJoin(left=rows.schema, right=rows.schema, on="left.k = right.k", window=wm.count_window(1000))
    probe = BiSort.probe

    def counted(index: BiSort, probes: Probes) -> list[Matches]:
        found = list(probe(index, probes))
        candidates.append(count_matches(found))
        return found

    monkeypatch.setattr(BiSort, "probe", counted)
    monkeypatch.setattr(stream_window, "can_meet_together", lambda _: False)  # one index after the other
    join.push(right=rows)
    pairs = join.push(left=rows)
    assert pairs["left_id"].to_pylist() == pairs["right_id"].to_pylist()
    assert pairs.num_rows == sum(candidates) == 500
