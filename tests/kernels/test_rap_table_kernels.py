"""Kernels of the RaP-Table, against NumPy's binary search, lists of rows, and fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drawn_keys import INT64, key_arrays
from watersmeet.arrays import Int64s
from watersmeet.kernels.llat import new_table, pack_chains
from watersmeet.kernels.rap_table import adjust_splitters, find_partitions, insert_rows


@given(splitters=key_arrays(40).map(np.sort), bound=key_arrays(40).map(np.sort))
@example(splitters=np.empty(0, np.int64), bound=np.array([INT64.min, INT64.max]))
@example(splitters=np.array([INT64.min, INT64.max]), bound=np.array([INT64.min, INT64.max]))
def test_oracle_partitions(splitters: Int64s, bound: Int64s) -> None:
    assert find_partitions(splitters, bound).tolist() == np.searchsorted(splitters, bound, "left").tolist()


@pytest.mark.parametrize("splitters", [0, 1, 2, 3, 4, 7, 8, 9, 31, 1000])
def test_oracle_every_way_from_one_partition_to_another(splitters: int) -> None:
    """The search goes on from where the bound before was found."""
    cuts = np.arange(splitters, dtype=np.int64) * 2
    for ahead in range(2 * splitters + 1)[:: max(1, splitters // 40)]:
        bound = np.array([-1, ahead, 2 * splitters])
        assert find_partitions(cuts, bound).tolist() == np.searchsorted(cuts, bound, "left").tolist()


@given(batches=st.lists(key_arrays(30).map(np.sort), max_size=4), width=st.integers(1, 9))
@example(batches=[np.arange(-150, 150, 2)], width=4)
def test_oracle_rows_and_histograms(batches: list[Int64s], width: int) -> None:
    splitters = np.array([-100, -1, 0, 0, 50])
    partitions = len(splitters) + 1
    rows = sum(map(len, batches))
    table = new_table(partitions + rows, width)
    count, minimum, maximum = (
        np.zeros(partitions, np.int64),
        np.full(partitions, INT64.max),
        np.full(partitions, INT64.min),
    )
    used, number = partitions, 0
    expected: list[list[tuple[int, int]]] = [[] for _ in range(partitions)]
    for key in batches:
        row = np.arange(number, number + len(key), dtype=np.int32)
        partition = find_partitions(splitters, key)
        used = insert_rows(table, width, used, count, minimum, maximum, key, row, partition)
        number += len(key)
        for place, pair in zip(partition, zip(key.tolist(), row.tolist(), strict=True), strict=True):
            expected[place].append(pair)
    packed_key, packed_row, *_ = pack_chains(table, np.arange(partitions, dtype=np.int32))
    assert list(zip(packed_key.tolist(), packed_row.tolist(), strict=True)) == [
        pair for some in expected for pair in some
    ]
    assert count.tolist() == [len(some) for some in expected]
    assert minimum.tolist() == [min((key for key, _ in some), default=INT64.max) for some in expected]
    assert maximum.tolist() == [max((key for key, _ in some), default=INT64.min) for some in expected]
    assert used == partitions + sum(max(0, -(-len(some) // width) - 1) for some in expected), "linked when needed"


def test_splitters_are_adjusted_as_in_figure_3() -> None:
    # N = 16, P = 4, so bal = 4, 8, 12; sum = 2, 5, 10, 16.
    #   bal_1 = 4  in (2, 5]:   partition 2, (4 - 2) / 3 of the way from 100 to 190
    #   bal_2 = 8  in (5, 10]:  partition 3, (8 - 5) / 5 of the way from 200 to 300
    #   bal_3 = 12 in (10, 16]: partition 4, (12 - 10) / 6 of the way from 310 to 400
    count, minimum, maximum = np.array([2, 3, 5, 6]), np.array([0, 100, 200, 310]), np.array([90, 190, 300, 400])
    assert adjust_splitters(count, minimum, maximum, 4).tolist() == [160, 260, 340]


def test_splitters_are_adjusted_over_all_of_int64() -> None:
    one = np.array([1000])
    splitters = adjust_splitters(one, np.array([INT64.min]), np.array([INT64.max]), 8)
    assert np.allclose(splitters.astype(float), (np.arange(1, 8) / 8 - 0.5) * 2.0**64, atol=2048)
    assert (adjust_splitters(one, np.array([INT64.max]), np.array([INT64.max]), 8) == INT64.max).all()
    tight = adjust_splitters(one, np.array([INT64.max - 8]), np.array([INT64.max]), 8)
    assert tight.tolist() == [INT64.max - 7 + i for i in range(7)]


@given(
    steps=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50), st.integers(1, 9)), min_size=1, max_size=8),
    first=st.sampled_from([int(INT64.min), -200, 0, int(INT64.max) - 600]),
    partitions=st.integers(1, 12),
)
@example(steps=[(0, 0, 1), (5, 0, 1), (0, 0, 1)], first=0, partitions=3)
def test_oracle_splitters_cut_the_histogram_evenly(
    steps: list[tuple[int, int, int]], first: int, partitions: int
) -> None:
    """A step of the histogram: its rows, its span, and the gap behind it. Fractions round where floats may."""
    histogram: list[tuple[int, int, int]] = []
    for rows, span, gap in steps:
        histogram.append((rows, first, first + span))
        first += span + gap
    total = sum(rows for rows, *_ in histogram)
    if total == 0:
        return
    count, minimum, maximum = np.array(histogram).T.copy()
    splitters = adjust_splitters(count, minimum, maximum, partitions).tolist()
    assert len(splitters) == partitions - 1
    for number, splitter in enumerate(splitters):
        wanted, before = Fraction(total * (number + 1), partitions), 0
        for rows, low, high in histogram:
            if rows and wanted <= before + rows:
                assert low <= splitter <= high
                assert abs(splitter - (low + (wanted - before) / rows * (high - low))) <= 1
                break
            before += rows
    assert splitters == sorted(splitters)
