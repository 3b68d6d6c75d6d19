"""How many bytes rows take, each by its own values: so what is put together stays within bounds, however rows differ.

A row's bytes in a column of text are the difference of two offsets, and in a list those of the stretch of values that
it has. So they follow from offsets alone, at any depth, and values are never read. Every value counts as at least one
byte, so no offset of what is gathered is larger than the sum of the widths.

Cost: a few array operations per column that is not of fixed width, for the rows asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int32s, Int64s

__all__ = [
    "column_widths",
    "cuts_at",
    "fixed_width",
    "row_widths",
    "rows_width",
    "same_width",
    "table_width",
    "table_widths",
    "whole_width",
]


def has_bytes(kind: pa.DataType) -> bool:
    """Tell whether values are texts or bytes, of any length."""
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(is_text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def row_widths(rows: pa.RecordBatch, at: Int32s | Int64s) -> Int64s | int:
    """Return the bytes that each of the given rows takes: one number if all take the same."""
    fixed, others = 0, []
    for column in rows.columns:
        width = fixed_width(column.type)
        if width is None:
            others.append(column)
        else:
            fixed += width
    if not others:
        return fixed
    return sum((column_widths(column, at) for column in others), np.full(len(at), fixed))


def table_width(table: pa.Table) -> int:
    """Return the bytes that all rows of a table take: the sum of :func:`table_widths`, without a look at each row."""
    return sum(whole_width(chunk) for column in table.columns for chunk in column.chunks)


def table_widths(table: pa.Table, *, but_fixed: bool = False) -> Int64s:
    """Return the bytes that each row of a table takes; perhaps without the columns of fixed width."""
    total = np.zeros(table.num_rows, np.int64)
    for column in table.columns:
        width, begin = fixed_width(column.type), 0
        if width is not None:
            total += 0 if but_fixed else width
            continue
        for chunk in column.chunks:
            total[begin : begin + len(chunk)] += column_widths(chunk, np.arange(len(chunk)))
            begin += len(chunk)
    return total


def same_width(widths: Int64s | int, count: int) -> Int64s:
    """Return what :func:`row_widths` does for so many rows, as an array."""
    return np.broadcast_to(np.asarray(widths, np.int64), (count,))


def column_widths(column: pa.Array, at: Int32s | Int64s) -> Int64s:
    """Return the bytes that each of the given rows takes in a column."""
    begin = np.asarray(at, np.int64)
    return _spanned(column, begin, begin + 1)


def has_fixed_values(kind: pa.DataType) -> bool:
    """Tell whether all values of a column take the same bytes, without a dictionary."""
    return fixed_width(kind.value_type if pa.types.is_dictionary(kind) else kind) is not None


def value_widths(column: pa.Array, at: Int32s | Int64s) -> Int64s:
    """Return the bytes that the values of the given rows take, without a dictionary."""
    if not isinstance(column, pa.DictionaryArray):
        return column_widths(column, at)
    if not len(column.dictionary):
        return np.ones(len(at), np.int64)
    return column_widths(column.dictionary, np.asarray(column.indices.take(pa.array(at)).fill_null(0)))


def whole_width(column: pa.Array) -> int:
    """Return the bytes that all rows take in a column."""
    width = fixed_width(column.type)
    if width is not None:
        return width * len(column)
    return int(_spanned(column, np.zeros(1, np.int64), np.full(1, len(column)))[0])


def rows_width(rows: pa.RecordBatch) -> int:
    """Return the bytes that all rows take."""
    return sum(map(whole_width, rows.columns))


def cuts_at(widths: Int64s, most: int) -> Iterator[slice]:
    """Yield stretches of rows that take at most ``most`` bytes together, or are a single row."""
    ends = np.cumsum(widths)
    begin, before = 0, 0
    if len(ends) and ends[-1] <= most:
        yield slice(0, len(ends))
        return
    while begin < len(ends):
        end = max(begin + 1, int(np.searchsorted(ends, before + most, "right")))
        yield slice(begin, end)
        begin, before = end, int(ends[end - 1])


@lru_cache(maxsize=1024)
def fixed_width(kind: pa.DataType) -> int | None:
    """Return the bytes of a value, at least one; None if they depend on the value."""
    if isinstance(kind, pa.BaseExtensionType):
        return fixed_width(kind.storage_type)
    if pa.types.is_null(kind):
        return 1
    if pa.types.is_dictionary(kind):  # pairs share its values
        return fixed_width(kind.index_type)
    if pa.types.is_struct(kind):
        widths = [fixed_width(field.type) for field in kind]
        return None if None in widths else max(1, sum(width or 0 for width in widths))
    if pa.types.is_fixed_size_list(kind):
        width = fixed_width(kind.value_type)
        return None if width is None else max(1, width * int(kind.list_size))
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        return max(1, int(kind.bit_width) // 8)
    return None


def _spanned(column: pa.Array, begin: Int64s, end: Int64s) -> Int64s:
    """Return the bytes of a column's values from ``begin`` to ``end``, for each two."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _spanned(column.storage, begin, end)
    width = fixed_width(kind)
    if width is not None:
        return (end - begin) * width
    if pa.types.is_struct(kind):
        return sum((_spanned(column.field(number), begin, end) for number in range(kind.num_fields)), end - begin)
    if pa.types.is_fixed_size_list(kind):
        first, size = column.offset, kind.list_size
        return (end - begin) + _spanned(column.values, (begin + first) * size, (end + first) * size)
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind)
    if is_list or has_bytes(kind):
        offsets = _offsets(column)
        begins, ends = offsets.take(begin).astype(np.int64), offsets.take(end).astype(np.int64)
        own = (end - begin) * offsets.itemsize
        return own + (_spanned(column.values, begins, ends) if is_list else ends - begins)
    return (end - begin) * max(1, -(-int(column.nbytes) // max(1, len(column))))


def _offsets(column: pa.Array) -> Int32s | Int64s:
    kind, data = column.type, column.buffers()[1]
    is_large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) or pa.types.is_large_list(kind)
    width = np.dtype(np.int64 if is_large else np.int32)
    if data is None or data.size == 0:
        return np.zeros(len(column) + 1, width)
    return np.frombuffer(data, width, len(column) + 1, column.offset * width.itemsize)
