"""Rows out of Parquet bytes, such as the ``content`` of a file: each message has any number of rows.

Row groups are read in pieces of ``ROWS_AT_ONCE``, and only the columns that are wanted; so a small file of very many
rows, which Parquet allows, takes no more memory than any other.

Moments that Spark has written in its older form, INT96, have no zone in the file; they are in UTC.

Cost: that of pyarrow's reader; a thread of its own would compete with Spark's other tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.engine.arrow_bytes import check_rows
from watersmeet.spark.decoding.fitting import check_columns, fitted

__all__ = ["parquet_rows"]

ROWS_AT_ONCE: Final = 1 << 18
OLDER_MOMENT: Final = "INT96"


def parquet_rows(message: pa.Buffer, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a message; raise before the first if it has other columns."""
    file = pq.ParquetFile(pa.BufferReader(message), coerce_int96_timestamp_unit="us")
    columns = [file.schema.column(place) for place in range(len(file.schema))]
    older = frozenset(column.path for column in columns if column.physical_type == OLDER_MOMENT)
    check_columns(file.schema_arrow, schema, older)
    for batch in file.iter_batches(ROWS_AT_ONCE, columns=schema.names, use_threads=False):
        check_rows(batch)
        yield fitted(batch, schema)
