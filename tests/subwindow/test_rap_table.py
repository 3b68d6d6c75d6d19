"""RaP-Table: splitters learn from the subwindow before, and entries suffice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structures import BATCHES, assert_holds, entries_of, insert_all
from watersmeet.arrays import Int64s
from watersmeet.subwindow.rap_table import RapTable


@given(batches=BATCHES, partitions=st.sampled_from([1, 2, 3, 16]))
def test_rap_table_splitters_never_decrease(batches: list[Int64s], partitions: int) -> None:
    capacity = sum(map(len, batches))
    table = RapTable(capacity, partitions=5)
    insert_all(table, batches)
    successor = RapTable(capacity, table, partitions=partitions)
    assert (np.diff(table.splitters.astype(object)) >= 0).all()
    assert (np.diff(successor.splitters.astype(object)) >= 0).all()
    keys = np.sort(insert_all(successor, batches))
    count, minimum, maximum = successor.histogram()
    assert count.sum() == capacity
    used = count > 0
    assert (minimum[used] <= maximum[used]).all()
    assert (maximum[used][:-1] < minimum[used][1:]).all()
    ends = np.cumsum(count[used])  # of the sorted keys, partition after partition
    assert maximum[used].tolist() == keys[ends - 1].tolist()
    assert minimum[used].tolist() == keys[ends - count[used]].tolist()


DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], Int64s]] = {
    "uniform": lambda random, n: random.integers(10**6, 3 * 10**6, n),
    "normal": lambda random, n: random.normal(2e9, 1e6, n).astype(np.int64),
    "multimodal": lambda random, n: (random.choice([1e8, 1e9, 3e9], n) + random.normal(0, 1e5, n)).astype(np.int64),
    "rank-size": lambda random, n: np.minimum(1000 * random.pareto(1.0, n), 2.0**32).astype(np.int64),
}


@pytest.mark.parametrize("draw", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS.keys())
def test_rap_table_converges_within_three_adjustments(draw: Callable[[np.random.Generator, int], Int64s]) -> None:
    # 256 rows per partition: chance alone leaves an error of about 0.07 between two samples of one distribution.
    random = np.random.default_rng(7)
    n, partitions = 1 << 16, 256
    even_32_bit = np.arange(1, partitions, dtype=np.int64) * (2**32 // partitions)
    table = RapTable(n, splitters=even_32_bit)
    table.insert(entries_of(draw(random, n)))
    assert table.normalised_mean_absolute_error() > 1.9
    for _ in range(3):
        table = RapTable(n, table, partitions=partitions)
        table.insert(entries_of(draw(random, n)))
    assert table.normalised_mean_absolute_error() < 0.12


def test_a_first_rap_table_recovers_from_a_first_batch_of_one_row() -> None:
    random = np.random.default_rng(8)
    table = RapTable(20_000, partitions=64)
    insert_all(table, [np.array([3]), *np.array_split(random.integers(0, 10**9, 19_999), 40)])
    assert table.normalised_mean_absolute_error() < 0.5


def test_a_table_is_outgrown_by_what_gathers_in_one_partition_in_however_many_batches() -> None:
    random = np.random.default_rng(9)
    before = RapTable(20_000)
    insert_all(before, np.array_split(random.integers(0, 10**6, 20_000), 100))
    assert not before.outgrown, "it has cut itself anew while it learned"
    table = RapTable(20_000, before)
    insert_all(table, [random.integers(0, 10**6, 10_000), *np.arange(10**6, 10**6 + 900).reshape(9, 100)])
    assert not table.outgrown, "the last partition has 900 rows more than it should have, which is not yet many"
    insert_all(table, list(np.arange(10**6 + 900, 10**6 + 1100).reshape(2, 100)))
    assert table.outgrown


@pytest.mark.parametrize("capacity", [1, 2, 7, 64, 1000, 1023])
@pytest.mark.parametrize("partitions", [1, 2, 8, 37])
def test_llat_never_needs_more_than_two_entries_per_partition(capacity: int, partitions: int) -> None:
    # partition p takes the keys p; W is the width of an entry
    splitters = np.arange(partitions - 1, dtype=np.int64)
    width = -(-capacity * 5 // (partitions * 4))
    fills = {
        "all equal": np.zeros(capacity, np.int64),
        "all in the last": np.full(capacity, partitions),
        "one row more than fits, as often as can be": np.arange(capacity) // (width + 1),
        "one row each, the rest in the first": np.maximum(np.arange(capacity) - capacity + partitions, 0),
    }
    for key in fills.values():
        table = RapTable(capacity, splitters=splitters)
        insert_all(table, np.array_split(key.astype(np.int64), 3))
        assert table.entries_used <= 2 * partitions
        assert_holds(table, key)
