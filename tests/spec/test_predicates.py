"""The functions that predicates are written with."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

import watersmeet as wm
from watersmeet.spec import expression as ex

A, B = ex.Column("left", "a"), ex.Column("right", "b")


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (wm.equal, "="),
        (wm.not_equal, "!="),
        (wm.less, "<"),
        (wm.less_equal, "<="),
        (wm.greater, ">"),
        (wm.greater_equal, ">="),
    ],
)
def test_comparisons_take_left_then_right(function: Any, operator: str) -> None:
    assert function("a", "b") == ex.Compare(operator, A, B)  # type: ignore[arg-type]
    assert function("a") == ex.Compare(operator, A, ex.Column("right", "a"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("width", "kind", "value"),
    [
        (5, "int", 5),
        (0.5, "double", 0.5),
        (Decimal("0.5"), "decimal", Decimal("0.5")),
        (timedelta(seconds=1), "interval", timedelta(seconds=1)),
        ("1 second", "interval", timedelta(seconds=1)),
    ],
)
def test_band_width(width: Any, kind: Any, value: Any) -> None:
    reach = ex.Constant(value, kind)
    expected = ex.And(
        (ex.Compare(">=", A, ex.Arithmetic("-", B, reach)), ex.Compare("<=", A, ex.Arithmetic("+", B, reach)))
    )
    assert wm.band("a", "b", width) == expected == wm.band("a", "b", below=width, above=width)


def test_band_below_and_above_differ() -> None:
    assert str(wm.band("a", "b", below=0, above=7)) == "left.a >= (right.b - 0) AND left.a <= (right.b + 7)"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"below": 1},
        {"above": 1},
        {"width": 1, "above": 1},
        {"width": 1, "below": 1, "above": 1},
        {"width": float("nan")},
        {"width": float("inf")},
        {"width": Decimal("NaN")},
        {"width": True},
        {"width": "5"},
        {"width": "1 month"},
        {"width": [1]},
    ],
    ids=str,
)
def test_band_refused(options: dict[str, Any]) -> None:
    with pytest.raises(wm.SpecificationError) as caught:
        wm.band("a", "b", **options)
    assert "allowed:" in str(caught.value)
    assert "next step:" in str(caught.value)


def test_combinations_are_flat_and_hashable() -> None:
    a, b, c = wm.equal("a"), wm.less("b"), wm.greater("c")
    assert (a & b) & c == a & (b & c) == ex.And((a, b, c))
    assert (a | b) | c == a | (b | c) == ex.Or((a, b, c))
    assert ~a == ex.Not(a)
    assert len({a & b, a & b, b & a}) == 2
    assert str((a | b) & c) == "(left.a = right.a OR left.b < right.b) AND left.c > right.c"


@pytest.mark.parametrize("other", [True, 1, "left.a = right.a", None])
def test_only_predicates_combine(other: Any) -> None:
    with pytest.raises(TypeError):
        wm.equal("a") & other
    with pytest.raises(TypeError):
        wm.equal("a") | other


def test_constants_of_different_kinds_differ() -> None:
    assert ex.Constant(1, "int") != ex.Constant(True, "boolean")
    assert ex.Constant(1, "int") != ex.Constant(1.0, "double")
