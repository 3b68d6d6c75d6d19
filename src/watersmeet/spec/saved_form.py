"""The saved form of a join: its predicate, window and columns as JSON.

Snapshots and checkpoints outlive a process and keep the join in this form. A predicate's node is a list that begins
with the node's name, ``["compare", "=", ["column", "left", "x"], ["constant", "int", 5]]``. A window is an object with
its kind. A column is ``[name, type, nullable]``. Names of classes and fields are not part of the form, so code may be
renamed. Each join has one form only: :func:`~watersmeet.spec.strict_json.canonical` gives equal text exactly for equal
joins.

Reading is strict. Every list has exactly the entries of its node, every value has exactly its type, every number lies
in its range. Anything else raises :class:`~watersmeet.spec.errors.SpecificationError`. ``FORM`` is raised whenever what
is written, or its meaning, changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final, get_args

import pyarrow as pa

from watersmeet.spec.expression import (
    DEEPEST,
    And,
    Arithmetic,
    ArithmeticOperator,
    Boolean,
    Call,
    Cast,
    Column,
    Compare,
    CompareOperator,
    Constant,
    ConstantValue,
    Expression,
    FunctionName,
    IsNull,
    Negative,
    Not,
    Or,
    Predicate,
    Same,
    StreamName,
    columns_of,
    conjunction,
    disjunction,
)
from watersmeet.spec.strict_json import (
    MICROSECOND,
    Json,
    by_stream,
    check_entries,
    one_of,
    read_duration,
    read_text,
    refusal,
    shortened,
    whole_number,
)
from watersmeet.spec.typing import CAST_TYPES, DECIMALS, MAX_LITERAL_DIGITS
from watersmeet.spec.window import (
    CountWindow,
    CountWindows,
    TimeWindow,
    TimeWindows,
    Window,
    Windows,
    count_window,
    time_window,
)

__all__ = [
    "FORM",
    "predicate_from_json",
    "predicate_to_json",
    "schema_to_json",
    "window_from_json",
    "window_to_json",
]

FORM: Final = 1
"""Number of the form that is written."""
IDLE: Final = "idle"
"""Entry of a window that has one; windows without it are written as they were before there was any."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FUNCTIONS: Final[tuple[FunctionName, ...]] = get_args(FunctionName)
COMPARISONS: Final[tuple[CompareOperator, ...]] = get_args(CompareOperator)
OPERATIONS: Final[tuple[ArithmeticOperator, ...]] = get_args(ArithmeticOperator)


# --- predicates -----------------------------------------------------------------------------------------------------


def predicate_to_json(predicate: Predicate) -> Json:
    """Return a predicate as JSON, with the number of its form."""
    return {"form": FORM, "predicate": _to_json(predicate)}


def predicate_from_json(content: Json, sides: Sequence[StreamName] = ("left", "right")) -> Predicate:
    """Return the predicate that :func:`predicate_to_json` wrote, over these streams.

    Examples
    --------
    >>> from watersmeet.spec.predicates import band, equal
    >>> predicate = band("price", "bid", 500) & equal("symbol")
    >>> predicate_from_json(predicate_to_json(predicate)) == predicate
    True
    """
    check_entries(content, ("form", "predicate"))
    if whole_number(content["form"]) != FORM:
        raise refusal(f"a predicate in form {content['form']}", f"form {FORM}")
    predicate = _predicate(content["predicate"], DEEPEST)
    strange = sorted({column.stream for column in columns_of(predicate)} - set(sides))
    if strange:
        raise refusal(f"a predicate over {shortened(strange)}", f"columns of {', '.join(sides)}")
    return predicate


def _to_json(node: Expression) -> list[Json]:
    match node:
        case Column(side, name):
            return ["column", side, name]
        case Constant(value, kind):
            return ["constant", kind, _constant_to_json(value)]
        case Arithmetic(operator, left, right):
            return ["arithmetic", operator, _to_json(left), _to_json(right)]
        case Negative(operand):
            return ["negative", _to_json(operand)]
        case Call(function, arguments):
            return ["call", function, *map(_to_json, arguments)]
        case Cast(operand, target):
            return ["cast", _to_json(operand), target]
        case Compare(operator, left, right):
            return ["compare", operator, _to_json(left), _to_json(right)]
        case Same(left, right):
            return ["same", _to_json(left), _to_json(right)]
        case IsNull(operand):
            return ["is_null", _to_json(operand)]
        case Boolean(operand):
            return ["boolean", _to_json(operand)]
        case Not(operand):
            return ["not", _to_json(operand)]
        case And(terms):
            return ["and", *map(_to_json, terms)]
        case Or(terms):
            return ["or", *map(_to_json, terms)]
    raise AssertionError(node)


