"""BI-Sort: how many runs a probe searches."""

from __future__ import annotations

import numpy as np
import pytest

from drawn_keys import INT64
from structures import insert_all
from watersmeet.subwindow.bi_sort import BiSort
from watersmeet.subwindow.contract import Probes, count_matches


@pytest.mark.parametrize("batches", [1, 7, 64, 100])
def test_bi_sort_keeps_few_runs(batches: int) -> None:
    """A probe searches every run: of batches of one size there are as many as a logarithm says."""
    index = BiSort(1 << 12)
    insert_all(index, [np.arange(16) + 16 * number for number in range(batches)])
    wanted = Probes(np.array([INT64.min]), np.array([INT64.max]), np.zeros(1, np.int32))
    runs = list(index.probe(wanted))
    assert count_matches(runs) == 16 * batches
    assert len(runs) <= np.log2(batches) / 2 + 1
