"""Constants whose sum lies between 2^63 and 2^64 were computed with as floats.

NumPy makes a Python integer of an unbounded one without dimensions, and of that, where it fits, an unsigned number of
64 bits; together with a signed one it became a float, and negated it lost its sign.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import oracle
from watersmeet.columns.values import is_true
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.typing import type_of

SCHEMA = pa.schema([("x", pa.int64())])
SCHEMAS = {"left": SCHEMA, "right": SCHEMA}
COLUMN = pa.array([10, 11, 9223372036854775807])


@pytest.mark.parametrize(
    "text",
    [
        "(9223372036854775807 + 10) - 9223372036854775807 = 10",
        "9223372036854775807 + 2 - 1025 = 9223372036854774785",
        "ABS(-9223372036854775808) - 1025 = 9223372036854774784",
        "CAST(-922337203685477580.8 AS BIGINT) = -922337203685477580",
        "-(9223372036854775807 + 10) % 9223372036854775807 = -10",
        "(9223372036854775807 + 10) - left.x = 10",
        "LEAST(9223372036854775807 + 10, left.x) = left.x",
    ],
)
def test_constants_are_exact(text: str) -> None:
    predicate = parse_predicate(text)
    type_of(predicate, SCHEMAS)
    evaluator = oracle.Evaluator(SCHEMAS)
    expected = [evaluator.value(predicate, row) is True for row in oracle.rows_of("left", pa.table({"x": COLUMN}))]
    assert is_true(predicate, lambda _: COLUMN, SCHEMAS, len(COLUMN)).tolist() == expected