def _constant_to_json(value: ConstantValue) -> Json:
    match value:
        case Decimal():
            return format(value, "f")
        case datetime():
            return (value - EPOCH) // MICROSECOND
        case date():
            return value.isoformat()
        case timedelta():
            return value // MICROSECOND
    return value


def _predicate(content: Json, depth: int) -> Predicate:
    node = _expression(content, depth)
    if not isinstance(node, Predicate):
        raise refusal(f"{node} where a condition belongs", "a comparison, or conditions put together")
    return node


def _expression(content: Json, depth: int) -> Expression:
    if depth == 0:
        raise refusal("a predicate that is nested too deeply", f"at most {DEEPEST} levels")
    inner = depth - 1
    match content:
        case ["column", str(side), str(name)]:
            return Column(side, name)
        case ["constant", str(kind), value]:
            return _constant(kind, value)
        case ["arithmetic", operator, left, right]:
            return Arithmetic(one_of(OPERATIONS, operator), _expression(left, inner), _expression(right, inner))
        case ["negative", operand]:
            return Negative(_expression(operand, inner))
        case ["call", function, first, *rest]:
            arguments = tuple(_expression(argument, inner) for argument in (first, *rest))
            return Call(one_of(FUNCTIONS, function), arguments)
        case ["cast", operand, str(target)]:
            return Cast(_expression(operand, inner), _cast_target(target))
        case ["compare", operator, left, right]:
            return Compare(one_of(COMPARISONS, operator), _expression(left, inner), _expression(right, inner))
        case ["same", left, right]:
            return Same(_expression(left, inner), _expression(right, inner))
        case ["is_null", operand]:
            return IsNull(_expression(operand, inner))
        case ["boolean", operand]:
            return Boolean(_expression(operand, inner))
        case ["not", operand]:
            return Not(_predicate(operand, inner))
        case ["and", first, second, *rest]:
            return conjunction(*(_predicate(term, inner) for term in (first, second, *rest)))
        case ["or", first, second, *rest]:
            return disjunction(*(_predicate(term, inner) for term in (first, second, *rest)))
    raise refusal(f"{shortened(content)} as a part of a predicate", "a node's name with just its parts")


def _constant(kind: str, value: Json) -> Constant:
    try:
        match kind, value:
            case "int", int() if not isinstance(value, bool) and abs(value) < 10**MAX_LITERAL_DIGITS:
                return Constant(value, "int")
            case "decimal", str() if _is_decimal(value):
                return Constant(Decimal(value), "decimal")
            case "double", float() if math.isfinite(value):
                return Constant(value, "double")
            case "string", str():
                return Constant(value, "string")
            case "boolean", bool():
                return Constant(value, "boolean")
            case "null", None:
                return Constant(None, "null")
            case "date", str() if date.fromisoformat(value).isoformat() == value:
                return Constant(date.fromisoformat(value), "date")
            case "timestamp", int() if not isinstance(value, bool):
                return Constant(EPOCH + value * MICROSECOND, "timestamp")
            case "interval", int() if not isinstance(value, bool):
                return Constant(value * MICROSECOND, "interval")
    except (ValueError, OverflowError):
        pass
    raise refusal(f"{shortened(value)} as a constant of kind {shortened(kind)}", "a constant as it was written")


def _is_decimal(text: str) -> bool:
    """Tell whether text is a decimal in the saved form: digits, at most one sign and one point."""
    whole, _, fraction = text.removeprefix("-").partition(".")
    digits = whole + fraction
    return digits.isascii() and digits.isdigit() and bool(whole) and len(digits) <= MAX_LITERAL_DIGITS + 1


def _cast_target(target: str) -> str:
    if target in CAST_TYPES or target in DECIMALS:
        return target
    raise refusal(f"a cast to {shortened(target)}", "a type that a predicate casts to")


# --- windows --------------------------------------------------------------------------------------------------------


