"""Evaluates expressions on Arrow columns, batch-wise, with Spark's semantics.

Exact kinds (integers, decimals, dates, timestamps, intervals) are integers with a scale. They are computed in int64
while the operands' ranges show that nothing can overflow, and as unbounded Python integers for the rare batch where
something could, so a comparison is always exact. Floats follow IEEE arithmetic and Spark's order: NaN equals NaN and is
the largest. Truth values follow Kleene's three-valued logic. Division by zero and a cast that does not fit give null.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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
)
from watersmeet.spec.typing import Schemas, ValueType, cast_type, common_type, constant_type, type_of, value_type

__all__ = ["ColumnSource", "Vector", "evaluate", "is_true", "to_float", "vector_of"]

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
ColumnSource = Callable[[Column], pa.Array]
Text = Any  # a pyarrow Array or Scalar: pyarrow ships no types

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
EXACT_IN_DOUBLE: Final = 2**53
EXACT_POWERS_OF_TEN: Final = 22
"""10^22 is the largest power of ten that a double holds exactly."""
INT64_DECIMAL_DIGITS: Final = 18
MICROSECONDS_PER_DAY: Final = 86_400_000_000
EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
INTEGER_LIMITS: Final = {3: 2**7, 5: 2**15, 10: 2**31, 20: 2**63}


@dataclass(frozen=True, slots=True)
class Vector:
    """The values of an expression: ``data`` is an array (an Arrow array for text) or a single value for all rows.

    ``valid`` is False where the value is null; ``None`` means that no value is null.
    """

    type: ValueType
    data: Any
    valid: Bools | None = None

    @property
    def is_text(self) -> bool:
        """True for values that only Arrow computes with."""
        return self.type.kind in ("string", "binary")


def evaluate(expression: Expression, columns: ColumnSource, schemas: Schemas) -> Vector:
    """Return the values of ``expression`` (types already checked) for the rows that ``columns`` gives."""
    match expression:
        case Column():
            return vector_of(columns(expression))
        case Constant():
            return _constant(expression)
        case Negative(operand):
            inner = evaluate(operand, columns, schemas)
            if inner.type.is_exact:
                return Vector(inner.type, _integers("-", _scalar(0), inner.data), inner.valid)
            return Vector(inner.type, -inner.data, inner.valid)
        case Arithmetic(operator, a, b):
            target = type_of(expression, schemas)
            return _arithmetic(operator, evaluate(a, columns, schemas), evaluate(b, columns, schemas), target)
        case Call("abs", (operand,)):
            inner = evaluate(operand, columns, schemas)
            if inner.type.is_exact:
                return Vector(inner.type, _sizes(inner.data), inner.valid)
            return Vector(inner.type, np.abs(inner.data), inner.valid)
        case Call(function, arguments):
            target = type_of(expression, schemas)
            vectors = [evaluate(argument, columns, schemas) for argument in arguments]
            return reduce(lambda a, b: _choose(function, a, b, target), vectors)
        case Cast(operand, target_name):
            return _cast(evaluate(operand, columns, schemas), cast_type(target_name))
        case Compare(operator, a, b):
            return _compare(operator, evaluate(a, columns, schemas), evaluate(b, columns, schemas))
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


BOOLEAN: Final = ValueType("boolean", 1)


def _unknown() -> Vector:
    return Vector(BOOLEAN, np.bool_(False), np.array(False))  # noqa: FBT003


# --- from Arrow -----------------------------------------------------------------------------------------------------


def vector_of(array: pa.Array) -> Vector:
    """Return a column as a vector, without a copy where Arrow's layout already is the one computed with."""
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    kind = value_type(array.type)
    assert kind is not None, "columns that only travel are never evaluated"
    valid = None if array.null_count == 0 else np.asarray(array.is_valid())
    arrow = array.type
    match kind.kind:
        case "null":
            return Vector(kind, np.int64(0), np.zeros(len(array), bool))
        case "string" | "binary":
            return Vector(kind, array, valid)
        case "boolean":
            return Vector(kind, np.asarray(array.fill_null(False) if array.null_count else array), valid)  # noqa: FBT003
        case "date":
            days = _fixed_width(array, np.int32).astype(np.int64) if pa.types.is_date32(arrow) else None
            return Vector(kind, _fixed_width(array, np.int64) // 86_400_000 if days is None else days, valid)
        case "timestamp" | "interval":
            return Vector(kind, _fixed_width(array, np.int64), valid)
        case "decimal":
            return Vector(kind, _decimal_integers(array), valid)
        case "int":
            return Vector(kind, _fixed_width(array, arrow.to_pandas_dtype()).astype(np.int64, copy=False), valid)
        case "double":
            return Vector(kind, _fixed_width(array, np.float64), valid)
    return Vector(kind, _fixed_width(array, arrow.to_pandas_dtype()).astype(np.float32, copy=False), valid)


def _fixed_width(array: pa.Array, dtype: npt.DTypeLike) -> Array:
    """View the value buffer of a fixed-width array."""
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype, count=len(array) + array.offset)[array.offset :]


