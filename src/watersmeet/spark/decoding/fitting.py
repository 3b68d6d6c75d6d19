"""Makes rows of a wanted schema from rows that came with a schema of their own: by name, and without losing anything.

A column may be of another type of the same *kind* (whole numbers, text, moments …) as long as every value fits. Text is
never read as a number, nor a moment without a zone taken for one with a zone. Fixed-size bytes of no size are refused:
no bytes would bound how many there are.

Cost: nothing for columns of the type that is wanted; floats and decimals of another are cast back, and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["check_columns", "fitted", "parts_in", "values_in"]

Kind = Any

SIMPLE: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
    (pa.types.is_integer, "whole numbers"),
    (pa.types.is_floating, "floating-point numbers"),
    (pa.types.is_decimal, "decimals"),
    (pa.types.is_boolean, "booleans"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_string_view, "text"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
    (pa.types.is_binary_view, "bytes"),
    (lambda own: pa.types.is_fixed_size_binary(own) and own.byte_width > 0, "bytes"),
    (pa.types.is_date, "dates"),
    (pa.types.is_duration, "durations"),
)
DIGITS: Final = 38
"""Arrow moves the point of a decimal by so many digits; beyond that, it reads behind its table of powers."""


def check_columns(found: pa.Schema, schema: pa.Schema, zoned: frozenset[str] = frozenset()) -> None:
    """Raise :class:`ValueError` unless rows of ``found`` have all columns of ``schema``, of the same kinds.

    Columns named in ``zoned`` have moments in UTC, whatever their type says.
    """
    for field in schema:
        places = found.get_all_field_indices(field.name)
        if len(places) != 1:
            message = f"there is {'no' if not places else 'more than one'} column {field.name!r}"
            raise ValueError(message)
        own = found.field(places[0]).type
        if field.name in zoned and pa.types.is_timestamp(own):
            own = pa.timestamp(own.unit, "UTC")
        if _kind(own) is None or _kind(own) != _kind(field.type) or _is_too_far(own, field.type):
            message = f"column {field.name!r} is {found.field(places[0]).type}, not {field.type}"
            raise ValueError(message)


def fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows whose columns have been checked as rows of ``schema``; raise if a value would change."""
    columns = [rows.column(field.name).cast(field.type) for field in schema]
    for field, column in zip(schema, columns, strict=True):
        if rows.column(field.name).type != field.type and any(map(_may_change, parts_in(field.type))):
            _check_same(rows.column(field.name), column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def parts_in(own: pa.DataType) -> Iterator[pa.DataType]:
    """Yield the types of the values in a type, which are not nested; of types of one kind, in the same order."""
    if pa.types.is_dictionary(own):
        yield from parts_in(own.value_type)
    elif own.num_fields:
        for number in range(own.num_fields):
            yield from parts_in(own.field(number).type)
    else:
        yield own


def values_in(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the values in a column, in the order of :func:`parts_in`, without those of rows that are null."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_map(column.type):
        column = column.cast(pa.list_(pa.struct([column.type.key_field, column.type.item_field])))
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        yield from values_in(column.flatten())
    elif pa.types.is_struct(column.type):
        for field in column.flatten():
            yield from values_in(field)
    else:
        yield column


def _is_too_far(own: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether a decimal would have to be shifted by more digits than Arrow can; the types are of one kind."""
    return any(
        pa.types.is_decimal(one) and abs(one.scale - other.scale) > DIGITS
        for one, other in zip(parts_in(own), parts_in(wanted), strict=True)
    )


def _may_change(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _check_same(before: pa.Array, after: pa.Array) -> None:
    """Raise if a number became another one: Arrow rounds floats, and lets decimals overflow."""
    for own, new in zip(values_in(before), values_in(after), strict=True):
        if own.type == new.type:
            continue
        if pa.types.is_decimal(own.type):
            widest = pa.decimal256(76, own.type.scale)
            if not new.cast(pa.decimal256(76, new.type.scale)).cast(widest).equals(own.cast(widest)):
                message = f"a value of the type {own.type} is none of {new.type}"
                raise ValueError(message)
        if pa.types.is_floating(own.type):
            changed = own.filter(pc.not_equal(new.cast(own.type), own))
            changed = changed.filter(pc.invert(pc.is_nan(changed)))
            if len(changed):
                message = f"{changed[0]} is no value of the type {new.type}"
                raise ValueError(message)


def _kind(own: pa.DataType) -> Kind:
    """Return what values of a type have to be to be the same values in another type; None: nothing that is known."""
    if pa.types.is_dictionary(own):
        return _kind(own.value_type)
    if pa.types.is_timestamp(own):
        return "moments without a zone" if own.tz is None else "moments"
    if pa.types.is_struct(own):
        return "row", tuple((field.name, _kind(field.type)) for field in own)
    if pa.types.is_map(own):
        return "map", _kind(own.key_type), _kind(own.item_type)
    if pa.types.is_list(own) or pa.types.is_large_list(own):
        return "list", _kind(own.value_type)
    return next((name for holds, name in SIMPLE if holds(own)), None)
