"""Texts with the same first eight bytes had one key, so a comparison of them took every stored row for a candidate."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.subwindow.bi_sort import BiSort
from watersmeet.subwindow.contract import Matches, Probes, count_matches


def test_a_comparison_finds_few_candidates_beyond_its_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates: list[int] = []
    probe = BiSort.probe

    def counted(index: BiSort, probes: Probes) -> list[Matches]:
        found = list(probe(index, probes))
        candidates.append(count_matches(found))
        return found

    monkeypatch.setattr(BiSort, "probe", counted)
    numbers = np.random.default_rng(61).permutation(1000)
    rows = pa.table({"s": [f"customer-{number:08d}" for number in numbers], "id": range(1000)})
    join = wm.StreamJoin(left=rows.schema, right=rows.schema, on="left.s <= right.s", window=wm.count_window(2000))
    join.push(right=rows)
    assert join.push(left=rows.slice(0, 500)).num_rows == sum(1000 - number for number in numbers[:500].tolist())
    assert sum(candidates) < 1.05 * sum(1000 - number for number in numbers[:500].tolist())
