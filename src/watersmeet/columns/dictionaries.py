"""Dictionary columns as joins hold them: with indices of 32 bits at least, and without a null among their values.

Rows of many pushes are put together, in windows and in results, and with them the values of their dictionaries. These
may be more than indices of 8 or 16 bits can count, however few each push has; and Arrow puts no dictionaries together
that have a null among their values, or that lie within structs, lists and maps. So rows are changed once, when they
come in. An index of a null becomes a null, so such a column may always have nulls. Within a nested column the values
themselves take the dictionary's place.

Cost: two array operations for a dictionary column, one for a nested one with dictionaries in it; other columns, and
rows without dictionaries, stay as they are.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

__all__ = ["has_dictionaries", "held_rows", "held_schema"]

NARROW: Final = (pa.int8(), pa.uint8(), pa.int16(), pa.uint16())
"""Types of indices that may be too few."""


def has_dictionaries(schema: pa.Schema) -> bool:
    """Tell whether a column is a dictionary, or has some in it."""
    return any(pa.types.is_dictionary(kind) or _decoded(kind) != kind for kind in schema.types)


def held_schema(schema: pa.Schema) -> pa.Schema:
    """Return a stream's schema as a join has it, in its windows and in its results."""
    for number, field in enumerate(schema):
        schema = schema.set(number, _held_field(field))
    return schema


def held_rows(table: pa.Table) -> pa.Table:
    """Return rows with columns of the types of :func:`held_schema`, and no null among a dictionary's values."""
    for number, field in enumerate(table.schema):
        if not (pa.types.is_dictionary(field.type) or pa.types.is_nested(field.type)):
            continue
        held = _held_field(field)
        if pa.types.is_dictionary(field.type):
            chunks = [_held(chunk, held.type) for chunk in table.column(number).chunks]
            table = table.set_column(number, held, pa.chunked_array(chunks, held.type))
        elif held.type != field.type:
            table = table.set_column(number, held, table.column(number).cast(held.type))
    return table


def _held_field(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_dictionary(kind):
        index = pa.int32() if kind.index_type in NARROW else kind.index_type
        return pa.field(field.name, pa.dictionary(index, kind.value_type, kind.ordered), metadata=field.metadata)
    return _decoded_field(field)


def _decoded(kind: pa.DataType) -> pa.DataType:
    """Return a type with the values of the dictionaries in it in their place."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_struct(kind):
        return pa.struct([_decoded_field(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_decoded(kind.key_type)), _decoded_field(kind.item_field), kind.keys_sorted
        )
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        field = _decoded_field(kind.value_field)
        if pa.types.is_fixed_size_list(kind):
            return pa.list_(field, kind.list_size)
        return pa.large_list(field) if pa.types.is_large_list(kind) else pa.list_(field)
    return kind


def _decoded_field(field: pa.Field) -> pa.Field:
    """Return a field of the decoded type; it may have nulls where it was a dictionary's."""
    decoded = _decoded(field.type)
    if decoded == field.type:
        return field
    return field.with_type(decoded).with_nullable(field.nullable or pa.types.is_dictionary(field.type))


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
