"""The linked table, against lists of keys: chains are linked, probed in portions, and packed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drawn_keys import INT64, key_arrays
from watersmeet.arrays import Int64s
from watersmeet.kernels.llat import (
    PROBES_AT_ONCE,
    Table,
    find_pairs,
    grow_table,
    link_entry,
    new_table,
    pack_chains,
    table_bytes,
)

SPLITTERS = np.array([-3, 0, 0, 5, 100])
"""Partition p has the keys above splitter p - 1, up to splitter p; one of them is always empty."""


def table_of(chains: list[list[int]], width: int) -> Table:
    """Return a table whose first entries are chains of these keys, numbered as rows one behind the other."""
    used = len(chains)
    table = new_table(used + sum(len(keys) // width for keys in chains), width)
    key, row, start, fill, _, last = table
    number = 0
    for chain, keys in enumerate(chains):
        for each in keys:
            if fill[last[chain]] == width:
                link_entry(table, chain, used)
                used += 1
            entry = last[chain]
            key[start[entry] + fill[entry]] = each
            row[start[entry] + fill[entry]] = number
            fill[entry] += 1
            number += 1
    return table


def partitioned(key: Int64s) -> list[list[int]]:
    partition = np.searchsorted(SPLITTERS, key)
    return [key[partition == number].tolist() for number in range(len(SPLITTERS) + 1)]


def check_pairs(table: Table, chains: list[list[int]], lo: Int64s, hi: Int64s, most: int) -> None:
    """Assert that the pairs, portion by portion, are those of a nested loop, probe by probe."""
    stored = np.array([key for keys in chains for key in keys], np.int64)
    first, final = (np.searchsorted(SPLITTERS, bound).astype(np.int32) for bound in (lo, hi))
    following = np.arange(1, len(chains) + 1, dtype=np.int32)
    who = np.arange(len(lo), dtype=np.int32)[::-1] + 7
    expected = [
        (int(asking), row)
        for asking, low, high in zip(who, lo.tolist(), hi.tolist(), strict=True)
        for row in np.flatnonzero((stored >= low) & (stored <= high)).tolist()
    ]
    found: list[tuple[int, int]] = []
    begin = 0
    while begin < len(lo):
        pair_who, pair_row, end = find_pairs(
            table, following, first, final, lo, hi, np.ascontiguousarray(who), begin, most
        )
        assert end > begin
        assert len(pair_who) <= most or len(set(pair_who.tolist())) == 1
        found += zip(pair_who.tolist(), pair_row.tolist(), strict=True)
        begin = end
    assert found == expected


def test_every_new_entry_is_an_empty_chain() -> None:
    key, row, start, fill, next_entry, last = table = new_table(3, 4)
    assert (len(key), len(row)) == (12, 12)
    assert start.tolist() == [0, 4, 8]
    assert fill.tolist() == [0, 0, 0]
    assert next_entry.tolist() == [-1, -1, -1]
    assert last.tolist() == [0, 1, 2]
    assert table_bytes(table) == 12 * 8 + 12 * 4 + 3 * (8 + 4 + 4 + 4)


def test_a_larger_table_has_the_same_chains() -> None:
    chains = [[5, 4, 3], [], [1, 2]]
    table = table_of(chains, 2)
    larger = grow_table(table, 9, 2)
    arrays: Iterable[tuple[Any, Any]] = zip(larger, table, strict=True)
    for array, before in arrays:
        assert array[: len(before)].tolist() == before.tolist()
    link_entry(larger, 1, 8)
    packed = pack_chains(larger, np.arange(3, dtype=np.int32))
    assert packed[0].tolist() == [5, 4, 3, 1, 2]


@given(key=key_arrays(40), bounds=key_arrays(20), width=st.integers(1, 5), most=st.sampled_from([1, 3, 1000]))
@example(key=np.array([INT64.min, 0, 0, 0, INT64.max]), bounds=np.array([INT64.min, INT64.max]), width=1, most=1)
@example(key=np.empty(0, np.int64), bounds=np.array([0]), width=1, most=1)
def test_oracle_pairs_of_chains(key: Int64s, bounds: Int64s, width: int, most: int) -> None:
    """Points, ranges over several partitions, and empty ranges."""
    chains = partitioned(key)
    table = table_of(chains, width)
    for lo, hi in ((bounds, bounds), (bounds, bounds[::-1].copy()), (np.full_like(bounds, INT64.min), bounds)):
        check_pairs(table, chains, lo, hi, most)
    packed = pack_chains(table, np.arange(len(chains), dtype=np.int32))
    check_pairs(packed, chains, bounds, np.full_like(bounds, INT64.max), most)


@pytest.mark.parametrize("probes", [PROBES_AT_ONCE - 1, PROBES_AT_ONCE, PROBES_AT_ONCE + 1, 2 * PROBES_AT_ONCE + 9])
@pytest.mark.parametrize("most", [100, 10**6])
def test_oracle_more_probes_than_are_counted_at_once(probes: int, most: int) -> None:
    random = np.random.default_rng(probes)
    chains = partitioned(random.integers(-9, 120, 60))
    lo = np.sort(random.integers(-9, 120, probes))
    check_pairs(table_of(chains, 4), chains, lo, lo + random.integers(-1, 12, probes), most)


def test_a_portion_that_is_full_ends_where_the_next_probes_are_counted() -> None:
    chains = partitioned(np.array([7]))
    lo = np.full(PROBES_AT_ONCE + 3, 7)
    check_pairs(table_of(chains, 1), chains, lo, lo, PROBES_AT_ONCE)


@pytest.mark.parametrize("order", [[], [0], [2, 0], [3, 2, 1, 0]])
def test_chains_are_packed_in_the_order_asked_for(order: list[int]) -> None:
    chains = [[INT64.max, 1], [], [7] * 9, [INT64.min]]
    rows = [0, *np.cumsum([len(keys) for keys in chains]).tolist()]
    key, row, start, fill, next_entry, last = pack_chains(table_of(chains, 2), np.array(order, np.int32))
    assert key.tolist() == [each for chain in order for each in chains[chain]]
    assert row.tolist() == [each for chain in order for each in range(rows[chain], rows[chain + 1])]
    assert fill.tolist() == [len(chains[chain]) for chain in order]
    assert all(end - begin == size for (begin, end), size in zip(pairwise([*start, len(key)]), fill, strict=True))
    assert next_entry.tolist() == [-1] * len(order)
    assert last.tolist() == list(range(len(order)))
