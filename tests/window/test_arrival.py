"""The order of arrival: what came before each row, against rows sorted one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drawn_keys import INT64
from watersmeet.window.arrival import Moments, count_arrivals

MOMENT = st.none() | st.integers(-2, 2) | st.sampled_from([int(INT64.min), int(INT64.max)])
ROWS = st.lists(st.lists(MOMENT, max_size=6), min_size=2, max_size=4)
NAMES = ("left", "right", "third", "fourth")


def expected(rows: list[list[int | None]], first: dict[str, int]) -> dict[str, dict[str, list[int]]]:
    """Let the rows come one by one: by moment, those without one first, then stream by stream, then as given."""
    order = sorted(
        ((moment is not None, moment or 0), number, at)
        for number, moments in enumerate(rows)
        for at, moment in enumerate(moments)
    )
    names = NAMES[: len(rows)]
    seen = dict(first)
    found = {name: {other: [0] * len(own) for other in names} for name, own in zip(names, rows, strict=True)}
    for _, number, at in order:
        for other in names:
            found[names[number]][other][at] = seen[other]
        seen[names[number]] += 1
    return found


@given(rows=ROWS, start=st.sampled_from([0, 7]))
@example(rows=[[None, int(INT64.min)], [int(INT64.min), None]], start=0)
@example(rows=[[], []], start=0)
def test_oracle_rows_in_the_order_of_their_moments(rows: list[list[int | None]], start: int) -> None:
    names = NAMES[: len(rows)]
    first = {name: start + number for number, name in enumerate(names)}
    sizes = {name: len(own) for name, own in zip(names, rows, strict=True)}
    moments: dict[str, Moments] = {}
    for name, own in zip(names, rows, strict=True):
        known = np.array([moment is not None for moment in own], bool)
        keys = np.array([moment or 0 for moment in own], np.int64)
        moments[name] = keys, None if known.all() else known
    counts = count_arrivals(sizes, moments, first)
    found = {name: {other: seen.tolist() for other, seen in own.items()} for name, own in counts.items()}
    assert found == expected(rows, first)


@pytest.mark.parametrize("sizes", [(0, 0), (1, 0), (3, 2), (2, 0, 3)])
def test_oracle_without_moments_one_stream_comes_after_the_other(sizes: tuple[int, ...]) -> None:
    names = NAMES[: len(sizes)]
    first = {name: 5 * number for number, name in enumerate(names)}
    counts = count_arrivals(dict(zip(names, sizes, strict=True)), None, first)
    found = {name: {other: seen.tolist() for other, seen in own.items()} for name, own in counts.items()}
    assert found == expected([[0] * size for size in sizes], first)
