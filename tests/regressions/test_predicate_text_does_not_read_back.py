"""Snapshots keep the predicate as text, and some predicates read back as another or not at all.

A column named like a keyword was printed without quotes; a decimal with an exponent or without a point read back as a
double or an integer; a minus sign rounded a long decimal to 28 digits.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.spec import expression as ex
from watersmeet.spec.sql import parse_predicate


@pytest.mark.parametrize("name", ["select", "FROM", "case", "été"])
def test_join_on_a_keyword_can_be_restored(name: str) -> None:
    schema = pa.schema([(name, pa.int64())])
    join = wm.StreamJoin(left=schema, right=schema, on=wm.equal(name), window=wm.count_window(5))
    restored = wm.StreamJoin.restore(join.snapshot())
    table = pa.table({name: [1]}, schema=schema)
    assert restored.push(left=table, right=table).num_rows == 1


@pytest.mark.parametrize("width", [Decimal("1E+3"), Decimal(5), Decimal("0.50"), Decimal("1E-7")])
def test_decimal_stays_a_decimal(width: Decimal) -> None:
    predicate = wm.band("x", "y", width)
    again = parse_predicate(str(predicate))
    assert again == predicate
    assert isinstance(again, ex.And)


def test_long_negative_decimal_is_not_rounded() -> None:
    digits = "-12345678901234567890123456789012345.678"
    (_, constant) = parse_predicate(f"left.x = {digits}").children()
    assert constant == ex.Constant(Decimal(digits), "decimal")
    schema = pa.schema([("x", pa.decimal128(38, 3))])
    join = wm.StreamJoin(
        left=schema, right=schema, on=f"left.x = right.x AND left.x = {digits}", window=wm.count_window(5)
    )
    table = pa.table({"x": [Decimal(digits)]}, schema=schema)
    assert join.push(left=table, right=table).num_rows == 1
