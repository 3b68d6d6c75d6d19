"""The functions a user writes predicates with. All take the left stream's column first, then the right's."""

from __future__ import annotations

import math
from datetime import timedelta
from decimal import Decimal

from watersmeet.spec.durations import parse_duration
from watersmeet.spec.errors import SpecificationError, explain_refusal
from watersmeet.spec.expression import Arithmetic, Column, Compare, CompareOperator, Constant, Predicate, conjunction

__all__ = ["Width", "band", "equal", "greater", "greater_equal", "less", "less_equal", "not_equal"]

Width = int | float | Decimal | timedelta | str
"""How far a band reaches: a number, or for timestamps a ``timedelta`` or interval text such as ``"10 seconds"``."""


def equal(left: str, right: str | None = None) -> Predicate:
    """``left = right``; one name stands for the same column on both sides."""
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
            explain_refusal(
                f"band({left!r}, {right!r}) was given width={width!r}, below={below!r}, above={above!r}",
                "either width, or both below and above",
                f"write band({left!r}, {right!r}, 500) or band({left!r}, {right!r}, below=0, above=500); "
                "for a band open on one side use less_equal or greater_equal",
            )
        )
    x, y = Column("left", left), Column("right", right)
    return conjunction(
        Compare(">=", x, Arithmetic("-", y, _reach(below))), Compare("<=", x, Arithmetic("+", y, _reach(above)))
    )


def _compare(operator: CompareOperator, left: str, right: str | None) -> Predicate:
    return Compare(operator, Column("left", left), Column("right", left if right is None else right))


def _reach(width: Width) -> Constant:
    """Return a band's reach as a constant."""
    match width:
        case bool():
            pass
        case int():
            return Constant(width, "int")
        case float() if math.isfinite(width):
            return Constant(width, "double")
        case Decimal() if width.is_finite():
            return Constant(width, "decimal")
        case timedelta():
            return Constant(width, "interval")
        case str():
            return Constant(parse_duration(width), "interval")
    raise SpecificationError(
        explain_refusal(
            f"a band of width {width!r}",
            'a finite int, float or Decimal; for timestamps a timedelta or interval text such as "10 seconds"',
            "give the distance between the two columns that still counts as a match",
        )
    )
