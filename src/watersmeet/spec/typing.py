"""Types of expressions by Spark's ANSI rules; values that cannot be compared are refused.

A type says how a value is *computed with*, not how it is stored. All integers are one kind, because arithmetic on them
is exact and unbounded. Dates, timestamps, intervals and decimals are integers with a ``scale``: the value is the
integer / 10^scale, and a date's unit is the day. ``digits`` bounds the integer, which tells whether it fits in 64 bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Final, Literal

import pyarrow as pa

from watersmeet.spec.errors import ColumnTypeError, SchemaError, SpecificationError
from watersmeet.spec.expression import (
    DEEPEST,
    And,
    Arithmetic,
    Boolean,
    Call,
    Cast,
    Column,
    Compare,
    Constant,
    Expression,
    IsNull,
    Negative,
    Not,
    Or,
    Same,
    StreamName,
)
from watersmeet.spec.names import where_it_is

__all__ = [
    "CAST_TYPES",
    "DECIMALS",
    "DOUBLE",
    "MAX_DECIMAL_DIGITS",
    "MAX_LITERAL_DIGITS",
    "Schemas",
    "ValueType",
    "check_depth",
    "check_predicate",
    "common_type",
    "constant_type",
    "is_unsigned",
    "type_of",
    "value_type",
]

Kind = Literal[
    "int", "decimal", "float", "double", "string", "binary", "boolean", "date", "timestamp", "interval", "null"
]
Schemas = Mapping[StreamName, pa.Schema]

MICRO: Final = 6
MAX_DECIMAL_DIGITS: Final = 38
MAX_LITERAL_DIGITS: Final = 76
"""Digits of a number in a predicate, and behind a decimal column's point: as many as Arrow's widest decimal has."""
DECIMALS: Final = frozenset(
    f"decimal({digits},{scale})" for digits in range(1, MAX_DECIMAL_DIGITS + 1) for scale in range(digits + 1)
)
"""The decimal types of Spark."""
NUMERIC: Final = frozenset({"int", "decimal", "float", "double"})
TIME_SCALES: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
ONE_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ValueType:
    """How a value is computed with. A timestamp or date without a zone is read as UTC."""

    kind: Kind
    digits: int = 0
    scale: int = 0

    @property
    def is_numeric(self) -> bool:
        """True for integers, decimals and floats."""
        return self.kind in NUMERIC

    @property
    def is_exact(self) -> bool:
        """True when values are integers with a scale, so that sums and differences are exact."""
        return self.kind in ("int", "decimal", "date", "timestamp", "interval", "boolean")

    def __str__(self) -> str:
        return f"decimal({self.digits},{self.scale})" if self.kind == "decimal" else self.kind


DOUBLE: Final = ValueType("double")
FLOAT: Final = ValueType("float")
BOOLEAN: Final = ValueType("boolean", 1)
STRING: Final = ValueType("string")
DATE: Final = ValueType("date", 10)
INTERVAL: Final = ValueType("interval", 19, MICRO)
BIGINT: Final = ValueType("int", 20)
CAST_TYPES: Final[dict[str, ValueType]] = {
    "tinyint": ValueType("int", 3),
    "smallint": ValueType("int", 5),
    "int": ValueType("int", 10),
    "bigint": BIGINT,
    "float": FLOAT,
    "double": DOUBLE,
    "boolean": BOOLEAN,
    "string": STRING,
    "date": DATE,
    "timestamp": ValueType("timestamp", 19, MICRO),
    "timestamp_ntz": ValueType("timestamp", 19, MICRO),
}
CASTS: Final[dict[str, frozenset[str]]] = {
    **dict.fromkeys(("int", "decimal"), frozenset({"int", "decimal", "float", "double", "boolean"})),
    **dict.fromkeys(("float", "double"), frozenset({"int", "float", "double", "boolean"})),
    "boolean": frozenset({"int", "decimal", "float", "double", "boolean"}),
    "date": frozenset({"date", "timestamp"}),
    "timestamp": frozenset({"date", "timestamp"}),
    "string": frozenset({"string"}),
    "null": frozenset({"int", "decimal", "float", "double", "boolean", "date", "timestamp", "string"}),
}
"""The kinds that each kind may be cast to: none of these casts parses or formats text."""


@lru_cache
def value_type(arrow: pa.DataType) -> ValueType | None:
    """Return the type of a column of Arrow type ``arrow``, or None if nothing can be computed with it."""
    if pa.types.is_dictionary(arrow):
        return value_type(arrow.value_type)
    if pa.types.is_integer(arrow):
        if arrow == pa.uint64():
            return ValueType("decimal", 20)
        digits = {8: 3, 16: 5, 32: 10, 64: 20}[arrow.bit_width]
        return ValueType("int", digits)
    if pa.types.is_float64(arrow):
        return DOUBLE
    if pa.types.is_float32(arrow) or pa.types.is_float16(arrow):
        return FLOAT
    if pa.types.is_decimal(arrow):  # a negative scale, such as hundreds, is computed with in ones
        return ValueType("decimal", arrow.precision + max(-arrow.scale, 0), max(arrow.scale, 0))
    if pa.types.is_boolean(arrow):
        return BOOLEAN
    if pa.types.is_date(arrow):
        return DATE
    if pa.types.is_timestamp(arrow):
        return ValueType("timestamp", 19, TIME_SCALES[arrow.unit])
    if pa.types.is_duration(arrow):
        return ValueType("interval", 19, TIME_SCALES[arrow.unit])
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow):
        return STRING
    if pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow) or pa.types.is_fixed_size_binary(arrow):
        return ValueType("binary")
    if pa.types.is_null(arrow):
        return ValueType("null")
    return None


def is_unsigned(expression: Expression, schemas: Schemas) -> bool:
    """Tell whether ``expression`` is a column of unsigned integers."""
    if not isinstance(expression, Column):
        return False
    arrow = schemas[expression.stream].field(expression.name).type
    return bool(pa.types.is_unsigned_integer(arrow.value_type if pa.types.is_dictionary(arrow) else arrow))


def constant_type(constant: Constant) -> ValueType:
    """Return the type that Spark gives a literal."""
    match constant.kind, constant.value:
        case "int", int(value):
            return ValueType("int", max(len(str(abs(value))), 1))
        case "decimal", Decimal() as value:
            _, digits, exponent = value.as_tuple()
            assert isinstance(exponent, int)
            scale = max(-exponent, 0)
            return ValueType("decimal", max(len(digits) + max(exponent, 0), scale), scale)
    simple: dict[str, ValueType] = {
        "double": DOUBLE,
        "string": STRING,
        "boolean": BOOLEAN,
        "null": ValueType("null"),
        "date": DATE,
        "timestamp": ValueType("timestamp", 19, MICRO),
        "interval": INTERVAL,
    }
    return simple[constant.kind]


def check_predicate(predicate: Expression, schemas: Schemas) -> None:
    """Raise unless every column exists and every operation is allowed on its operands' types."""
    check_depth(predicate)
    type_of(predicate, schemas)


