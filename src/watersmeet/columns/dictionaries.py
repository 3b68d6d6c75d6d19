"""Dictionary columns as joins hold them: with indices of 32 bits at least, and without a null among their values.

Rows of many pushes are put together, in windows and in results, and with them the values of their dictionaries. These
may be more than indices of 8 or 16 bits can count, however few each push has; and Arrow puts no dictionaries together
that have a null among their values. So rows are changed once, when they come in: an index of a null becomes a null.

Cost: two array operations for such a column; others, and rows without dictionaries, stay as they are.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

__all__ = ["held_rows", "held_schema"]

NARROW: Final = (pa.int8(), pa.uint8(), pa.int16(), pa.uint16())
"""Types of indices that may be too few."""


def held_schema(schema: pa.Schema) -> pa.Schema:
    """Return a stream's schema as a join has it, in its windows and in its results."""
    for number, field in enumerate(schema):
        held = _held_type(field.type)
        if held is not field.type:
            schema = schema.set(number, field.with_type(held))
    return schema


def held_rows(table: pa.Table) -> pa.Table:
    """Return rows with columns of the types of :func:`held_schema`, and no null among a dictionary's values."""
    for number, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            kind = _held_type(field.type)
            chunks = [_held(chunk, kind) for chunk in table.column(number).chunks]
            table = table.set_column(number, field.with_type(kind), pa.chunked_array(chunks, kind))
    return table


def _held_type(kind: pa.DataType) -> pa.DataType:
    if not pa.types.is_dictionary(kind) or kind.index_type not in NARROW:
        return kind
    return pa.dictionary(pa.int32(), kind.value_type, kind.ordered)


def _held(column: pa.DictionaryArray, kind: pa.DictionaryType) -> pa.DictionaryArray:
    """Return a column with indices of ``kind``'s type, and null where its value is null."""
    indices, values = column.indices, column.dictionary
    if values.null_count:
        known = np.asarray(values.is_valid())
        indices = pa.array(np.cumsum(known) - 1, mask=~known).take(indices)
        values = values.drop_null()
    elif column.type.index_type == kind.index_type:
        return column
    return pa.DictionaryArray.from_arrays(indices.cast(kind.index_type), values, ordered=kind.ordered)
