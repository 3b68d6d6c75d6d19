"""Expressions that the evaluator got wrong, or failed on, where a test of columns alone would not notice.

``LEAST`` of two texts that are constants gave one value instead of one for every row; ``LEAST`` of a date and a
timestamp of another unit than microseconds took the wrong unit; a cast of a constant beyond 64 bits raised; casts of
constants to integers and decimals ignored the target's size; a quotient of decimals of large scales was computed in
floats; integers and decimals were rounded twice on the way to FLOAT.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.columns.values import is_true
from watersmeet.spec.sql import parse_predicate

COLUMNS = {
    "s": pa.array(["a", "b", "a"]),
    "ms": pa.array([86_400_000] * 3, pa.timestamp("ms")),
    "day": pa.array([date(1970, 1, 2), date(1970, 1, 1), date(1970, 1, 3)]),
    "i": pa.array([2**60 + 2**36 + 1, 2**60 + 2**36, 0]),
    "g": pa.array(np.array([2**60 + 2**37, 2**60, 0], np.float32)),
    "w": pa.array([Decimal(1), Decimal(2), Decimal(10**17)], pa.decimal128(38, 20)),
}
SCHEMA = pa.schema([(name, array.type) for name, array in COLUMNS.items()])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("left.s = LEAST('a', 'b')", [True, False, True]),
        ("LEAST(left.ms, left.day) = left.day", [True, True, False]),
        ("CAST(123456789012345678901234567890.125 AS TINYINT) IS NULL", [True] * 3),
        ("CAST(99999999999 AS INT) IS NULL", [True] * 3),
        ("CAST(12345 AS DECIMAL(3,1)) IS NULL", [True] * 3),
        ("CAST(left.i AS FLOAT) = left.g", [True] * 3),
        ("(left.w * left.w) / 3.0 = 3333333333333333333333333333333333.333333", [False, False, True]),
    ],
)
def test_expression(text: str, expected: list[bool]) -> None:
    schemas = {"left": SCHEMA, "right": SCHEMA}
    assert is_true(parse_predicate(text), lambda column: COLUMNS[column.name], schemas, 3).tolist() == expected
