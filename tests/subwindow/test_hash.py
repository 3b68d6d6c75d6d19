"""Extendible hashing: how buckets split and merge."""

from __future__ import annotations

import numpy as np
import pytest

from structures import assert_holds, expected, found, insert_all, probes_around
from watersmeet.arrays import Int64s
from watersmeet.kernels.extendible_hash import mix_keys
from watersmeet.subwindow.hash import Hash


def assert_hash_invariants(subwindow: Hash, theta: int) -> None:
    low = (1 << subwindow.global_depth) - 1
    patterns = set()
    for pattern, depth, key in subwindow.buckets():
        mask = (1 << depth) - 1
        assert pattern <= mask <= low
        assert ((mix_keys(key) & np.uint64(mask)) == np.uint64(pattern)).all()
        if len(key) > 2 * theta:  # overflow pages: only where no bit splits the rows apart, or bits have run out
            assert len(np.unique(key)) == 1 or depth == subwindow.deepest
        patterns.add((pattern, depth))
        entries = subwindow.directory[pattern :: 1 << depth]
        assert len(np.unique(entries)) == 1, "all directory entries with the bucket's low bits point to it"
    assert len(patterns) == len(np.unique(subwindow.directory))
    assert sum(2.0**-depth for _, depth in patterns) == 1.0, "the buckets cover all hashes, each once"


def assert_no_buddies_left_to_merge(subwindow: Hash, theta: int) -> None:
    buckets = {(pattern, depth): len(key) for pattern, depth, key in subwindow.buckets()}
    for (pattern, depth), rows in buckets.items():
        if depth and rows < theta:
            buddy = buckets.get((pattern ^ 1 << (depth - 1), depth))
            assert buddy is None or rows + buddy >= 2 * theta
    assert subwindow.global_depth == max(depth for _, depth in buckets), "the directory is as small as can be"


@pytest.mark.parametrize("theta", [2, 8, 16])
@pytest.mark.parametrize("distinct", [3, 100, 2**40])
def test_hash_keeps_its_buckets_between_theta_and_two_theta(theta: int, distinct: int) -> None:
    n = 5000
    subwindow = Hash(n, theta=theta)
    key = insert_all(subwindow, np.array_split(np.random.default_rng(6).integers(0, distinct, n), 9))
    assert_hash_invariants(subwindow, theta)
    subwindow.seal()
    assert_hash_invariants(subwindow, theta)
    assert_no_buddies_left_to_merge(subwindow, theta)
    assert_holds(subwindow, key)
    if distinct > n:
        sizes = np.array([len(k) for _, _, k in subwindow.buckets()])
        assert sizes.max() <= 2 * theta
        assert np.mean(sizes >= theta) > 0.8


def keys_with_low_bits(bits: int, pattern: int, count: int) -> Int64s:
    """Return keys whose hashes end in the ``bits`` bits of ``pattern``."""
    candidates = np.arange(10_000, dtype=np.int64)
    wanted: Int64s = candidates[(mix_keys(candidates) & np.uint64((1 << bits) - 1)) == np.uint64(pattern)]
    return wanted[:count]


def shape_of(subwindow: Hash) -> dict[tuple[int, int], int]:
    return {(pattern, depth): len(key) for pattern, depth, key in subwindow.buckets()}


def test_hash_splits_until_a_bit_tells_the_rows_apart() -> None:
    # The first eight hashes end in 0000 and the ninth in 1000: three splits in vain, and then one that parts them.
    subwindow = Hash(100, theta=4)
    key = insert_all(subwindow, [keys_with_low_bits(4, 0b0000, 8), keys_with_low_bits(4, 0b1000, 1)])
    shape = {(0b0000, 4): 8, (0b1000, 4): 1, (0b100, 3): 0, (0b10, 2): 0, (0b1, 1): 0}
    assert shape_of(subwindow) == shape
    subwindow.seal()  # 8 and 1 rows are not fewer than 2 * theta, and no other buddies have the same depth
    assert shape_of(subwindow) == shape
    assert_holds(subwindow, key)


def test_hash_merges_buddies_and_halves_its_directory_when_sealed() -> None:
    theta = 4
    predecessor = Hash(100, theta=theta)
    insert_all(predecessor, [keys_with_low_bits(3, pattern, 6) for pattern in range(8)])
    assert shape_of(predecessor) == {(pattern, 3): 6 for pattern in range(8)}

    subwindow = Hash(100, predecessor, theta=theta)
    assert shape_of(subwindow) == {(pattern, 3): 0 for pattern in range(8)}
    rows = {0b000: 5, 0b100: 5, 0b010: 3, 0b110: 4, 0b001: 1, 0b101: 2, 0b011: 0, 0b111: 3}
    key = insert_all(subwindow, [keys_with_low_bits(3, pattern, count) for pattern, count in rows.items()])
    points = probes_around(np.arange(300, dtype=np.int64), np.zeros(300, np.int64))
    assert found(subwindow, points) == expected(key, points)
    subwindow.seal()
    # 000 and 100 are full enough; 010 and 110 merge; so do the four odd ones, to 01 and 11, and these to 1.
    assert shape_of(subwindow) == {(0b000, 3): 5, (0b100, 3): 5, (0b10, 2): 7, (0b1, 1): 6}
    assert_hash_invariants(subwindow, theta)
    assert_no_buddies_left_to_merge(subwindow, theta)
    assert found(subwindow, points) == expected(key, points)

    nearly_empty = Hash(100, predecessor, theta=theta)
    key = insert_all(nearly_empty, [np.array([1, 2, 3])])
    nearly_empty.seal()
    assert nearly_empty.global_depth == 0
    assert shape_of(nearly_empty) == {(0, 0): 3}
    assert found(nearly_empty, points) == expected(key, points)