def check_depth(predicate: Expression) -> None:
    """Raise for a predicate with more levels than recursion may have."""
    level: Sequence[Expression] = [predicate]
    for _ in range(DEEPEST):
        level = [child for node in level for child in node.children()]
        if not level:
            return
    raise SpecificationError(
        f"a predicate of more than {DEEPEST} levels",
        f"at most {DEEPEST} operations and conditions inside each other; AND and OR may have any number of terms",
        "compute a part of it as a column before the join",
    )


def type_of(expression: Expression, schemas: Schemas) -> ValueType:
    """Return the type of ``expression``; raise :class:`ColumnTypeError` or :class:`SchemaError` when it has none."""
    match expression:
        case Column():
            return _column_type(expression, schemas)
        case Constant():
            return constant_type(expression)
        case Negative(operand):
            inner = type_of(operand, schemas)
            if not (inner.is_numeric or inner.kind in ("interval", "null")):
                raise _refuse(f"{operand} is a {inner}", "a number or an interval")
            return inner
        case Arithmetic():
            return _arithmetic_type(expression, schemas)
        case Call(function, arguments):
            types = [type_of(argument, schemas) for argument in arguments]
            if function == "abs":
                if len(types) != 1 or not (types[0].is_numeric or types[0].kind in ("interval", "null")):
                    raise _refuse(f"{expression} is given {', '.join(map(str, types))}", "one number or interval")
                return types[0]
            result = types[0]
            for other in types[1:]:
                common = common_type(result, other)
                if common is None:
                    raise _refuse(f"{expression} is given {result} and {other}", "values of one kind")
                result = common
            return result
        case Cast(operand, target):
            inner, outer = type_of(operand, schemas), cast_type(target)
            if outer.kind not in CASTS.get(inner.kind, frozenset()):
                allowed = ", ".join(sorted(CASTS.get(inner.kind, frozenset()))) or "nothing"
                raise _refuse(f"{expression} casts a {inner}", f"casts from {inner.kind} to {allowed}")
            return outer
        case Compare(_, left, right) | Same(left, right):
            left_type, right_type = type_of(left, schemas), type_of(right, schemas)
            if common_type(left_type, right_type) is None:
                raise _refuse(
                    f"{expression} compares {left} ({left_type}) with {right} ({right_type})",
                    "numbers with numbers, strings with strings, booleans with booleans, dates with timestamps",
                    _without_text(left, right_type) or _without_text(right, left_type),
                )
            return BOOLEAN
        case Boolean(operand):
            inner = type_of(operand, schemas)
            if inner.kind not in ("boolean", "null"):
                raise _refuse(f"{operand} stands as a condition but is a {inner}", "a boolean")
            return BOOLEAN
        case And() | Or() | Not() | IsNull():
            for child in expression.children():
                type_of(child, schemas)
            return BOOLEAN
    raise AssertionError(expression)


