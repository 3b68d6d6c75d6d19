"""Kernels of the extendible hash: every row stays in the bucket that its hash's low bits name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drawn_keys import INT64, key_arrays
from watersmeet.arrays import Int64s
from watersmeet.kernels.extendible_hash import DIRECTORY_FULL, DONE, PAGES_FULL, insert_rows, merge_buddies, mix_keys
from watersmeet.kernels.llat import grow_table, new_table, pack_chains

WORD = 2**64


def mixed(key: int) -> int:
    h = key % WORD
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD % WORD
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 % WORD
    return h ^ h >> 33


class Buckets:
    """Buckets of up to ``2 * theta`` rows, ``2**depth`` of them at first; ``needs`` is what inserting asked for."""

    def __init__(self, theta: int, deepest: int, depth: int = 0) -> None:
        self.theta, self.deepest = theta, deepest
        self.used = 1 << depth
        self.table = new_table(self.used, 2 * theta)
        self.depth = np.full(self.used, depth, np.int32)
        self.pattern = np.arange(self.used, dtype=np.int64)
        self.directory = np.arange(self.used, dtype=np.int32)
        self.keys: list[int] = []
        self.needs: set[int] = set()

    def insert(self, key: Int64s) -> None:
        """Insert keys, whose rows are numbered as they come; make room for one page at a time."""
        row = np.arange(len(self.keys), len(self.keys) + len(key), dtype=np.int32)
        self.keys += key.tolist()
        need, done = -1, 0
        while need != DONE:
            buckets = self.depth, self.pattern, self.directory, self.deepest
            done, self.used, need = insert_rows(
                self.table, 2 * self.theta, *buckets, self.used, key, row, mix_keys(key), done
            )
            self.needs.add(need)
            if need == DIRECTORY_FULL:
                self.directory = np.concatenate((self.directory, self.directory))
            elif need == PAGES_FULL:
                assert self.used == len(self.depth)
                self.table = grow_table(self.table, self.used + 1, 2 * self.theta)
                self.depth = np.append(self.depth, np.int32(0))
                self.pattern = np.append(self.pattern, 0)

    def merge(self) -> None:
        largest = merge_buddies(self.table, self.theta, self.depth, self.pattern, self.directory, self.used)
        assert largest == max(self.depth[bucket] for bucket in self.directory)

    def check(self) -> dict[tuple[int, int], int]:
        """Assert that all rows are where they belong; return how many rows the buckets have by pattern and depth."""
        for at, bucket in enumerate(self.directory):
            assert at & ((1 << self.depth[bucket]) - 1) == self.pattern[bucket]
        numbers = np.unique(self.directory)
        key, row, start, fill, *_ = pack_chains(self.table, numbers)
        assert sorted(row.tolist()) == list(range(len(self.keys)))
        assert key.tolist() == [self.keys[number] for number in row]
        sizes = {}
        for b, begin, rows in zip(numbers, start.tolist(), fill.tolist(), strict=True):
            held = key[begin : begin + rows].tolist()
            depth, pattern = int(self.depth[b]), int(self.pattern[b])
            assert all(mixed(each) % (1 << depth) == pattern for each in held)
            assert rows <= 2 * self.theta or len(set(held)) == 1 or depth == self.deepest
            sizes[pattern, depth] = rows
        return sizes


@given(key=key_arrays(40))
@example(key=np.empty(0, np.int64))
def test_oracle_hashes(key: Int64s) -> None:
    assert mix_keys(key).tolist() == [mixed(each) for each in key.tolist()]


@given(batches=st.lists(key_arrays(40), max_size=5), theta=st.integers(1, 4), depth=st.integers(0, 3))
@example(batches=[np.full(9, INT64.min), np.arange(9), np.full(9, INT64.max)], theta=1, depth=0)
def test_oracle_drawn_batches(batches: list[Int64s], theta: int, depth: int) -> None:
    """Buckets split down to a depth of 5, and chain pages from there on; then those that are underfull merge."""
    buckets = Buckets(theta, 5, depth)
    for key in batches:
        buckets.insert(key)
        buckets.check()
    before = buckets.check()
    buckets.merge()
    after = buckets.check()
    assert len(after) <= len(before)
    for (pattern, bits), rows in after.items():
        if bits and rows < theta:
            buddy = after.get((pattern ^ 1 << (bits - 1), bits))
            assert buddy is None or rows + buddy >= 2 * theta, "two that could merge are left"


@pytest.mark.parametrize("distinct", [1, 3, 2**40])
def test_oracle_many_rows(distinct: int) -> None:
    buckets = Buckets(4, 12)
    random = np.random.default_rng(distinct)
    for key in np.array_split(random.integers(0, distinct, 1500), 3):
        buckets.insert(key)
    buckets.check()
    assert buckets.needs == {DONE, PAGES_FULL} | ({DIRECTORY_FULL} if distinct > 1 else set())


@pytest.mark.parametrize("goes", [False, True])
def test_a_chain_of_one_key_stays_or_goes_as_a_whole(goes: bool) -> None:
    """The next bit of its hash decides; the stranger that makes it split has the other bit."""
    hot, stranger = (next(key for key in range(99) if mixed(key) % 2 == bit) for bit in (goes, not goes))
    buckets = Buckets(2, 6)
    buckets.insert(np.full(11, hot))
    assert buckets.check() == {(0, 0): 11}
    buckets.insert(np.array([stranger, hot]))
    assert buckets.check() == {(int(goes), 1): 12, (int(not goes), 1): 1}
    buckets.merge()
    assert buckets.check() == {(int(goes), 1): 12, (int(not goes), 1): 1}, "a chain merges with nobody"


def test_buckets_at_the_deepest_level_chain_pages_for_several_keys() -> None:
    keys = np.array([key for key in range(500) if mixed(key) % 4 == 3][:12])
    buckets = Buckets(1, 2)
    buckets.insert(keys)
    assert buckets.check()[3, 2] == 12


@pytest.mark.parametrize(
    ("even", "odd", "merges"), [(3, 3, False), (1, 5, False), (5, 1, False), (2, 3, True), (0, 5, True)]
)
def test_buddies_merge_below_two_theta_rows(even: int, odd: int, merges: bool) -> None:
    rows = (even, odd)
    keys = [[key for key in range(99) if mixed(key) % 2 == bit][: rows[bit]] for bit in (0, 1)]
    buckets = Buckets(3, 6, depth=1)
    buckets.insert(np.array([*keys[0], *keys[1]]))
    buckets.merge()
    assert buckets.check() == ({(0, 0): even + odd} if merges else {(0, 1): even, (1, 1): odd})
