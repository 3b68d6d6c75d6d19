"""Bands over floats lost pairs where rounding decides.

Two bounds that exclude each other on paper were intersected to nothing, but far from zero, and for infinities and
NaN, both hold; and beside the largest float the slack of the bounds became infinite, so that a bound became NaN.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm
from strategies import STRUCTURES

LARGEST = 1.7976931348623157e308


def matches(on: str, left: list[float], right: list[float], structure: str) -> list[tuple[float, float]]:
    schema = pa.schema([("x", pa.float64())])
    join = wm.StreamJoin(left=schema, right=schema, on=on, window=wm.count_window(9), structure=structure)
    assert join.push(right=pa.table({"x": right}, schema=schema)).num_rows == 0
    pairs = join.push(left=pa.table({"x": left}, schema=schema))
    return sorted(zip(pairs["left_x"].to_pylist(), pairs["right_x"].to_pylist(), strict=True))


@pytest.mark.parametrize("structure", STRUCTURES)
def test_bounds_that_exclude_each_other_on_paper(structure: str) -> None:
    on = "left.x >= right.x AND left.x <= right.x - 1"
    inf = float("inf")
    assert matches(on, [1.0, 1e300, inf], [1.0, 1e300, inf], structure) == [(1e300, 1e300), (inf, inf)]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_sum_beyond_the_largest_float(structure: str) -> None:
    on = "left.x + 9.9792015476736e+291D = right.x"
    assert matches(on, [LARGEST], [float("inf"), 0.0], structure) == [(LARGEST, float("inf"))]
