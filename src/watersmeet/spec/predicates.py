"""The functions with which users write predicates. All take the left stream's column first, then the right's."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from watersmeet.spec.durations import parse_duration
from watersmeet.spec.errors import SpecificationError
from watersmeet.spec.expression import Arithmetic, Column, Compare, CompareOperator, Constant, Predicate, conjunction
from watersmeet.spec.typing import MAX_LITERAL_DIGITS

__all__ = ["Width", "band", "equal", "greater", "greater_equal", "less", "less_equal", "not_equal"]

Width = int | float | Decimal | timedelta | str
"""How far a band reaches: a number, or for timestamps a ``timedelta`` or interval text such as ``"10 seconds"``."""


def equal(left: str, right: str | None = None) -> Predicate:
    """``left = right``; one name stands for a column of that name on both sides."""
    return _compare("=", left, right)


def not_equal(left: str, right: str | None = None) -> Predicate:
    """``left <> right``."""
    return _compare("!=", left, right)


def less(left: str, right: str | None = None) -> Predicate:
    """``left < right``."""
    return _compare("<", left, right)


def less_equal(left: str, right: str | None = None) -> Predicate:
    """``left <= right``."""
    return _compare("<=", left, right)


def greater(left: str, right: str | None = None) -> Predicate:
    """``left > right``."""
    return _compare(">", left, right)


def greater_equal(left: str, right: str | None = None) -> Predicate:
    """``left >= right``."""
    return _compare(">=", left, right)


def band(
    left: str, right: str, width: Width | None = None, *, below: Width | None = None, above: Width | None = None
) -> Predicate:
    """``left BETWEEN right - below AND right + above``; both ends belong to the band.

    Parameters
    ----------
    left, right
        Column names.
    width
        Stands for both ``below`` and ``above``.
    below, above
        How far ``left`` may lie below and above ``right``; both are needed when ``width`` is not given.

    Examples
    --------
    >>> print(band("price", "bid", 500))
    left.price >= (right.bid - 500) AND left.price <= (right.bid + 500)
    """
    if width is not None and below is None and above is None:
        below = above = width
    elif width is not None or below is None or above is None:
        raise SpecificationError(
            f"band({left!r}, {right!r}) was given width={width!r}, below={below!r}, above={above!r}",
            "either width, or both below and above",
            f"write band({left!r}, {right!r}, 500) or band({left!r}, {right!r}, below=0, above=500); "
            "for a band open on one side use less_equal or greater_equal",
        )
    x, y = _columns(left, right)
    lower, upper = _reach(below), _reach(above)
    if _is_empty(lower, upper):
        raise SpecificationError(
            f"band({left!r}, {right!r}) reaches {below} below and {above} above: nothing lies between its ends",
            "a width of 0 or more, or below and above whose sum is",
            f"give the distance that still counts as a match, for example band({left!r}, {right!r}, 5)",
        )
    return conjunction(Compare(">=", x, Arithmetic("-", y, lower)), Compare("<=", x, Arithmetic("+", y, upper)))


def _compare(operator: CompareOperator, left: str, right: str | None) -> Predicate:
    return Compare(operator, *_columns(left, left if right is None else right))


def _columns(left: object, right: object) -> tuple[Column, Column]:
    for given in (left, right):
        if not isinstance(given, str) or not given:
            raise SpecificationError(
                f"{given!r} where the name of a column belongs",
                "names of columns, as text: the left stream's, then the right's",
                'write for example equal("symbol"); to compare with a constant write Spark SQL text, "left.x = 5"',
            )
    return Column("left", str(left)), Column("right", str(right))


def _is_empty(lower: Constant, upper: Constant) -> bool:
    """Tell whether a band's lower end lies above its upper end."""
    a, b = lower.value, upper.value
    if isinstance(a, timedelta) and isinstance(b, timedelta):
        return a < -b
    if isinstance(a, int | float | Decimal) and isinstance(b, int | float | Decimal):
        return Fraction(a) + Fraction(b) < 0
    return False  # a number and a duration: the check of types refuses them


def _reach(width: Width) -> Constant:
    """Return one end of a band as a constant."""
    match width:
        case bool():
            pass
        case int() if abs(width) < 10**MAX_LITERAL_DIGITS:
            return Constant(width, "int")
        case float() if math.isfinite(width):
            return Constant(width, "double")
        case Decimal() if width.is_finite() and _fits(width):
            return Constant(width, "decimal")
        case timedelta():
            return Constant(width, "interval")
        case str() if not _is_number(width):
            return Constant(parse_duration(width), "interval")
    raise SpecificationError(
        f"a band of width {width!r}",
        f"a finite int, float or Decimal of at most {MAX_LITERAL_DIGITS} digits; "
        'for timestamps a timedelta or interval text such as "10 seconds"',
        "give the distance between the two columns that still counts as a match, a number without quotes",
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _fits(width: Decimal) -> bool:
    """Tell whether a predicate may contain this number."""
    _, digits, exponent = width.as_tuple()
    assert isinstance(exponent, int), "the number is finite"
    return max(len(digits) + max(exponent, 0), -exponent) <= MAX_LITERAL_DIGITS
