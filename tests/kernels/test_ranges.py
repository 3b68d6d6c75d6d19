"""Ranges in a sorted run: searching it and merging with it give the same; and what a range stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernels import ranges, sorted_keys

LIMIT = np.iinfo(np.int64)
KEYS = st.integers(-20, 20) | st.sampled_from([LIMIT.min, LIMIT.min + 1, LIMIT.max - 1, LIMIT.max])
ENTRIES = st.lists(st.tuples(st.integers(0, 3), KEYS), min_size=1, max_size=60)
PROBES = st.lists(st.tuples(st.integers(0, 3), KEYS), min_size=1, max_size=60)


def padded(values: list[int]) -> sorted_keys.Int64s:
    run = sorted_keys.empty_keys(len(values))
    run[: len(values)] = values
    run[len(values) :] = LIMIT.max
    return run


def levels(run: sorted_keys.Int64s, size: int) -> tuple[sorted_keys.Int64s, sorted_keys.Int64s]:
    index = padded(run[0 : size : sorted_keys.LINE].tolist())
    return index, padded(index[: -sorted_keys.LINE : sorted_keys.LINE].tolist())


def found_by_both(
    key: sorted_keys.Int64s, equality: sorted_keys.Int64s | None, size: int, wanted: tuple[Any, ...]
) -> list[tuple[int, list[int], list[int], list[int]]]:
    """Return matches, starts, ends and probes of the ranges: by merging, and by searching."""
    index, top = levels(key, size)
    equality_index, equality_top = (None, None) if equality is None else levels(equality, size)
    found = []
    for find, indexes in ((ranges.merge_ranges, ()), (ranges.find_ranges, (index, equality_index, top, equality_top))):
        count = len(wanted[0])
        start, end, who = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int32)
        hits, total = find(key, equality, size, *indexes, *wanted, start, end, who)  # type: ignore[operator]
        found.append((total, start[:hits].tolist(), end[:hits].tolist(), who[:hits].tolist()))
    return found


@pytest.mark.parametrize("has_equality", [False, True])
def test_long_ranges_reach_to_the_end_of_the_run(has_equality: bool) -> None:
    """A range is walked for 32 rows, then in steps that are doubled and halved: each of them may just reach the end."""
    for size in (*range(34, 110), 127, 128, 129, 255, 256, 257, 511, 513):
        for before in (0, 1, 33):  # rows before the range; all others lie in it
            key = padded([0] * before + [7] * (size - before))
            equality = padded([1] * size) if has_equality else None
            wanted = (
                np.array([5, 7], np.int64),
                np.array([6, 8], np.int64),
                np.array([1, 1]) if has_equality else None,
                np.arange(2, dtype=np.int32),
            )
            expected = (size - before, [before], [size], [1])
            assert found_by_both(key, equality, size, wanted) == [expected, expected], size


@pytest.mark.parametrize("seed", range(20))
def test_groups_that_share_a_block_are_told_apart(seed: int) -> None:
    """Keys fall at every border of two equalities: what lies behind it is smaller than the bound, but not before it."""
    random = np.random.default_rng(seed)
    size = int(random.integers(1, 200))
    entries = sorted(zip(random.integers(0, 12, size).tolist(), random.integers(0, 9, size).tolist(), strict=True))
    probes = sorted(zip(random.integers(0, 12, 30).tolist(), random.integers(0, 9, 30).tolist(), strict=True))
    lo = np.array([key for _, key in probes], np.int64)
    wanted = (lo, lo + 2, np.array([equality for equality, _ in probes]), np.arange(len(lo), dtype=np.int32))
    key, equality = padded([key for _, key in entries]), padded([equality for equality, _ in entries])
    inside = [sum(g == own and low <= k <= low + 2 for g, k in entries) for own, low in probes]
    for total, start, end, who in found_by_both(key, equality, size, wanted):
        assert total == sum(inside)
        assert who == [probe for probe, count in enumerate(inside) if count]
        assert [b - a for a, b in zip(start, end, strict=True)] == [inside[probe] for probe in who]


@given(ENTRIES, PROBES, st.integers(-2, 9), st.booleans())
def test_merging_finds_the_ranges_that_searching_does(
    entries: list[tuple[int, int]], probes: list[tuple[int, int]], width: int, has_equality: bool
) -> None:
    if not has_equality:
        entries, probes = [(0, key) for _, key in entries], [(0, key) for _, key in probes]
    entries, probes = sorted(entries), sorted(probes)
    key = padded([key for _, key in entries])
    equality = padded([equality for equality, _ in entries]) if has_equality else None
    lo = np.array([low for _, low in probes], np.int64)
    hi = np.array([min(low + width, LIMIT.max) for _, low in probes], np.int64) if width >= 0 else lo - (lo > LIMIT.min)
    wanted = (
        lo,
        hi,
        np.array([equality for equality, _ in probes]) if has_equality else None,
        np.arange(len(lo), dtype=np.int32),
    )
    found = found_by_both(key, equality, len(entries), wanted)
    assert found[0] == found[1]
    assert found[0][0] == sum(
        equality == wanted_group and low <= key <= high
        for (wanted_group, low), high in zip(probes, hi.tolist(), strict=True)
        for equality, key in entries
    )


@pytest.mark.parametrize("size", [1, 7, 8, 9, 63, 64, 65, 511, 513, 5000, 40_000])
@pytest.mark.parametrize("probes", [1, 2, ranges.AHEAD, 2 * ranges.AHEAD + 1, 300])
def test_oracle_runs_of_three_levels(size: int, probes: int) -> None:
    """NumPy's binary search finds the same, in runs that fill their blocks and such that do not."""
    random = np.random.default_rng(size)
    stored = np.sort(random.integers(0, size, size))
    lo = np.sort(random.integers(-2, size + 2, probes))
    hi = np.maximum.accumulate(lo + random.integers(-1, size // 9 + 2, probes))
    who = random.permutation(probes).astype(np.int32)
    begin, end = np.searchsorted(stored, lo, "left"), np.searchsorted(stored, hi, "right")
    hit = end > begin
    expected = (int((end - begin)[hit].sum()), begin[hit].tolist(), end[hit].tolist(), who[hit].tolist())
    assert found_by_both(padded(stored.tolist()), None, size, (lo, hi, None, who)) == [expected, expected]


def test_an_empty_run_has_no_ranges() -> None:
    run = padded([])
    out = np.empty(1, np.int64), np.empty(1, np.int64), np.empty(1, np.int32)
    bounds = np.array([LIMIT.min]), np.array([LIMIT.max]), None, np.zeros(1, np.int32)
    assert ranges.find_ranges(run, None, 0, *levels(run, 0)[:1], None, levels(run, 0)[1], None, *bounds, *out) == (0, 0)
    assert ranges.merge_ranges(run, None, 0, *bounds, *out) == (0, 0)


@pytest.mark.parametrize("count", [0, 1, 2, ranges.AHEAD, ranges.AHEAD + 1, 100])
def test_oracle_ranges_are_expanded_to_pairs(count: int) -> None:
    """Ranges may be empty, overlap, and come in any order."""
    random = np.random.default_rng(count)
    start = random.integers(0, 50, count)
    end = start + random.integers(0, 9, count)
    row, who = random.permutation(60).astype(np.int32), random.permutation(count).astype(np.int32)
    pair_who, pair_row = np.full((2, int((end - start).sum()) + 1), -7, np.int32)
    ranges.expand_ranges(start, end, who, row, pair_who, pair_row)
    assert pair_who.tolist() == [*np.repeat(who, end - start).tolist(), -7]
    expected = [each for begin, last in zip(start, end, strict=True) for each in row[begin:last].tolist()]
    assert pair_row.tolist() == [*expected, -7]
