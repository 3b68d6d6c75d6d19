"""Kernels on keys, each against its definition in Python integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn_keys import INT64 as LIMIT
from drawn_keys import KEYS
from watersmeet.arrays import Int64s
from watersmeet.kernels import keys as kernels
from watersmeet.kernels.team import ALONE

ENDS = [LIMIT.min, LIMIT.min + 1, LIMIT.min + 7, -8, -1, 0, 1, 8, LIMIT.max - 7, LIMIT.max - 1, LIMIT.max]
NANS = [0x7FF0000000000001, 0x7FF8000000000000, 0x7FFFFFFFFFFFFFFF, -0x8000000000000, -1, -0xFFFFFFFFFFFFF]


def shift_ranges(key: Int64s, low: int | None, high: int | None) -> tuple[Int64s, Int64s, int]:
    move = low or 0, low is not None, high or 0, high is not None
    return kernels.shift_ranges(ALONE, kernels.shift_stretch(), key, *move)


@pytest.mark.parametrize("low", [None, *ENDS])
@pytest.mark.parametrize("high", [None, *ENDS])
def test_a_range_is_cut_to_int64_and_empty_beyond_it(low: int | None, high: int | None) -> None:
    key = np.array(ENDS, np.int64)
    lo, hi, empty = shift_ranges(key, low, high)
    beyond = 0
    for own, first, last in zip(ENDS, lo.tolist(), hi.tolist(), strict=True):
        begin = LIMIT.min if low is None else own + low
        end = LIMIT.max if high is None else own + high
        if begin > LIMIT.max or end < LIMIT.min:
            beyond += 1
            assert first > last
        elif begin <= end:
            assert (first, last) == (max(begin, LIMIT.min), min(end, LIMIT.max))
        else:
            assert first > last
    assert empty >= beyond


def test_bits_order_as_spark_orders_floats() -> None:
    values = [-np.inf, -1.5, -5e-324, 0.0, 5e-324, 1.5, np.finfo(float).max, np.inf]
    ordered = kernels.order_bits(np.array(values).view(np.int64)).tolist()
    assert ordered == sorted(set(ordered))
    zeros = kernels.order_bits(np.array([0.0, -0.0]).view(np.int64))
    assert zeros[0] == zeros[1]
    nans = np.array(NANS, np.int64)
    assert np.isnan(nans.view(np.float64)).all()
    assert set(kernels.order_bits(nans).tolist()) == {kernels.order_bits(np.array([np.nan]).view(np.int64))[0]}
    assert kernels.order_bits(nans).min() > max(ordered), "NaN is above infinity"


@pytest.mark.parametrize("has_equality", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_ends_that_rounding_has_turned_round_are_widened(seed: int, has_equality: bool) -> None:
    random = np.random.default_rng(seed)
    lo, hi = random.integers(0, 30, 20), random.integers(0, 30, 20)
    equality = np.sort(random.integers(0, 3, 20)) if has_equality else None
    given = lo.tolist(), hi.tolist()
    kernels.make_monotone(equality, lo, hi)
    equalities = [0] * 20 if equality is None else equality.tolist()
    for at in range(20):
        assert lo[at] == min(
            low for low, own in zip(given[0][at:], equalities[at:], strict=True) if own == equalities[at]
        )
        assert hi[at] == max(
            high for high, own in zip(given[1][: at + 1], equalities[: at + 1], strict=True) if own == equalities[at]
        )


@pytest.mark.parametrize("seed", range(5))
def test_pairs_are_kept_by_range_and_by_count(seed: int) -> None:
    """Two streams of ten rows, in a drawn order of arrival; windows of 3 and of 5 rows."""
    random = np.random.default_rng(seed)
    arrived = random.permutation(np.repeat([0, 1], 10))
    counts = [(int((arrived[:at] == 0).sum()), int((arrived[:at] == 1).sum())) for at in range(20)]
    stored = np.array([count for count, side in zip(counts, arrived, strict=True) if side == 0], np.int64)
    probing = np.array([count for count, side in zip(counts, arrived, strict=True) if side == 1], np.int64)
    who, row = (some.ravel().astype(np.int32) for some in np.meshgrid(np.arange(10), np.arange(10)))
    keep = np.ones(100, bool)
    kept = kernels.keep_pairs_in_count_window(
        who, row, *np.ascontiguousarray(stored.T), 3, *np.ascontiguousarray(probing[:, ::-1].T), 5, keep
    )
    expected = [
        probing[w, 0] - stored[r, 0] <= 3 if stored[r].sum() < probing[w].sum() else stored[r, 1] - probing[w, 1] <= 5
        for w, r in zip(who, row, strict=True)
    ]
    assert keep.tolist() == expected
    assert kept == sum(expected)
    key, lo = random.integers(0, 9, 10), random.integers(0, 9, 10)
    inside = np.zeros(100, bool)
    assert kernels.keep_pairs_in_ranges(who, row, lo, lo + 2, key, inside) == inside.sum()
    assert inside.tolist() == [lo[w] <= key[r] <= lo[w] + 2 for w, r in zip(who, row, strict=True)]


@given(a=st.floats(), b=st.floats())
def test_oracle_bits_of_any_two_floats(a: float, b: float) -> None:
    """NaN is the largest and equals itself; the two zeros are equal."""
    first, second = kernels.order_bits(np.array([a, b]).view(np.int64)).tolist()
    ranks = [(math.isnan(x), 0.0 if math.isnan(x) else x) for x in (a, b)]
    assert (first < second, first == second) == (ranks[0] < ranks[1], ranks[0] == ranks[1])


@given(key=st.lists(KEYS, max_size=9), low=KEYS | st.none(), high=KEYS | st.none())
def test_oracle_shifted_ranges(key: list[int], low: int | None, high: int | None) -> None:
    """Where both ends are beyond int64, or change places, no key is found; else all between them, and no other."""
    lo, hi, _ = shift_ranges(np.array(key, np.int64), low, high)
    for own, first, last in zip(key, lo.tolist(), hi.tolist(), strict=True):
        begin, end = LIMIT.min if low is None else own + low, LIMIT.max if high is None else own + high
        for other in {LIMIT.min, LIMIT.max, own, *(min(max(at, LIMIT.min), LIMIT.max) for at in (begin, end))}:
            assert (first <= other <= last) == (begin <= other <= end)


def test_flags_of_ranges_add_up_and_those_of_count_windows_cut_down() -> None:
    """An axis may have several ranges: a pair needs one of them. A pair that is out already stays out."""
    who, row = np.zeros(3, np.int32), np.arange(3, dtype=np.int32)
    key = np.array([1, 2, 3])
    keep = np.array([True, False, False])
    assert kernels.keep_pairs_in_ranges(who, row, np.array([3]), np.array([9]), key, keep) == 1
    assert keep.tolist() == [True, False, True]
    sequence, seen = np.arange(3), np.zeros(3, np.int64)
    keep = np.array([True, False, True])
    assert kernels.keep_pairs_in_count_window(who, row, sequence, seen, 2, seen[:1], np.array([3]), 9, keep) == 1
    assert keep.tolist() == [False, False, True]


def test_nothing_is_kept_of_nothing() -> None:
    none, nobody, flags = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, bool)
    assert len(kernels.order_bits(none)) == 0
    assert kernels.keep_pairs_in_ranges(nobody, nobody, none, none, none, flags) == 0
    assert kernels.keep_pairs_in_count_window(nobody, nobody, none, none, 1, none, none, 1, flags) == 0
    for equality in (None, none):
        kernels.make_monotone(equality, none, none)
