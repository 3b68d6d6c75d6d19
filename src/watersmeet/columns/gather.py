"""Gathers rows of several record batches into columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int32s
from watersmeet.columns.plain import is_plain
from watersmeet.kernels.gather import gather_values

__all__ = ["Columns", "gather_columns"]

Columns = list[pa.Array | pa.ChunkedArray]


def gather_columns(batches: list[pa.RecordBatch], rows: list[Int32s]) -> Columns:
    """Return every column of the given rows of each batch: a plain column as an array, others with a chunk per batch.

    All batches have the same schema and at least one row.
    """
    together = rows[0] if len(rows) == 1 else np.concatenate(rows)
    ends = np.cumsum([len(some) for some in rows])
    gathered: Columns = []
    sources: list[list[int]] = []
    widths: list[int] = []
    targets: list[int] = []
    for number, column in enumerate(batches[0].schema):
        parts = [batch.column(number) for batch in batches]
        if is_plain(column.type) and not any(part.null_count for part in parts):
            width = column.type.bit_width // 8
            target = pa.allocate_buffer(len(together) * width)
            gathered.append(pa.Array.from_buffers(column.type, len(together), [None, target], 0))
            sources.append([part.buffers()[1].address + part.offset * width for part in parts])
            widths.append(width)
            targets.append(target.address)
        else:
            taken = [part.take(pa.array(some)) for part, some in zip(parts, rows, strict=True)]
            gathered.append(pa.chunked_array(taken, column.type))
    if widths:
        sizes = np.array([batch.num_rows for batch in batches])
        gather_values(np.array(sources), sizes, np.array(widths), together, ends, np.array(targets))
    return gathered