def cast_type(target: str) -> ValueType:
    """Return the type that a cast to ``target`` gives."""
    if target.startswith("decimal("):
        precision, scale = (int(part) for part in target[len("decimal(") : -1].split(","))
        return ValueType("decimal", precision, scale)
    return CAST_TYPES[target]


def common_type(left: ValueType, right: ValueType) -> ValueType | None:
    """Return the type in which Spark compares two values, or None if it compares no such values."""
    kinds = {left.kind, right.kind}
    if left.kind == "null" or right.kind == "null":
        return right if left.kind == "null" else left
    if kinds <= NUMERIC:
        if "double" in kinds or ("float" in kinds and kinds != {"float"}):
            return DOUBLE
        if kinds == {"float"}:
            return FLOAT
        scale = max(left.scale, right.scale)
        whole = max(left.digits - left.scale, right.digits - right.scale)
        return ValueType("int" if kinds == {"int"} else "decimal", whole + scale, scale)
    if kinds == {"date", "timestamp"}:
        return left if left.kind == "timestamp" else right
    if len(kinds) == 1:
        return left if left.scale >= right.scale else right
    return None


def _without_text(expression: Expression, other: ValueType) -> str:
    """Return how a text that is compared with a value of another type is written as such a value, if it is constant."""
    if not (isinstance(expression, Constant) and expression.kind == "string"):
        return ""
    if other.kind in ("date", "timestamp"):
        return f"write {other.kind.upper()} {expression}"
    is_number = other.is_numeric and str(expression.value).lstrip("-").replace(".", "", 1).isdecimal()
    return f"write {expression.value} without quotes" if is_number else ""


