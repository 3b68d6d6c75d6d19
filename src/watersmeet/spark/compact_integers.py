"""Stores whole numbers in as few bytes as the span of a column's values needs, for rows in the state store.

Rows of a run lie close together in time, and often in value. So the distances of most 64-bit values from the smallest
one fit in 32, 16 or 8 bits. Every byte saved is not copied between processes, not written to the log of changes, and
not read again after a failure. Columns with nulls and columns of other types do not change.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.columns.plain import Words, from_words, words_of

__all__ = ["compact", "restore"]

BASE: Final = b"watersmeet base"
WORD_BITS: Final = 64
SMALL: Final = (np.uint8, np.uint16, np.uint32)


def compact(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with compact whole numbers; the metadata of such a field has the value to add."""
    columns, fields = [], []
    for column, field in zip(rows.columns, rows.schema, strict=True):
        small, smallest = _compacted(column) if _is_wide(column) else (None, 0)
        if small is None:
            columns.append(column)
            fields.append(field)
        else:
            columns.append(pa.array(small))
            fields.append(pa.field(field.name, columns[-1].type, metadata={BASE: str(smallest)}))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, rows.schema.metadata))


def restore(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows, of ``schema``, that :func:`compact` was given."""
    columns = [
        _restored(column, compacted.metadata, field.type)
        for column, compacted, field in zip(rows.columns, rows.schema, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _restored(column: pa.Array, metadata: dict[bytes, bytes] | None, kind: pa.DataType) -> pa.Array:
    smallest = (metadata or {}).get(BASE)
    if smallest is None:
        return column
    words = column.to_numpy().astype(np.int64)
    words += np.int64(int(smallest))
    return from_words(kind, words)


def _is_wide(column: pa.Array) -> bool:
    kind = column.type
    whole = pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind)
    return bool(
        whole and kind.bit_width == WORD_BITS and kind != pa.uint64() and len(column) > 0 and not column.null_count
    )


def _compacted(column: pa.Array) -> tuple[Words | None, int]:
    words = words_of(column)
    smallest, largest = int(words.min()), int(words.max())
    for kind in SMALL:
        if largest - smallest <= np.iinfo(kind).max:
            return (words - np.int64(smallest)).astype(kind), smallest
    return None, 0
