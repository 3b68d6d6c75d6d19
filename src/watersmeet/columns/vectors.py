"""Vectors: the values of a column, a constant or an expression, in the form in which they are computed with.

Exact kinds (integers, decimals, dates, timestamps, intervals) are integers with a scale: int64 if the values' ranges
show that nothing can overflow, otherwise (which is rare) unbounded Python integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.arrays import Bools, Float64s
from watersmeet.spec.expression import Constant
from watersmeet.spec.typing import ValueType, constant_type, value_type

__all__ = [
    "Array",
    "Vector",
    "aligned",
    "all_valid",
    "as_array",
    "constant_vector",
    "days_to_microseconds",
    "extent",
    "integers",
    "pick",
    "scalar",
    "sizes",
    "to_float",
    "vector_of",
]

Array = npt.NDArray[Any]

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
EXACT_IN_DOUBLE: Final = 2**53
EXACT_POWERS_OF_TEN: Final = 22
"""10^22 is the largest power of ten that a double holds exactly."""
INT64_DECIMAL_DIGITS: Final = 18
MICROSECONDS_PER_DAY: Final = 86_400_000_000
EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Vector:
    """The values of an expression: ``data`` is an array (of Arrow for text), or one value for all rows.

    ``valid`` is False where the value is null, or ``None`` if no value is null.
    """

    type: ValueType
    data: Any
    valid: Bools | None = None

    @property
    def is_text(self) -> bool:
        """True for values that only Arrow computes with."""
        return self.type.kind in ("string", "binary")


def vector_of(array: pa.Array) -> Vector:
    """Return a column as a vector, without a copy if Arrow's layout allows it."""
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
            unscaled = _decimal_integers(array)
            if pa.types.is_decimal(arrow) and arrow.scale < 0:
                unscaled = integers("*", unscaled, scalar(10**-arrow.scale))
            return Vector(kind, unscaled, valid)
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
    """Return unscaled decimals: int64 if the type's digits fit, otherwise Python integers."""
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


def constant_vector(constant: Constant) -> Vector:
    """Return a constant as a vector of one value for all rows."""
    kind = constant_type(constant)
    match constant.value:
        case None:
            return Vector(kind, np.int64(0), np.array(False))  # noqa: FBT003
        case bool() as flag:
            return Vector(kind, np.bool_(flag))
        case int() as number:
            return Vector(kind, scalar(number))
        case float() as number:
            return Vector(kind, np.float64(number))
        case Decimal() as number:
            return Vector(kind, scalar(int(Fraction(number) * 10**kind.scale)))
        case str() as text:
            return Vector(kind, pa.scalar(text))
        case timedelta() as span:
            return Vector(kind, scalar(span // timedelta(microseconds=1)))
        case datetime() as moment:
            seconds = moment - datetime(1970, 1, 1, tzinfo=moment.tzinfo)
            return Vector(kind, scalar(seconds // timedelta(microseconds=1)))
        case date() as day:
            return Vector(kind, np.int64(day.toordinal() - EPOCH_DAY))
    raise AssertionError(constant)


def scalar(number: int) -> Array:
    """Return an integer of any size as a zero-dimensional array."""
    return np.array(number, np.int64 if INT64_MIN <= number <= INT64_MAX else object)


def as_array(result: Array | int) -> Array:
    """Return a result of NumPy's as an array: from zero-dimensional unbounded integers it makes a Python integer."""
    return scalar(result) if isinstance(result, int) else np.asarray(result)


def extent(data: Array) -> tuple[int, int]:
    """Return the smallest and the largest of integers; zeros if there are none."""
    data = np.asarray(data)
    return (0, 0) if data.size == 0 else (int(data.min()), int(data.max()))


def integers(operator: str, a: Array, b: Array) -> Array:
    """Return ``a operator b`` exactly: in int64 if the operands' ranges allow it, otherwise in Python integers."""
    a, b = np.asarray(a), np.asarray(b)
    if object not in (a.dtype, b.dtype):
        (a_low, a_high), (b_low, b_high) = extent(a), extent(b)
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
    return as_array({"+": np.add, "-": np.subtract, "*": np.multiply}[operator](a, b))


def _rescaled(vector: Vector, scale: int) -> Array:
    """Return the integers of an exact vector at a scale that is at least its own."""
    factor = 10 ** (scale - vector.type.scale)
    return vector.data if factor == 1 else integers("*", vector.data, scalar(factor))


def aligned(a: Vector, b: Vector) -> tuple[Array, Array, int]:
    """Return the integers of two exact vectors at their larger scale, and that scale."""
    scale = max(a.type.scale, b.type.scale)
    return _rescaled(a, scale), _rescaled(b, scale), scale


def to_float(vector: Vector) -> Float64s:
    """Return numbers as float64, each rounded once."""
    data = np.asarray(vector.data)
    if not vector.type.is_exact:
        return data.astype(np.float64)
    low, high = extent(data)
    if vector.type.scale == 0 and data.dtype != object:
        return data.astype(np.float64)
    if data.dtype != object and max(-low, high) <= EXACT_IN_DOUBLE and vector.type.scale <= EXACT_POWERS_OF_TEN:
        return np.asarray(data / 10.0**vector.type.scale, np.float64)
    # True division of Python integers rounds correctly; two roundings in floating point would not.
    return np.asarray(data.astype(object) / 10**vector.type.scale, np.float64)


def days_to_microseconds(vector: Vector) -> Vector:
    """Return dates as timestamps, and anything else unchanged."""
    if vector.type.kind != "date":
        return vector
    return Vector(ValueType("timestamp", 19, 6), integers("*", vector.data, scalar(MICROSECONDS_PER_DAY)), vector.valid)


def all_valid(a: Bools | None, b: Bools | None) -> Bools | None:
    """Return where both are valid; None means everywhere."""
    return b if a is None else a if b is None else a & b


def pick(condition: Array, a: Array | int, b: Array | int) -> Array:
    """Return ``a`` where ``condition`` holds, else ``b``; either may be a Python integer of any size."""
    return np.where(condition, as_array(a), as_array(b))


def sizes(data: Array) -> Array:
    """Return the absolute values of integers."""
    data = np.asarray(data)
    return as_array(np.abs(data.astype(object) if extent(data)[0] == INT64_MIN else data))
