"""Makes rows of a wanted schema from rows that came with a schema of their own: by name, and without losing anything.

A column may be of another type of the same *kind* (whole numbers, text, moments …) as long as every value fits. Text is
never read as a number, nor a moment without a zone taken for one with a zone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

__all__ = ["check_columns", "fitted"]

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
    (pa.types.is_fixed_size_binary, "bytes"),
    (pa.types.is_date, "dates"),
    (pa.types.is_duration, "durations"),
)


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
        if _kind(own) is None or _kind(own) != _kind(field.type):
            message = f"column {field.name!r} is {found.field(places[0]).type}, not {field.type}"
            raise ValueError(message)


def fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows whose columns have been checked as rows of ``schema``; raise if a value would change."""
    columns = [rows.column(field.name).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


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