def window_to_json(window: Window | Windows) -> Json:
    """Return a window as JSON, with durations in microseconds."""
    match window:
        case CountWindow(left, right, order_by):
            return {"kind": "count", "left": left, "right": right, "order_by": order_by}
        case CountWindows(counts, columns):
            return {"kind": "count", "counts": counts, "order_by": columns}
        case TimeWindow(left, right, left_ts, right_ts):
            lengths: dict[str, Json] = {
                "left_ts": left_ts,
                "right_ts": right_ts,
                "left": left // MICROSECOND,
                "right": right // MICROSECOND,
            }
        case TimeWindows(own, ts):
            lengths = {"lengths": {stream: length // MICROSECOND for stream, length in own.items()}, "ts": ts}
    idle = {} if window.idle is None else {IDLE: window.idle // MICROSECOND}
    return {"kind": "time", **lengths, "lateness": window.lateness // MICROSECOND, **idle}


def window_from_json(content: Json) -> Window | Windows:
    """Return the window that :func:`window_to_json` wrote; it is checked like a user's."""
    match content:
        case {"kind": "count", "counts": counts}:
            check_entries(content, ("kind", "counts", "order_by"))
            columns = content["order_by"]
            return count_window(
                by_stream(counts, whole_number), order_by=None if columns is None else by_stream(columns, read_text)
            )
        case {"kind": "count"}:
            check_entries(content, ("kind", "left", "right", "order_by"))
            order_by = content["order_by"]
            return count_window(
                left=whole_number(content["left"]),
                right=whole_number(content["right"]),
                order_by=None if order_by is None else read_text(order_by),
            )
        case {"kind": "time", "lengths": lengths}:
            check_entries(content, ("kind", "lengths", "ts", "lateness", *_idle_entry(content)))
            return time_window(
                by_stream(lengths, read_duration),
                ts=by_stream(content["ts"], read_text),
                lateness=read_duration(content["lateness"]),
                idle=_idle(content),
            )
        case {"kind": "time"}:
            check_entries(content, ("kind", "left_ts", "right_ts", "left", "right", "lateness", *_idle_entry(content)))
            return time_window(
                left=read_duration(content["left"]),
                right=read_duration(content["right"]),
                left_ts=read_text(content["left_ts"]),
                right_ts=read_text(content["right_ts"]),
                lateness=read_duration(content["lateness"]),
                idle=_idle(content),
            )
    raise refusal(f"{shortened(content)} as a window", "a time window or a count window")


def _idle_entry(content: dict[str, Json]) -> tuple[str, ...]:
    """Return the entry that only windows with an ``idle`` have."""
    return (IDLE,) if IDLE in content else ()


def _idle(content: dict[str, Json]) -> timedelta | None:
    return read_duration(content[IDLE]) if IDLE in content else None


# --- schemas --------------------------------------------------------------------------------------------------------


def schema_to_json(schema: pa.Schema) -> Json:
    """Return a stream's columns as JSON: the name, the type and whether it may be null. Metadata is left out."""
    return [_field_to_json(field) for field in schema]


def _field_to_json(field: pa.Field) -> Json:
    return [field.name, type_to_json(field.type), field.nullable]


def type_to_json(arrow: pa.DataType) -> Json:
    """Return an Arrow type as JSON: its name, or a list of its name and what it is made of."""
    if isinstance(arrow, pa.BaseExtensionType):
        return ["extension", arrow.extension_name, type_to_json(arrow.storage_type)]
    if pa.types.is_dictionary(arrow):
        return ["dictionary", type_to_json(arrow.index_type), type_to_json(arrow.value_type), arrow.ordered]
    if pa.types.is_decimal(arrow):
        return [f"decimal{arrow.bit_width}", arrow.precision, arrow.scale]
    if pa.types.is_timestamp(arrow):
        return ["timestamp", arrow.unit, arrow.tz]
    if pa.types.is_duration(arrow) or pa.types.is_time(arrow):
        return [str(arrow).partition("[")[0], arrow.unit]
    if pa.types.is_fixed_size_binary(arrow):
        return ["fixed_size_binary", arrow.byte_width]
    if pa.types.is_fixed_size_list(arrow):
        return ["fixed_size_list", arrow.list_size, _field_to_json(arrow.value_field)]
    if pa.types.is_map(arrow):
        return ["map", _field_to_json(arrow.key_field), _field_to_json(arrow.item_field), arrow.keys_sorted]
    if pa.types.is_run_end_encoded(arrow):
        return ["run_end_encoded", type_to_json(arrow.run_end_type), type_to_json(arrow.value_type)]
    if arrow.num_fields:  # lists of all kinds, structs, unions
        name = str(arrow).partition("<")[0]
        codes = [arrow.type_codes] if pa.types.is_union(arrow) else []
        return [name, *codes, *(_field_to_json(arrow.field(number)) for number in range(arrow.num_fields))]
    return str(arrow)
