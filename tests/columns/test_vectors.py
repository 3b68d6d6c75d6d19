"""Vectors: exact wherever int64 ends, rounded once where they become floats. Python's integers are the oracle."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn_keys import INT64, KEYS
from watersmeet.columns.vectors import (
    Vector,
    aligned,
    all_valid,
    extent,
    integers,
    pick,
    scalar,
    sizes,
    to_float,
    vector_of,
)
from watersmeet.spec.typing import ValueType

NUMBERS = st.lists(KEYS, max_size=6)
HUGE = st.integers(-(10**38), 10**38)


def array(numbers: list[int]) -> Any:
    fits = all(INT64.min <= number <= INT64.max for number in numbers)
    return np.array(numbers, np.int64 if fits else object)


@pytest.mark.parametrize("sign", ["+", "-", "*"])
@given(a=NUMBERS, b=KEYS | HUGE)
def test_oracle_integers_never_wrap(sign: str, a: list[int], b: int) -> None:
    compute = {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign]
    assert integers(sign, array(a), scalar(b)).tolist() == [compute(each, b) for each in a]
    assert integers(sign, scalar(b), array(a)).tolist() == [compute(b, each) for each in a]


@pytest.mark.parametrize("sign", ["+", "-", "*"])
@given(a=KEYS | HUGE, b=KEYS | HUGE, c=KEYS)
def test_oracle_constants_never_wrap(sign: str, a: int, b: int, c: int) -> None:
    """Integers without dimensions stay so, and unbounded ones stay exact with whatever comes next."""
    compute = {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign]
    first = integers(sign, scalar(a), scalar(b))
    assert first.dtype in (np.int64, object)
    assert integers("-", first, scalar(c)).tolist() == compute(a, b) - c
    assert sizes(first).tolist() == abs(compute(a, b))


def test_int64_is_kept_where_nothing_can_wrap() -> None:
    assert integers("+", np.array([INT64.max - 1]), scalar(1)).dtype == np.int64
    assert integers("+", np.array([INT64.max]), scalar(1)).dtype == object


@given(numbers=NUMBERS)
def test_oracle_sizes_and_extents(numbers: list[int]) -> None:
    assert sizes(array(numbers)).tolist() == [abs(number) for number in numbers]
    assert extent(array(numbers)) == ((min(numbers), max(numbers)) if numbers else (0, 0))


@given(numbers=st.lists(KEYS | HUGE, min_size=1, max_size=5), scale=st.integers(0, 30))
def test_oracle_floats_are_rounded_once(numbers: list[int], scale: int) -> None:
    vector = Vector(ValueType("decimal", 38, scale), array(numbers))
    assert to_float(vector).tolist() == [float(Fraction(number, 10**scale)) for number in numbers]


@given(a=KEYS, b=KEYS, scales=st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_oracle_two_scales_become_one(a: int, b: int, scales: tuple[int, int]) -> None:
    one, other = (Vector(ValueType("decimal", 38, scale), scalar(n)) for n, scale in zip((a, b), scales, strict=True))
    x, y, scale = aligned(one, other)
    assert scale == max(scales)
    assert (int(x), int(y)) == (a * 10 ** (scale - scales[0]), b * 10 ** (scale - scales[1]))


def test_nulls_and_slices_of_columns() -> None:
    vector = vector_of(pa.array([1, None, 3, 4], pa.int16()).slice(1))
    assert vector.valid is not None
    assert vector.valid.tolist() == [False, True, True]
    assert vector.data[1:].tolist() == [3, 4]
    assert vector_of(pa.array([1, 2])).valid is None
    assert vector_of(pa.array([], pa.decimal128(30, 2))).data.tolist() == []
    words = vector_of(pa.array(["a", None, "a"]).dictionary_encode())
    assert words.is_text
    assert words.data.to_pylist() == ["a", None, "a"]


def test_flags_and_choices_of_any_size() -> None:
    flags = np.array([True, False])
    assert all_valid(None, None) is None
    assert all_valid(flags, None) is all_valid(None, flags) is flags
    assert all_valid(flags, np.array([True, True])).tolist() == [True, False]  # type: ignore[union-attr]
    assert pick(flags, 2**70, np.array([1, 2])).tolist() == [2**70, 2]
