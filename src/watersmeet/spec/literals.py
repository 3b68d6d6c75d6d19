"""Operations on constants that are computed while SQL text is read: signs, sums of intervals, casts.

A cast of a constant becomes a constant if its outcome follows from the text alone. All other casts stay in the
predicate and are evaluated with the rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Final

from watersmeet.spec.expression import Arithmetic, Constant, Expression, Negative
from watersmeet.spec.typing import MAX_LITERAL_DIGITS

__all__ = ["cast_constant", "fold_intervals", "negate"]

DATE_TEXT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
TIMESTAMP_TEXT: Final = re.compile(
    DATE_TEXT.pattern + r"([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
INTEGER_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def negate(operand: Expression) -> Expression:
    """Return ``-operand``. For a constant that is a constant: ``-5`` is a literal, not an operation."""
    if isinstance(operand, Constant) and isinstance(operand.value, Decimal):
        return Constant(operand.value.copy_negate(), operand.kind)  # a minus sign would round it to 28 digits
    if isinstance(operand, Constant) and isinstance(operand.value, int | float | timedelta):
        return Constant(-operand.value, operand.kind)
    return Negative(operand)


def fold_intervals(operation: Arithmetic) -> Expression:
    """Return the sum of two intervals (how ``INTERVAL 1 HOUR 30 MINUTES`` is parsed) as one interval."""
    left, right = operation.left, operation.right
    if isinstance(left, Constant) and isinstance(right, Constant) and left.kind == right.kind == "interval":
        assert isinstance(left.value, timedelta)
        assert isinstance(right.value, timedelta)
        if operation.operator == "+":
            return Constant(left.value + right.value, "interval")
        if operation.operator == "-":
            return Constant(left.value - right.value, "interval")
    return operation


def cast_constant(constant: Constant, target: str) -> Constant | None:
    """Return ``constant`` cast to ``target``, or None when the cast is left to the evaluator."""
    value = constant.value
    folds: dict[tuple[str, str], Callable[[], Constant]] = {
        ("string", "date"): lambda: Constant(_date(str(value)), "date"),
        ("string", "timestamp"): lambda: Constant(_utc(str(value)), "timestamp"),
        ("string", "timestamp_ntz"): lambda: Constant(_utc(str(value)), "timestamp"),
    }
    if constant.kind == "int" and target in INTEGER_BITS and isinstance(value, int):
        limit = 1 << (INTEGER_BITS[target] - 1)
        return constant if -limit <= value < limit else None
    if (constant.kind, target) in folds:
        return folds[constant.kind, target]()
    if target == "double" and constant.kind in ("int", "decimal", "double", "string"):
        double = float(str(value))
        if not math.isfinite(double):
            message = f"{value} is not a finite number"
            raise ValueError(message)
        return Constant(double, "double")
    if target.startswith("decimal") and constant.kind in ("int", "decimal", "string"):
        number = Decimal(str(value))
        if not number.is_finite():
            message = f"{value} is not a finite number"
            raise ValueError(message)
        if abs(number.adjusted()) > MAX_LITERAL_DIGITS:  # a string such as 9e999999: no use in writing it out
            return None
        precision, scale = (int(part) for part in target[len("decimal(") : -1].split(","))
        scaled = Fraction(number) * 10**scale
        if scaled.denominator == 1 and abs(scaled) < 10**precision:  # else it has to be rounded, or is null
            return Constant(Decimal((int(scaled < 0), tuple(map(int, str(abs(int(scaled))))), -scale)), "decimal")
    return None


def _date(text: str) -> date:
    """Return the day that ``text`` names, in the form of ISO 8601 that Spark reads as well."""
    if DATE_TEXT.fullmatch(text) is None:
        message = f"{text!r} is not of the form yyyy-mm-dd"
        raise ValueError(message)
    return date.fromisoformat(text)


def _utc(text: str) -> datetime:
    """Return the moment that ``text`` names; without a zone it is in UTC."""
    if TIMESTAMP_TEXT.fullmatch(text) is None:
        message = f"{text!r} is not of the form yyyy-mm-dd hh:mm:ss"
        raise ValueError(message)
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
