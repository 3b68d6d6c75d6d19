"""A pair was returned twice by ``<>`` when the probing key was the largest or smallest int64.

The bound ``key + 1`` was computed first and checked for having wrapped around afterwards; LLVM takes it that signed
sums never wrap and removed the check, so the empty range beyond the last int64 became the range of all keys (and in a
RaP-Table a walk past its last partition).
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm
from strategies import STRUCTURES


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("probing", [2**63 - 1, -(2**63)])
def test_not_equal_at_the_ends_of_int64(structure: str, probing: int) -> None:
    schema = pa.schema([("x", pa.int64())])
    join = wm.StreamJoin(
        left=schema, right=schema, on=wm.not_equal("x"), window=wm.count_window(9), structure=structure
    )
    join.push(right=pa.table({"x": [0, probing]}, schema=schema))
    assert join.push(left=pa.table({"x": [probing]}, schema=schema))["right_x"].to_pylist() == [0]


def test_bound_just_beyond_int64() -> None:
    """The neighbour of the offset 2^63 - 1 did not fit into the kernel's int64."""
    schema = pa.schema([("x", pa.int64())])
    on = "left.x > right.x + 9223372036854775807"
    join = wm.StreamJoin(left=schema, right=schema, on=on, window=wm.count_window(9))
    pairs = join.push(
        left=pa.table({"x": [0, 2**63 - 1]}, schema=schema), right=pa.table({"x": [0, -1, -(2**63)]}, schema=schema)
    )
    found = sorted(zip(pairs["left_x"].to_pylist(), pairs["right_x"].to_pylist(), strict=True))
    assert found == [(0, -(2**63)), (2**63 - 1, -(2**63)), (2**63 - 1, -1)]
