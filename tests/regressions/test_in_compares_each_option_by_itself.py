"""``IN`` over integers and a double compared each option in a type of its own; Spark casts all of them to one type.

``left.l NOT IN (right.g, 9007199254740992)`` returned a pair that Spark SQL does not, and lost others without ``NOT``.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import oracle
import watersmeet as wm
from watersmeet.spec.sql import parse_predicate

LEFT = pa.table({"id": range(3), "l": [2**53 + 1, 7, None], "f": pa.array([0.1, 5.0, 7.0], pa.float32())})
RIGHT = pa.table({"id": range(3), "g": [5.0, 7.0, None], "r": [2**53, 7, 5]})
BY_SPARK = {  # found by Spark SQL's batch join: how many of the nine pairs
    "left.l IN (right.g, 9007199254740992)": 4,
    "left.l IN (right.r, right.g)": 2,
    "left.l NOT IN (right.g, 9007199254740992)": 1,
    "left.f IN (right.r, right.g)": 3,
    "left.f IN (0.1, right.r)": 2,
    "NOT (left.l IN (right.r, NULL))": 0,
    "(left.l IN (right.r, right.g)) = (left.f IN (right.r, 3))": 2,
}


@pytest.mark.parametrize("on", BY_SPARK)
def test_operands_of_in_have_one_type(on: str) -> None:
    window = wm.count_window(9)
    join = wm.StreamJoin(left=LEFT.schema, right=RIGHT.schema, on=on, window=window)
    pairs = join.push(left=LEFT, right=RIGHT)
    assert pairs.num_rows == BY_SPARK[on]
    predicate = parse_predicate(on)
    assert parse_predicate(str(predicate)) == predicate
    truth = oracle.pairs(predicate, window, {"left": LEFT.schema, "right": RIGHT.schema}, [(LEFT, RIGHT)])
    assert pairs.num_rows == truth.total()
