"""The nested loop and its inner loops, against NumPy's masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given

from drawn_keys import INT64, KEYS, key_arrays
from watersmeet.arrays import Int64s
from watersmeet.kernels.scan import (
    COUNT_BITS,
    TILE,
    count_between,
    locate_between,
    nested_loop,
    reserve,
    write_between,
)


@given(key=key_arrays(40), lo=KEYS, hi=KEYS)
@example(key=np.array([INT64.min, INT64.max]), lo=INT64.min, hi=INT64.max)
@example(key=np.array([INT64.max]), lo=INT64.max, hi=INT64.max)
@example(key=np.array([1, 2, 3]), lo=3, hi=1)
def test_oracle_keys_between(key: Int64s, lo: int, hi: int) -> None:
    for low, high in ((lo, hi), (lo, lo), (hi, lo)):
        inside = np.flatnonzero((key >= low) & (key <= high))
        assert count_between(key, low, high) == len(inside)
        both = locate_between(key, low, high)
        assert both & ((1 << COUNT_BITS) - 1) == len(inside)
        assert both >> COUNT_BITS == inside.sum()
        row = np.arange(len(key), dtype=np.int32) - 5
        pair_who, pair_row = np.full((2, 3 + len(inside)), 99, np.int32)
        assert write_between(key, row, low, high, 8, pair_who, pair_row, 3) == 3 + len(inside)
        assert pair_who.tolist() == [99] * 3 + [8] * len(inside)
        assert pair_row.tolist() == [99] * 3 + row[inside].tolist()


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_room_is_kept_or_at_least_doubled(kind: Any) -> None:
    array: Any = np.arange(4, dtype=kind)
    assert np.shares_memory(reserve(array, 4, 0), array)
    assert np.shares_memory(reserve(array, 1, 3), array)
    for used, more, size in ((4, 1, 8), (2, 7, 9), (0, 5, 8)):
        larger = reserve(array, used, more)
        assert (larger.dtype, len(larger)) == (array.dtype, size)
        assert larger[:used].tolist() == array[:used].tolist()
    assert len(reserve(array[:0], 0, 1)) == 1


@pytest.mark.parametrize("stored", [0, 1, TILE - 1, TILE, TILE + 1, 2 * TILE + 3])
@pytest.mark.parametrize("most", [1, 7, 10**6])
def test_oracle_all_rows_meet_all_probes_in_portions(stored: int, most: int) -> None:
    """No order of keys or probes is needed; a portion has ``most`` pairs, or those of one probe and one block."""
    random = np.random.default_rng(stored)
    key = random.permutation(np.append(random.integers(0, 60, max(stored - 2, 0)), [INT64.min, INT64.max])[:stored])
    row = random.permutation(stored).astype(np.int32)
    lo = np.array([5, 20, INT64.min, 59, 40, 3, INT64.max])
    hi = np.array([5, 22, INT64.min, INT64.max, 39, 3, INT64.max])
    who = random.permutation(len(lo)).astype(np.int32)
    found: list[tuple[int, int]] = []
    at = 0
    while at >= 0:
        pair_who, pair_row, following = nested_loop(key, row, lo, hi, who, at, most)
        assert following < 0 or following > at or len(pair_who)
        assert len(pair_who) <= most or len(set(pair_who.tolist())) == 1
        found += zip(pair_who.tolist(), pair_row.tolist(), strict=True)
        at = following
    meets = (key >= lo[:, None]) & (key <= hi[:, None])
    assert sorted(found) == sorted((int(who[q]), int(row[at])) for q, at in np.argwhere(meets))
