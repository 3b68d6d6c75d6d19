"""Arithmetic and casts on vectors, against fractions: Spark's rounding, and null for what has no value."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drawn_keys import KEYS
from watersmeet.columns.arithmetic import arithmetic, cast
from watersmeet.columns.vectors import Vector, scalar
from watersmeet.spec.typing import CAST_TYPES, DOUBLE, ValueType

INT = ValueType("int", 20)
SCALES = st.integers(0, 6)


def decimal(number: int, scale: int) -> Vector:
    return Vector(ValueType("decimal", 38, scale), scalar(number))


def value_of(vector: Vector) -> Fraction | None:
    """Return the one value of an exact vector; None where it is null."""
    if vector.valid is not None and not bool(np.all(vector.valid)):
        return None
    return Fraction(int(np.asarray(vector.data)), 10**vector.type.scale)


@given(a=KEYS, b=KEYS, scales=st.tuples(SCALES, SCALES))
@example(a=-(2**63), b=-1, scales=(0, 0))
@example(a=7, b=0, scales=(2, 0))
def test_oracle_sums_products_and_remainders(a: int, b: int, scales: tuple[int, int]) -> None:
    x, y = Fraction(a, 10 ** scales[0]), Fraction(b, 10 ** scales[1])
    target = ValueType("decimal", 38, max(scales))
    found = {sign: value_of(arithmetic(sign, decimal(a, scales[0]), decimal(b, scales[1]), target)) for sign in "+-*%"}
    rest = None if y == 0 else abs(x) % abs(y) * (-1 if x < 0 else 1)
    assert found == {"+": x + y, "-": x - y, "*": x * y, "%": rest}


@given(a=KEYS, b=KEYS, scales=st.tuples(SCALES, SCALES, SCALES))
@example(a=5, b=2, scales=(0, 0, 0))
@example(a=-5, b=2, scales=(0, 0, 0))
@example(a=1, b=0, scales=(0, 0, 0))
def test_oracle_quotients_round_halves_away_from_zero(a: int, b: int, scales: tuple[int, int, int]) -> None:
    found = value_of(arithmetic("/", decimal(a, scales[0]), decimal(b, scales[1]), ValueType("decimal", 38, scales[2])))
    if b == 0:
        assert found is None
        return
    exact = Fraction(a, 10 ** scales[0]) / Fraction(b, 10 ** scales[1]) * 10 ** scales[2]
    whole = int(abs(exact) + Fraction(1, 2)) * (-1 if exact < 0 else 1)
    assert found == Fraction(whole, 10 ** scales[2])


@pytest.mark.parametrize("sign", ["/", "%"])
def test_floats_divided_by_zero_are_null(sign: str) -> None:
    found = arithmetic(sign, Vector(DOUBLE, np.array([1.0, 5.0])), Vector(DOUBLE, np.array([0.0, 2.0])), DOUBLE)
    assert found.valid is not None
    assert found.valid.tolist() == [False, True]
    assert found.data[1] == {"/": 2.5, "%": 1.0}[sign]


@pytest.mark.parametrize("target", ["tinyint", "smallint", "int", "bigint"])
@given(number=KEYS, scale=SCALES)
@example(number=127, scale=0)
@example(number=-1285, scale=1)
def test_oracle_casts_to_integers_cut_towards_zero_and_fit(target: str, number: int, scale: int) -> None:
    kind = CAST_TYPES[target]
    limit = {"tinyint": 2**7, "smallint": 2**15, "int": 2**31, "bigint": 2**63}[target]
    whole = abs(number) // 10**scale * (-1 if number < 0 else 1)
    assert value_of(cast(decimal(number, scale), kind)) == (whole if -limit <= whole < limit else None)


@given(number=st.integers(-(10**12), 10**12), scales=st.tuples(SCALES, SCALES), digits=st.integers(7, 12))
def test_oracle_casts_to_decimals_round_half_up_and_fit(number: int, scales: tuple[int, int], digits: int) -> None:
    wide = Context(prec=60, rounding=ROUND_HALF_UP)
    rounded = Decimal(number).scaleb(-scales[0], wide).quantize(Decimal(1).scaleb(-scales[1]), context=wide)
    fits = abs(rounded.scaleb(scales[1], wide)) < 10**digits
    found = value_of(cast(decimal(number, scales[0]), ValueType("decimal", digits, scales[1])))
    assert found == (Fraction(rounded) if fits else None)


@pytest.mark.parametrize(
    ("number", "whole"), [(2.9, 2), (-2.9, -2), (float("nan"), None), (float("inf"), None), (2.0**63, None), (-0.0, 0)]
)
def test_casts_of_floats(number: float, whole: int | None) -> None:
    assert value_of(cast(Vector(DOUBLE, np.float64(number)), INT)) == whole


@pytest.mark.parametrize("target", ["boolean", "double", "string", "bigint"])
def test_a_null_stays_one(target: str) -> None:
    none: Any = Vector(ValueType("null"), np.int64(0), np.array(False))
    assert cast(none, CAST_TYPES[target]).valid is none.valid


def test_a_double_is_not_rounded_twice_on_its_way_to_float() -> None:
    # 2^60 + 2^36 + 1 as a double lies halfway between two floats, and just above that in truth.
    number = 2**60 + 2**36 + 1
    assert cast(Vector(INT, np.array([number])), CAST_TYPES["float"]).data.tolist() == [2.0**60 + 2.0**37]
