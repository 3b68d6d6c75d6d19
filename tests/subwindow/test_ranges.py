"""Two ways to find ranges in a sorted run: searching it and merging with it give the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernels import ranges, sorted_run

LIMIT = np.iinfo(np.int64)
KEYS = st.integers(-20, 20) | st.sampled_from([LIMIT.min, LIMIT.min + 1, LIMIT.max - 1, LIMIT.max])
ENTRIES = st.lists(st.tuples(st.integers(0, 3), KEYS), min_size=1, max_size=60)
PROBES = st.lists(st.tuples(st.integers(0, 3), KEYS), min_size=1, max_size=60)


def padded(values: list[int]) -> sorted_run.Int64s:
    run = sorted_run.empty_run(len(values))
    run[: len(values)] = values
    run[len(values) :] = LIMIT.max
    return run


def levels(run: sorted_run.Int64s, size: int) -> tuple[sorted_run.Int64s, sorted_run.Int64s]:
    index = sorted_run.sample_run(run, size)
    return index, sorted_run.sample_run(index, len(index) - sorted_run.BLOCK)


@given(ENTRIES, PROBES, st.integers(-2, 9), st.booleans())
def test_merging_finds_the_ranges_that_searching_does(
    entries: list[tuple[int, int]], probes: list[tuple[int, int]], width: int, has_groups: bool
) -> None:
    if not has_groups:
        entries, probes = [(0, key) for _, key in entries], [(0, key) for _, key in probes]
    entries, probes = sorted(entries), sorted(probes)
    key = padded([key for _, key in entries])
    group = padded([group for group, _ in entries]) if has_groups else None
    lo = np.array([low for _, low in probes], np.int64)
    hi = np.array([min(low + width, LIMIT.max) for _, low in probes], np.int64) if width >= 0 else lo - (lo > LIMIT.min)
    wanted = (
        lo,
        hi,
        np.array([group for group, _ in probes]) if has_groups else None,
        np.arange(len(lo), dtype=np.int32),
    )
    index, top = levels(key, len(entries))
    group_index, group_top = (None, None) if group is None else levels(group, len(entries))

    found = []
    for find, indexes in (
        (ranges.merge_ranges, ()),
        (ranges.find_ranges, (index, group_index, top, group_top)),
    ):
        start, end, who = np.empty_like(lo), np.empty_like(lo), np.empty(len(lo), np.int32)
        hits, count = find(key, group, len(entries), *indexes, *wanted, start, end, who)
        found.append((count, start[:hits].tolist(), end[:hits].tolist(), who[:hits].tolist()))
    assert found[0] == found[1]
    assert found[0][0] == sum(
        group == wanted_group and low <= key <= high
        for (wanted_group, low), high in zip(probes, hi.tolist(), strict=True)
        for group, key in entries
    )
