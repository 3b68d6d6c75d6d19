"""The edge of a window in a sorted array, against a look at every row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.kernels.edge import count_flags_before, count_inside, first_flags, move_edge, positions_of

SIZES = st.sampled_from([1, 63, 64, 65, 500, 4096, 4097, 20_000])


def array_of(size: int, seed: int, first: int = 5) -> tuple[Int32s, Int64s, Int32s]:
    """Return the rows of a sorted array, their places in the order of the rows, and where the rows stand."""
    random = np.random.default_rng(seed)
    row = (first + random.permutation(size)).astype(np.int32)
    place = np.sort(random.integers(-size, size, size))
    position = np.empty(size, np.int32)
    positions_of(row, first, position)
    return row, place, position


def set_flags(flags: Int64s, size: int) -> Bools:
    return np.unpackbits(flags.view(np.uint8), bitorder="little")[:size].astype(bool)


@given(size=SIZES, seed=st.integers(0, 99), dropped=st.integers(0, 40), bounds=st.lists(st.integers(-30, 30)))
@example(size=500, seed=1, dropped=7, bounds=[-500, 500, -500])
def test_oracle_flags_follow_the_edge_in_both_directions(size: int, seed: int, dropped: int, bounds: list[int]) -> None:
    """Rows that were dropped never come back, and their places are not read."""
    dropped = min(dropped, size)
    row, place, position = array_of(size, seed)
    own = place[row - 5]
    flags = first_flags(row, 5 + dropped)
    assert set_flags(flags, size).tolist() == (row >= 5 + dropped).tolist()
    begun, known = dropped, place.copy()
    known[:dropped] = np.iinfo(np.int64).max  # as in memory that was freed
    for bound in bounds:
        begun = move_edge(position, known, dropped, begun, bound, flags)
        assert set_flags(flags, size).tolist() == ((row >= 5 + dropped) & (own >= bound)).tolist()


@pytest.mark.parametrize("size", [1, 64, 4095, 4096, 300_000])
@pytest.mark.parametrize("but", [False, True])
def test_oracle_rows_inside_are_counted(size: int, but: bool) -> None:
    row, place, position = array_of(size, seed=size)
    random = np.random.default_rng(size)
    batch = 60
    bound = random.integers(-size, size + 1, batch)
    who = random.permutation(batch)[: batch - 9]
    start = random.integers(0, size + 1, len(who))
    end = random.integers(start, size + 1)
    flags = first_flags(row, 0)
    begun = move_edge(position, place, 0, 0, int(bound.min()), flags)
    range_of = np.full(batch, -1, np.int32)
    range_of[who] = np.arange(len(who))
    counts = np.empty(len(who), np.int64)
    moving = begun, flags, *count_flags_before(flags)
    total = count_inside(position, place, *moving, np.argsort(bound), bound, range_of, start, end, but, counts)
    own = place[row - 5]
    inside = [own >= bound[w] for w in who]
    expected = [int(some[a:b].sum()) for some, a, b in zip(inside, start, end, strict=True)]
    if but:
        expected = [int(some.sum()) - count for some, count in zip(inside, expected, strict=True)]
    assert counts.tolist() == expected
    assert total == sum(expected)