def _decimal_integers(array: pa.Array) -> Array:
    """Return unscaled decimals: int64 where the type's digits fit, Python integers otherwise."""
    if array.type == pa.uint64():
        raw = _fixed_width(array, np.uint64)
        return raw.view(np.int64) if len(raw) == 0 or raw.max() <= INT64_MAX else raw.astype(object)
    words = array.type.byte_width // 8
    if words == 0:  # decimal32
        return _fixed_width(array, np.int32).astype(np.int64)
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), np.int64)
    table = np.frombuffer(buffer, np.int64, count=(len(array) + array.offset) * words).reshape(-1, words)[
        array.offset :
    ]
    if array.type.precision <= INT64_DECIMAL_DIGITS:
        return np.ascontiguousarray(table[:, 0])
    total = table[:, words - 1].astype(object)
    for word in range(words - 2, -1, -1):
        total = total * 2**64 + np.ascontiguousarray(table[:, word]).view(np.uint64).astype(object)
    return total


def _constant(constant: Constant) -> Vector:
    kind = constant_type(constant)
    match constant.value:
        case None:
            return Vector(kind, np.int64(0), np.array(False))  # noqa: FBT003
        case bool() as flag:
            return Vector(kind, np.bool_(flag))
        case int() as number:
            return Vector(kind, _scalar(number))
        case float() as number:
            return Vector(kind, np.float64(number))
        case Decimal() as number:
            return Vector(kind, _scalar(int(Fraction(number) * 10**kind.scale)))
        case str() as text:
            return Vector(kind, pa.scalar(text))
        case timedelta() as span:
            return Vector(kind, _scalar(span // timedelta(microseconds=1)))
        case datetime() as moment:
            seconds = moment - datetime(1970, 1, 1, tzinfo=moment.tzinfo)
            return Vector(kind, _scalar(seconds // timedelta(microseconds=1)))
        case date() as day:
            return Vector(kind, np.int64(day.toordinal() - EPOCH_DAY))
    raise AssertionError(constant)


def _scalar(number: int) -> Array:
    return np.array(number, np.int64 if INT64_MIN <= number <= INT64_MAX else object)


# --- exact arithmetic -----------------------------------------------------------------------------------------------


def _extent(data: Array) -> tuple[int, int]:
    """Return the smallest and the largest of some integers."""
    data = np.asarray(data)
    return (0, 0) if data.size == 0 else (int(data.min()), int(data.max()))


def _integers(operator: str, a: Array, b: Array) -> Array:
    """Return ``a operator b``, exactly: in int64 when the operands' ranges allow it, else in Python integers."""
    a, b = np.asarray(a), np.asarray(b)
    if object not in (a.dtype, b.dtype):
        (a_low, a_high), (b_low, b_high) = _extent(a), _extent(b)
        match operator:
            case "+":
                ends = (a_low + b_low, a_high + b_high)
            case "-":
                ends = (a_low - b_high, a_high - b_low)
            case _:
                products = (a_low * b_low, a_low * b_high, a_high * b_low, a_high * b_high)
                ends = (min(products), max(products))
        if ends[0] < INT64_MIN or ends[1] > INT64_MAX:
            a, b = a.astype(object), b.astype(object)
    return np.asarray({"+": np.add, "-": np.subtract, "*": np.multiply}[operator](a, b))


def _rescaled(vector: Vector, scale: int) -> Array:
    """Return the integers of an exact vector at a scale that is at least its own."""
    factor = 10 ** (scale - vector.type.scale)
    return vector.data if factor == 1 else _integers("*", vector.data, _scalar(factor))


def _aligned(a: Vector, b: Vector) -> tuple[Array, Array, int]:
    scale = max(a.type.scale, b.type.scale)
    return _rescaled(a, scale), _rescaled(b, scale), scale


def to_float(vector: Vector) -> npt.NDArray[np.float64]:
    """Return a number as float64, rounded once."""
    data = np.asarray(vector.data)
    if not vector.type.is_exact:
        return data.astype(np.float64)
    low, high = _extent(data)
    if vector.type.scale == 0 and data.dtype != object:
        return data.astype(np.float64)
    if data.dtype != object and max(-low, high) <= EXACT_IN_DOUBLE and vector.type.scale <= EXACT_POWERS_OF_TEN:
        return np.asarray(data / 10.0**vector.type.scale, np.float64)
    # True division of Python integers rounds correctly; two roundings in floating point would not.
    return np.asarray(data.astype(object) / 10**vector.type.scale, np.float64)


def _days_to_microseconds(vector: Vector) -> Vector:
    if vector.type.kind != "date":
        return vector
    return Vector(
        ValueType("timestamp", 19, 6), _integers("*", vector.data, _scalar(MICROSECONDS_PER_DAY)), vector.valid
    )


def _arithmetic(operator: str, a: Vector, b: Vector, target: ValueType) -> Vector:
    valid = _all_valid(a.valid, b.valid)
    if "null" in (a.type.kind, b.type.kind):
        return Vector(target, np.int64(0) if target.is_exact else np.float64(0), np.array(False))  # noqa: FBT003
    if target.kind == "date":
        days = [v.data // MICROSECONDS_PER_DAY if v.type.kind == "interval" else v.data for v in (a, b)]
        return Vector(target, _integers(operator, *days), valid)
    a, b = _days_to_microseconds(a), _days_to_microseconds(b)
    if target.kind in ("float", "double"):
        return _float_arithmetic(operator, a, b, target, valid)
    if operator == "*":
        product = _integers("*", a.data, b.data)
        return Vector(ValueType(target.kind, target.digits, a.type.scale + b.type.scale), product, valid)
    if operator == "/":
        return _decimal_quotient(a, b, target, valid)
    x, y, scale = _aligned(a, b)
    result_type = ValueType(target.kind, target.digits, scale)
    if operator == "%":
        x, y = np.broadcast_arrays(np.asarray(x), np.asarray(y))
        nonzero = np.asarray(y != 0, bool)
        divisor = np.where(nonzero, y, 1)
        if object in (x.dtype, divisor.dtype):
            x, divisor = x.astype(object), divisor.astype(object)
            rest = np.asarray(np.abs(x) % np.abs(divisor))
            rest = _pick(x < 0, -rest, rest)
        else:
            rest = np.fmod(x, divisor)
        return Vector(result_type, rest, _all_valid(valid, nonzero))
    return Vector(result_type, _integers(operator, x, y), valid)


def _float_arithmetic(operator: str, a: Vector, b: Vector, target: ValueType, valid: Bools | None) -> Vector:
    dtype = np.float32 if target.kind == "float" else np.float64
    x, y = to_float(a).astype(dtype), to_float(b).astype(dtype)
    with np.errstate(all="ignore"):
        if operator in ("/", "%"):
            nonzero = np.asarray(y != 0, bool)
            result = np.true_divide(x, y) if operator == "/" else np.fmod(x, y)
            return Vector(target, result, valid if nonzero.all() else _all_valid(valid, nonzero))
        return Vector(target, {"+": np.add, "-": np.subtract, "*": np.multiply}[operator](x, y), valid)


def _decimal_quotient(a: Vector, b: Vector, target: ValueType, valid: Bools | None) -> Vector:
    """Divide decimals as Spark does: to the target's scale, halves away from zero."""
    x, y = np.asarray(a.data).astype(object), np.asarray(b.data).astype(object)
    shift = target.scale - a.type.scale + b.type.scale
    x, y = (np.asarray(x * 10**shift), y) if shift >= 0 else (x, np.asarray(y * 10**-shift))
    nonzero = np.asarray(y != 0, bool)
    y = _pick(nonzero, y, 1)
    return Vector(target, _half_up(x, y), _all_valid(valid, nonzero))


def _half_up(x: Array, y: Array) -> Array:
    """Return ``x / y`` rounded to the nearest integer, halves away from zero."""
    if max(abs(end) for data in (x, y) for end in _extent(data)) > INT64_MAX // 4:
        x, y = np.asarray(x).astype(object), np.asarray(y).astype(object)
    size = (2 * np.abs(x) + np.abs(y)) // (2 * np.abs(y))
    return _pick((x < 0) != (y < 0), -size, size)


def _pick(condition: Array, a: Array | int, b: Array | int) -> Array:
    """Return ``a`` where ``condition`` holds, else ``b``; either may be a Python integer of any size."""
    return np.where(condition, np.asarray(a), np.asarray(b))


def _sizes(data: Array) -> Array:
    """Return the absolute values of some integers."""
    data = np.asarray(data)
    return np.asarray(np.abs(data.astype(object) if _extent(data)[0] == INT64_MIN else data))


def _cast(vector: Vector, target: ValueType) -> Vector:
    source, data = vector.type, vector.data
    if source.kind == "null":
        empty: Any = pa.scalar("") if target.kind == "string" else np.int64(0) if target.is_exact else np.float64(0)
        return Vector(target, empty, vector.valid)
    match target.kind:
        case "string":
            return vector
        case "boolean":
            return Vector(target, np.asarray(data != 0, bool), vector.valid)
        case "double" | "float":
            numbers = to_float(
                Vector(ValueType("int", 1), np.asarray(data, np.int64)) if source.kind == "boolean" else vector
            )
            return Vector(target, numbers if target.kind == "double" else _rounded_once(vector, numbers), vector.valid)
        case "timestamp":
            return Vector(target, _days_to_microseconds(vector).data, vector.valid) if source.kind == "date" else vector
        case "date":
            if source.kind == "date":
                return vector
            return Vector(target, np.asarray(data) // (86_400 * 10**source.scale), vector.valid)
    if source.kind == "boolean":
        data, source = np.asarray(data, np.int64), ValueType("int", 1)
    if source.kind in ("float", "double"):
        numbers = np.trunc(to_float(vector))
        fits = np.isfinite(numbers) & (np.abs(numbers) < 2.0**63)
        data, source = np.where(fits, numbers, 0.0).astype(np.int64), ValueType("int", 20)
        vector = Vector(source, data, _all_valid(vector.valid, fits))
    if target.kind == "int":
        whole = np.asarray(data)
        if source.scale:
            size = _sizes(whole) // 10**source.scale
            whole = _pick(whole < 0, -size, size)
        limit = INTEGER_LIMITS[target.digits]
        return _limited(Vector(target, whole, vector.valid), -limit, limit - 1)
    if target.scale >= source.scale:
        scaled = _integers("*", data, _scalar(10 ** (target.scale - source.scale)))
    else:
        scaled = _half_up(np.asarray(data), np.asarray(10 ** (source.scale - target.scale)))
    return _limited(Vector(target, scaled, vector.valid), -(10**target.digits) + 1, 10**target.digits - 1)


def _rounded_once(vector: Vector, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return a vector as float32, given its values as float64: halfway between two floats the exact value decides."""
    with np.errstate(over="ignore"):
        nearest = np.atleast_1d(numbers.astype(np.float32))
    if not vector.type.is_exact or vector.type.kind == "boolean":
        return nearest.reshape(numbers.shape)
    double, exact = np.atleast_1d(numbers), np.atleast_1d(vector.data)
    for direction in (np.float32(-np.inf), np.float32(np.inf)):
        other = np.nextafter(nearest, direction)
        halfway = (nearest.astype(np.float64) + other) / 2 == double
        for row in np.flatnonzero(halfway).tolist():  # so rare that a loop does not matter
            value = Fraction(int(exact[row]), 10**vector.type.scale)
            if value != Fraction(double[row]) and (value > Fraction(double[row])) == (direction > 0):
                nearest[row] = other[row]
    return nearest.reshape(numbers.shape)


def _limited(vector: Vector, low: int, high: int) -> Vector:
    """Make values outside ``[low, high]`` null."""
    smallest, largest = _extent(vector.data)
    if low <= smallest and largest <= high:
        return vector
    fits = np.asarray((vector.data >= low) & (vector.data <= high), bool)
    return Vector(vector.type, vector.data, _all_valid(vector.valid, fits))


# --- comparison and logic -------------------------------------------------------------------------------------------

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
    valid = _all_valid(a.valid, b.valid)
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


def _comparable(a: Vector, b: Vector) -> tuple[Array, Array]:
    """Return the two in the representation in which Spark compares them."""
    common = common_type(a.type, b.type)
    assert common is not None
    if common.kind == "boolean":
        return np.asarray(a.data, bool), np.asarray(b.data, bool)
    if common.kind == "float":
        return np.asarray(a.data), np.asarray(b.data)
    if common.kind == "double":
        return to_float(a), to_float(b)
    if a.type.kind != b.type.kind:
        a, b = _days_to_microseconds(a), _days_to_microseconds(b)
    x, y, _ = _aligned(a, b)
    return np.asarray(x), np.asarray(y)


def _compare_text(operator: CompareOperator, a: Text, b: Text) -> Bools:
    arrays = [_plain_text(side) for side in (a, b)]
    result = _ARROW_COMPARE[operator](*arrays)
    if isinstance(result, pa.Scalar):
        return np.asarray(bool(result.as_py()))
    return np.asarray(result.fill_null(False))  # noqa: FBT003


def _plain_text(side: Text) -> Text:
    """Cast text to the one layout Arrow compares with every other."""
    is_string = value_type(side.type) == ValueType("string")
    return side.cast(pa.large_string() if is_string else pa.large_binary())


def _choose(function: str, a: Vector, b: Vector, target: ValueType) -> Vector:
    """Return the smaller or larger of two vectors; a null gives way to the other value."""
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
        a, b = _days_to_microseconds(a), _days_to_microseconds(b)
    x, y = _comparable(a, b)
    common = common_type(a.type, b.type)
    assert common is not None
    return Vector(ValueType(common.kind, target.digits, max(a.type.scale, b.type.scale)), _pick(take_a, x, y), valid)


def _both(a: Vector, b: Vector) -> Vector:
    """Kleene's AND: false if either is false, else unknown if either is unknown."""
    x, y = a.data, b.data
    if a.valid is None and b.valid is None:
        return Vector(BOOLEAN, x & y)
    known_x = np.True_ if a.valid is None else a.valid
    known_y = np.True_ if b.valid is None else b.valid
    known = (known_x & known_y) | (known_x & ~x) | (known_y & ~y)
    return Vector(BOOLEAN, x & y, np.asarray(known, bool))


def _negation(a: Vector) -> Vector:
    return Vector(BOOLEAN, ~a.data, a.valid)


def _all_valid(a: Bools | None, b: Bools | None) -> Bools | None:
    return b if a is None else a if b is None else a & b
