"""Arithmetic and casts on vectors by Spark's rules. Division by zero and a cast that does not fit give null."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.arrays import Bools, Float64s
from watersmeet.columns.vectors import (
    INT64_MAX,
    MICROSECONDS_PER_DAY,
    Array,
    Vector,
    aligned,
    all_valid,
    as_array,
    days_to_microseconds,
    extent,
    integers,
    pick,
    scalar,
    sizes,
    to_float,
)
from watersmeet.spec.typing import ValueType

__all__ = ["arithmetic", "cast"]

INTEGER_LIMITS: Final = {3: 2**7, 5: 2**15, 10: 2**31, 20: 2**63}


def arithmetic(operator: str, a: Vector, b: Vector, target: ValueType) -> Vector:
    """Return ``a operator b``; ``target`` is the type that Spark gives the result."""
    valid = all_valid(a.valid, b.valid)
    if "null" in (a.type.kind, b.type.kind):
        return Vector(target, np.int64(0) if target.is_exact else np.float64(0), np.array(False))  # noqa: FBT003
    if target.kind == "date":
        days = [v.data // MICROSECONDS_PER_DAY if v.type.kind == "interval" else v.data for v in (a, b)]
        return Vector(target, integers(operator, *days), valid)
    a, b = days_to_microseconds(a), days_to_microseconds(b)
    if target.kind in ("float", "double"):
        return _float_arithmetic(operator, a, b, target, valid)
    if operator == "*":
        product = integers("*", a.data, b.data)
        return Vector(ValueType(target.kind, target.digits, a.type.scale + b.type.scale), product, valid)
    if operator == "/":
        return _decimal_quotient(a, b, target, valid)
    x, y, scale = aligned(a, b)
    result_type = ValueType(target.kind, target.digits, scale)
    if operator == "%":
        x, y = np.broadcast_arrays(np.asarray(x), np.asarray(y))
        nonzero = np.asarray(y != 0, bool)
        divisor = np.where(nonzero, y, 1)
        if object in (x.dtype, divisor.dtype):
            x, divisor = x.astype(object), divisor.astype(object)
            rest = as_array(np.abs(x) % np.abs(divisor))
            rest = pick(x < 0, -rest, rest)
        else:
            rest = np.fmod(x, divisor)
        return Vector(result_type, rest, all_valid(valid, nonzero))
    return Vector(result_type, integers(operator, x, y), valid)


def _float_arithmetic(operator: str, a: Vector, b: Vector, target: ValueType, valid: Bools | None) -> Vector:
    dtype = np.float32 if target.kind == "float" else np.float64
    x, y = to_float(a).astype(dtype), to_float(b).astype(dtype)
    with np.errstate(all="ignore"):
        if operator in ("/", "%"):
            nonzero = np.asarray(y != 0, bool)
            result = np.true_divide(x, y) if operator == "/" else np.fmod(x, y)
            return Vector(target, result, valid if nonzero.all() else all_valid(valid, nonzero))
        return Vector(target, {"+": np.add, "-": np.subtract, "*": np.multiply}[operator](x, y), valid)


def _decimal_quotient(a: Vector, b: Vector, target: ValueType, valid: Bools | None) -> Vector:
    """Divide decimals as Spark does: rounded to the target's scale, halves away from zero."""
    x, y = np.asarray(a.data).astype(object), np.asarray(b.data).astype(object)
    shift = target.scale - a.type.scale + b.type.scale
    x, y = (as_array(x * 10**shift), y) if shift >= 0 else (x, as_array(y * 10**-shift))
    nonzero = np.asarray(y != 0, bool)
    y = pick(nonzero, y, 1)
    return Vector(target, _half_up(x, y), all_valid(valid, nonzero))


def _half_up(x: Array, y: Array) -> Array:
    """Return ``x / y`` rounded to the nearest integer, halves away from zero."""
    if max(abs(end) for data in (x, y) for end in extent(data)) > INT64_MAX // 4:
        x, y = np.asarray(x).astype(object), np.asarray(y).astype(object)
    size = (2 * np.abs(x) + np.abs(y)) // (2 * np.abs(y))
    return pick((x < 0) != (y < 0), -size, size)


def cast(vector: Vector, target: ValueType) -> Vector:
    """Return ``vector`` cast to ``target``; the cast has been checked to be allowed."""
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
        case "timestamp" if source.kind == "date":
            return Vector(target, days_to_microseconds(vector).data, vector.valid)
        case "timestamp":  # Spark's have microseconds: finer ones are rounded down
            finer = source.scale - target.scale
            return vector if finer <= 0 else Vector(target, np.asarray(data) // 10**finer, vector.valid)
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
        vector = Vector(source, data, all_valid(vector.valid, fits))
    if target.kind == "int":
        whole = np.asarray(data)
        if source.scale:
            size = sizes(whole) // 10**source.scale
            whole = pick(whole < 0, -size, size)
        limit = INTEGER_LIMITS[target.digits]
        return _limited(Vector(target, whole, vector.valid), -limit, limit - 1)
    if target.scale >= source.scale:
        scaled = integers("*", data, scalar(10 ** (target.scale - source.scale)))
    else:
        scaled = _half_up(np.asarray(data), np.asarray(10 ** (source.scale - target.scale)))
    return _limited(Vector(target, scaled, vector.valid), -(10**target.digits) + 1, 10**target.digits - 1)


def _rounded_once(vector: Vector, numbers: Float64s) -> npt.NDArray[np.float32]:
    """Return a vector as float32, given its values as float64. Halfway between two floats the exact value decides."""
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
    """Return a vector with null for values outside ``[low, high]``."""
    smallest, largest = extent(vector.data)
    if low <= smallest and largest <= high:
        return vector
    fits = np.asarray((vector.data >= low) & (vector.data <= high), bool)
    return Vector(vector.type, vector.data, all_valid(vector.valid, fits))
