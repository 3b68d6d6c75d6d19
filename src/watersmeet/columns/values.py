"""Evaluates expressions on Arrow columns, a batch at a time, with Spark's semantics.

Exact kinds (integers, decimals, dates, timestamps, intervals) are integers with a scale. They are computed in int64 if
the operands' ranges show that nothing can overflow, otherwise (which is rare) as unbounded Python integers. So every
comparison is exact. Floats follow IEEE arithmetic and Spark's order: NaN equals NaN and is the largest. Conditions
follow Kleene's three-valued logic. Division by zero and a cast that does not fit give null.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.arrays import Bools
from watersmeet.columns.arithmetic import arithmetic, cast
from watersmeet.columns.vectors import (
    Array,
    Vector,
    aligned,
    all_valid,
    constant_vector,
    days_to_microseconds,
    integers,
    pick,
    scalar,
    sizes,
    to_float,
    vector_of,
)
from watersmeet.spec.expression import (
    And,
    Arithmetic,
    Boolean,
    Call,
    Cast,
    Column,
    Compare,
    CompareOperator,
    Constant,
    Expression,
    IsNull,
    Negative,
    Not,
    Or,
    Same,
)
from watersmeet.spec.typing import Schemas, ValueType, cast_type, common_type, type_of, value_type

__all__ = ["ColumnSource", "evaluate", "is_true"]

ColumnSource = Callable[[Column], pa.Array]
Text = Any  # a pyarrow Array or Scalar: pyarrow ships no types

BOOLEAN: Final = ValueType("boolean", 1)


def evaluate(expression: Expression, columns: ColumnSource, schemas: Schemas) -> Vector:
    """Return the values of ``expression``, whose types have been checked, for the rows of ``columns``."""
    match expression:
        case Column():
            return vector_of(columns(expression))
        case Constant():
            return constant_vector(expression)
        case Negative(operand):
            inner = evaluate(operand, columns, schemas)
            if inner.type.is_exact:
                return Vector(inner.type, integers("-", scalar(0), inner.data), inner.valid)
            return Vector(inner.type, -inner.data, inner.valid)
        case Arithmetic(operator, a, b):
            target = type_of(expression, schemas)
            return arithmetic(operator, evaluate(a, columns, schemas), evaluate(b, columns, schemas), target)
        case Call("abs", (operand,)):
            inner = evaluate(operand, columns, schemas)
            if inner.type.is_exact:
                return Vector(inner.type, sizes(inner.data), inner.valid)
            return Vector(inner.type, np.abs(inner.data), inner.valid)
        case Call(function, arguments):
            target = type_of(expression, schemas)
            vectors = [evaluate(argument, columns, schemas) for argument in arguments]
            return reduce(lambda a, b: _choose(function, a, b, target), vectors)
        case Cast(operand, target_name):
            return cast(evaluate(operand, columns, schemas), cast_type(target_name))
        case Compare(operator, a, b):
            return _compare(operator, evaluate(a, columns, schemas), evaluate(b, columns, schemas))
        case Same(a, b):
            return _same(evaluate(a, columns, schemas), evaluate(b, columns, schemas))
        case Boolean(operand):
            inner = evaluate(operand, columns, schemas)
            return (
                _unknown()
                if inner.type.kind == "null"
                else Vector(inner.type, np.asarray(inner.data, bool), inner.valid)
            )
        case Not(operand):
            inner = evaluate(operand, columns, schemas)
            return Vector(inner.type, ~inner.data, inner.valid)
        case IsNull(operand):
            inner = evaluate(operand, columns, schemas)
            return Vector(BOOLEAN, np.bool_(False) if inner.valid is None else ~inner.valid)  # noqa: FBT003
        case And(terms):
            return reduce(_both, (evaluate(term, columns, schemas) for term in terms))
        case Or(terms):
            return _negation(reduce(_both, (_negation(evaluate(term, columns, schemas)) for term in terms)))
    raise AssertionError(expression)


def is_true(predicate: Expression, columns: ColumnSource, schemas: Schemas, rows: int) -> Bools:
    """Return for each of ``rows`` rows whether ``predicate`` is true (not false, not unknown)."""
    truth = evaluate(predicate, columns, schemas)
    result = truth.data if truth.valid is None else truth.data & truth.valid
    return np.broadcast_to(np.asarray(result, bool), (rows,))


def _unknown() -> Vector:
    return Vector(BOOLEAN, np.bool_(False), np.array(False))  # noqa: FBT003


_NUMPY_COMPARE: Final[dict[CompareOperator, Callable[[Any, Any], Any]]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_ARROW_COMPARE: Final[dict[CompareOperator, Callable[[Any, Any], Any]]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def _compare(operator: CompareOperator, a: Vector, b: Vector) -> Vector:
    if "null" in (a.type.kind, b.type.kind):
        return _unknown()
    valid = all_valid(a.valid, b.valid)
    if a.is_text:
        return Vector(BOOLEAN, _compare_text(operator, a.data, b.data), valid)
    x, y = _comparable(a, b)
    result = _NUMPY_COMPARE[operator](x, y)
    if np.asarray(x).dtype.kind == "f":
        x_nan, y_nan = np.isnan(x), np.isnan(y)
        match operator:
            case "=":
                result = result | (x_nan & y_nan)
            case "!=":
                result = result & ~(x_nan & y_nan)
            case "<":
                result = result | (~x_nan & y_nan)
            case "<=":
                result = result | y_nan
            case ">":
                result = result | (x_nan & ~y_nan)
            case ">=":
                result = result | x_nan
    return Vector(BOOLEAN, np.asarray(result, bool), valid)


def _same(a: Vector, b: Vector) -> Vector:
    """Return where two values are equal or both null; that is never unknown."""
    equal = _compare("=", a, b)
    if equal.valid is None:
        return equal
    known_a = np.True_ if a.valid is None else a.valid
    known_b = np.True_ if b.valid is None else b.valid
    return Vector(BOOLEAN, np.asarray((equal.data & equal.valid) | ~(known_a | known_b), bool))


def _comparable(a: Vector, b: Vector) -> tuple[Array, Array]:
    """Return two vectors in the type in which Spark compares them."""
    common = common_type(a.type, b.type)
    assert common is not None
    if common.kind == "boolean":
        return np.asarray(a.data, bool), np.asarray(b.data, bool)
    if common.kind == "float":
        return np.asarray(a.data), np.asarray(b.data)
    if common.kind == "double":
        return to_float(a), to_float(b)
    if a.type.kind != b.type.kind:
        a, b = days_to_microseconds(a), days_to_microseconds(b)
    x, y, _ = aligned(a, b)
    return np.asarray(x), np.asarray(y)


def _compare_text(operator: CompareOperator, a: Text, b: Text) -> Bools:
    arrays = [_plain_text(side) for side in (a, b)]
    result = _ARROW_COMPARE[operator](*arrays)
    if isinstance(result, pa.Scalar):
        return np.asarray(bool(result.as_py()))
    return np.asarray(result.fill_null(False))  # noqa: FBT003


def _plain_text(side: Text) -> Text:
    """Return text in the layout that Arrow can compare."""
    is_string = value_type(side.type) == ValueType("string")
    return side.cast(pa.large_string() if is_string else pa.large_binary())


def _choose(function: str, a: Vector, b: Vector, target: ValueType) -> Vector:
    """Return the smaller or larger of two vectors; where one is null, the value of the other."""
    if a.type.kind == "null" or b.type.kind == "null":
        return b if a.type.kind == "null" else a
    first = _compare("<=" if function == "least" else ">=", a, b).data
    take_a = first if b.valid is None else first | ~b.valid
    take_a = take_a if a.valid is None else take_a & a.valid
    valid = None if a.valid is None or b.valid is None else a.valid | b.valid
    if a.is_text:
        condition = pa.scalar(bool(take_a)) if np.ndim(take_a) == 0 else pa.array(take_a)
        return Vector(target, pc.if_else(condition, _plain_text(a.data), _plain_text(b.data)), valid)
    if a.type.kind != b.type.kind:
        a, b = days_to_microseconds(a), days_to_microseconds(b)
    x, y = _comparable(a, b)
    common = common_type(a.type, b.type)
    assert common is not None
    return Vector(ValueType(common.kind, target.digits, max(a.type.scale, b.type.scale)), pick(take_a, x, y), valid)


def _both(a: Vector, b: Vector) -> Vector:
    """Return Kleene's AND: false if either is false, otherwise unknown if either is unknown."""
    x, y = a.data, b.data
    if a.valid is None and b.valid is None:
        return Vector(BOOLEAN, x & y)
    known_x = np.True_ if a.valid is None else a.valid
    known_y = np.True_ if b.valid is None else b.valid
    known = (known_x & known_y) | (known_x & ~x) | (known_y & ~y)
    return Vector(BOOLEAN, x & y, np.asarray(known, bool))


def _negation(a: Vector) -> Vector:
    return Vector(BOOLEAN, ~a.data, a.valid)
