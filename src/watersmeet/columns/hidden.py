"""Hidden columns: numbers that travel with rows, in columns behind the rows' own.

Design. Code that needs more of a row than its values, such as its arrival number or whether a core stores it, adds that
as a hidden column; the reader of the rows splits it off again. The name of such a column begins with ``MARK``, a
character that no name in SQL has, so it never equals the name of a user's column. Only this module knows the mark: all
other code uses plain names.

Invariant: hidden columns come last, in the order in which they were added, and have no nulls. They are found by their
position, so users' columns may have any names.

Cost: no value is copied, except truth values, which Arrow stores as bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = [
    "Values",
    "add_hidden",
    "ends_hidden",
    "hidden_at",
    "hidden_field",
    "hidden_names",
    "hidden_of",
    "is_hidden",
    "labelled",
    "own_schema",
    "split_hidden",
    "unlabelled",
    "with_hidden",
]

Values = npt.NDArray[Any]

MARK: Final = "\0"


# --- schemas ---------------------------------------------------------------------------------------------------------


def hidden_field(name: str) -> pa.Field:
    """Return the field of a hidden column of whole numbers."""
    return pa.field(MARK + name, pa.int64())


def with_hidden(own: pa.Schema, columns: Iterable[str] | Mapping[str, pa.DataType]) -> pa.Schema:
    """Return a schema with hidden columns behind its own: of whole numbers, or of the types given with their names."""
    return pa.schema([*own, *_hidden_fields(columns)], own.metadata)


def ends_hidden(schema: pa.Schema, columns: Iterable[str] | Mapping[str, pa.DataType]) -> bool:
    """Tell whether the last columns are just these hidden columns: of whole numbers, or of the types given."""
    expected = _hidden_fields(columns)
    last = list(schema)[len(schema) - len(expected) :]
    return [(field.name, field.type) for field in last] == [(field.name, field.type) for field in expected]


def _hidden_fields(columns: Iterable[str] | Mapping[str, pa.DataType]) -> list[pa.Field]:
    if isinstance(columns, Mapping):
        return [pa.field(MARK + name, kind) for name, kind in columns.items()]
    return list(map(hidden_field, columns))


def own_schema(schema: pa.Schema, hidden: int) -> pa.Schema:
    """Return a schema without its last columns, of which ``hidden`` are hidden."""
    return pa.schema(list(schema)[: len(schema) - hidden], schema.metadata)


def hidden_names(schema: pa.Schema, own: int) -> list[str]:
    """Return the names of the hidden columns behind ``own`` columns."""
    return [name.removeprefix(MARK) for name in schema.names[own:]]


def is_hidden(field: pa.Field) -> bool:
    """Tell whether a column is hidden, where it is not known how many own ones there are."""
    return str(field.name).startswith(MARK)


# --- rows ------------------------------------------------------------------------------------------------------------


def add_hidden(rows: pa.RecordBatch, columns: Mapping[str, Values]) -> pa.RecordBatch:
    """Return rows with hidden columns behind those that they have; a batch of no columns may stand for any rows."""
    if not columns:
        return rows
    arrays = {name: pa.array(values) for name, values in columns.items()}
    fields = [pa.field(MARK + name, array.type) for name, array in arrays.items()]
    schema = pa.schema([*rows.schema, *fields], rows.schema.metadata)
    return pa.RecordBatch.from_arrays([*rows.columns, *arrays.values()], schema=schema)


def split_hidden(rows: pa.RecordBatch, own: pa.Schema) -> tuple[pa.RecordBatch, dict[str, Values]]:
    """Return rows as those of their ``own`` schema, and the hidden columns behind it by name.

    Raises :class:`ValueError` where a hidden column has nulls: then it is none that was added.
    """
    places = range(len(own), rows.num_columns)
    hidden = dict(zip(hidden_names(rows.schema, len(own)), map(rows.column, places), strict=True))
    for name, column in hidden.items():
        if column.null_count:
            message = f"the hidden column {name!r} has nulls"
            raise ValueError(message)
    kept = pa.RecordBatch.from_arrays(rows.columns[: len(own)], schema=own)
    return kept, {name: np.asarray(column) for name, column in hidden.items()}


def hidden_at(rows: pa.RecordBatch, place: int) -> Values:
    """Return a hidden column by its place, which is counted from the end: ``-1`` is the last."""
    return np.asarray(rows.column(rows.num_columns + place))


def hidden_of(rows: pa.RecordBatch | pa.Table, name: str) -> Values:
    """Return a hidden column by its name, wherever it lies."""
    return np.asarray(rows.column(MARK + name))


# --- names ------------------------------------------------------------------------------------------------------------


def labelled(label: str, columns: Mapping[str, Values]) -> dict[str, Values]:
    """Return columns under names that say what they are, before what they are of."""
    return {label + name: values for name, values in columns.items()}


def unlabelled(label: str, columns: Mapping[str, Values]) -> dict[str, Values]:
    """Return those of the columns that :func:`labelled` gave, under their own names."""
    return {name.removeprefix(label): values for name, values in columns.items() if name.startswith(label)}
