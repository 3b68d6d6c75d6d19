"""Gathers rows of several record batches into columns.

Arrow counts the bytes of a text column, and the values of a list column, in 32 bits: more is gathered in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int32s, Int64s
from watersmeet.columns.plain import plain_width
from watersmeet.columns.widths import (
    column_widths,
    cuts_at,
    fixed_width,
    has_bytes,
    table_width,
    table_widths,
    whole_width,
)
from watersmeet.kernels.gather import gather_stretch, gather_values
from watersmeet.kernels.team import ALONE, address_of

__all__ = ["Columns", "gather_columns", "in_order", "picked"]

MOST_BYTES: Final = 2**31 - 1
"""Of one piece of a column."""

Columns = list[pa.Array | pa.ChunkedArray]


def gather_columns(batches: list[pa.RecordBatch], rows: list[Int32s], team: int = ALONE) -> Columns:
    """Return every column of the given rows of each batch: a plain column as an array, others with chunks per batch.

    All batches have the same schema and at least one row.
    """
    ends = list(accumulate(map(len, rows)))
    count = ends[-1]
    gathered: Columns = []
    sources: list[int] = []
    widths: list[int] = []
    targets: list[int] = []
    for columns in zip(*(batch.columns for batch in batches), strict=True):
        kind, width = columns[0].type, plain_width(columns[0].type)
        if width and not any(part.null_count for part in columns):
            target = pa.allocate_buffer(count * width)
            gathered.append(pa.Array.from_buffers(kind, count, [None, target], 0))
            sources += [part.buffers()[1].address + part.offset * width for part in columns]
            widths.append(width)
            targets.append(target.address)
        else:
            gathered.append(pa.chunked_array(list(_taken(kind, columns, rows)), kind))
    if widths:
        sizes = [batch.num_rows for batch in batches]
        numbers = [np.ascontiguousarray(some, np.int32) for some in rows]
        at = [address_of(some) for some in numbers]
        words = (np.array(some, np.int64) for some in (sources, sizes, widths, at, ends, targets))
        gather_values(team, gather_stretch(), *words)
    return gathered


def _taken(kind: pa.DataType, parts: Sequence[pa.Array], rows: list[Int32s]) -> Iterator[pa.Array]:
    """Yield the given rows of each part of a column, in as many pieces as they need.

    Only what may be too much is measured: rows that all were as long as a whole part.
    """
    is_fixed, is_text = fixed_width(kind) is not None, has_bytes(kind)
    for part, some in zip(parts, rows, strict=True):
        longest = part.get_total_buffer_size() if is_text else 0 if is_fixed else whole_width(part)
        if len(some) * longest <= MOST_BYTES:
            yield part.take(pa.array(some))
            continue
        for piece in cuts_at(column_widths(part, some), MOST_BYTES):
            yield part.take(pa.array(some[piece]))


def in_order(table: pa.Table, place: Int64s) -> pa.Table:
    """Return the rows of a table that lie at these places, all different, in the order of the places."""
    if table_width(table) <= MOST_BYTES:
        return table.take(pa.array(place))
    widths = table_widths(table)
    batches = table.to_batches()
    return pa.Table.from_batches([picked(batches, place[part]) for part in cuts_at(widths[place], MOST_BYTES)])


def picked(batches: list[pa.RecordBatch], place: Int64s) -> pa.RecordBatch:
    """Return rows (at least one) of several batches as one, by their places in all of them."""
    starts = np.cumsum([0, *map(len, batches[:-1])])
    which = np.searchsorted(starts, place, "right") - 1
    order = np.argsort(which, kind="stable")
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    ends = np.searchsorted(which[order], np.arange(len(batches) + 1))
    parts = [
        batch.take(pa.array(place[order[begin:end]] - start))
        for batch, start, begin, end in zip(batches, starts, ends[:-1], ends[1:], strict=True)
        if end > begin
    ]
    together = parts[0] if len(parts) == 1 else pa.Table.from_batches(parts).unify_dictionaries().combine_chunks()
    return (together if len(parts) == 1 else together.to_batches()[0]).take(pa.array(back))