def _column_type(column: Column, schemas: Schemas) -> ValueType:
    schema = schemas[column.stream]
    position = schema.get_field_index(column.name)
    if position < 0:
        given = f"there is no column {column.name!r} in the {column.stream} stream"
        if column.name in schema.names:
            given = f"column {column.name!r} occurs more than once in the {column.stream} stream"
            next_step = "rename the columns so that each name occurs once"
        elif column.name.partition(".")[0] in schema.names:
            next_step = f"make the field {column.name!r} a column before the join, with a name without dots"
        else:
            next_step = where_it_is(column, schemas) or "check the spelling, or add the column before the join"
        allowed = f"columns of the {column.stream} stream: {', '.join(schema.names) or '(none)'}"
        raise SchemaError(given, allowed, next_step)
    arrow = schema.field(position).type
    if pa.types.is_decimal(arrow) and abs(arrow.scale) > MAX_LITERAL_DIGITS:  # Arrow allows any
        raise ColumnTypeError(
            f"{column} has type {arrow}",
            f"decimals with a scale from -{MAX_LITERAL_DIGITS} to {MAX_LITERAL_DIGITS}",
            "cast the column before the join, to a decimal whose scale is not above its precision",
        )
    found = value_type(arrow)
    if found is None:
        raise _refuse(
            f"{column} has type {arrow}", "numbers, decimals, strings, binaries, booleans, dates, timestamps, durations"
        )
    return found


def _arithmetic_type(expression: Arithmetic, schemas: Schemas) -> ValueType:
    operator = expression.operator
    left, right = type_of(expression.left, schemas), type_of(expression.right, schemas)
    kinds = (left.kind, right.kind)
    if "null" in kinds:
        return right if left.kind == "null" else left
    if left.is_numeric and right.is_numeric:
        return _number_type(operator, left, right)
    if operator in ("+", "-"):
        if kinds == ("timestamp", "interval"):
            return ValueType("timestamp", 19, max(left.scale, right.scale))
        if operator == "+" and kinds == ("interval", "timestamp"):
            return ValueType("timestamp", 19, max(left.scale, right.scale))
        if kinds == ("interval", "interval") or (operator == "-" and kinds == ("timestamp", "timestamp")):
            return ValueType("interval", 19, max(left.scale, right.scale))
        if kinds == ("date", "int") or (operator == "+" and kinds == ("int", "date")):
            return DATE
        if operator == "-" and kinds == ("date", "date"):
            return INTERVAL
        if left.kind == "date" and right.kind == "interval":
            return DATE if _is_whole_days(expression.right) else ValueType("timestamp", 19, MICRO)
        if operator == "+" and left.kind == "interval" and right.kind == "date":
            return DATE if _is_whole_days(expression.left) else ValueType("timestamp", 19, MICRO)
    if operator == "*" and kinds in (("interval", "int"), ("int", "interval")):
        return INTERVAL
    raise _refuse(
        f"{expression} combines {left} with {right}",
        "numbers with numbers; timestamp or date ± interval, date ± days, timestamp - timestamp, date - date",
    )


def _number_type(operator: str, left: ValueType, right: ValueType) -> ValueType:
    """Return the type of an operation on numbers, by Spark's rules but with integers of any size."""
    kinds = {left.kind, right.kind}
    if "double" in kinds or ("float" in kinds and kinds != {"float"}):
        return DOUBLE
    if kinds == {"float"}:
        return DOUBLE if operator == "/" else FLOAT
    scale = max(left.scale, right.scale)
    whole = max(left.digits - left.scale, right.digits - right.scale)
    kind: Kind = "int" if kinds == {"int"} else "decimal"
    match operator:
        case "+" | "-":
            return ValueType(kind, whole + scale + 1, scale)
        case "*":
            return ValueType(kind, left.digits + right.digits + 1, left.scale + right.scale)
        case "%":
            return ValueType(kind, whole + scale, scale)
        case _ if kind == "int":
            return DOUBLE
        case _:  # Spark: DecimalPrecision, division
            scale = max(MICRO, left.scale + right.digits + 1)
            digits = left.digits - left.scale + right.scale + scale
            if digits > MAX_DECIMAL_DIGITS:
                scale = max(MAX_DECIMAL_DIGITS - (digits - scale), min(scale, MICRO))
                digits = MAX_DECIMAL_DIGITS
            return ValueType("decimal", digits, scale)


def _is_whole_days(expression: Expression) -> bool:
    return (
        isinstance(expression, Constant) and isinstance(expression.value, timedelta) and not expression.value % ONE_DAY
    )


def _refuse(given: str, allowed: str, next_step: str = "") -> ColumnTypeError:
    usual = "cast one of the two (CAST(x AS type)), or compute the column before the join"
    return ColumnTypeError(given, allowed, next_step or usual)
