"""Messages of each format, and the rows that a decoder makes of them, without a session."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet.spark.decoding.decoder import Decoder, LeftOut
from watersmeet.spec.options import MessageFormat

__all__ = ["ROW", "UTC_MOMENT", "decoded", "written"]

UTC_MOMENT = pa.timestamp("us", "UTC")
ROW = pa.schema([("ts", UTC_MOMENT), ("s", pa.string()), ("x", pa.int32())])


def decoded(
    form: MessageFormat,
    messages: Sequence[bytes | None],
    schema: pa.Schema = ROW,
    *,
    drops_bad: bool = False,
    zone: str = "UTC",
    message_type: pa.DataType | None = None,
) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of messages, each with its message's number, and how many messages were left out."""
    decoder = Decoder(form, schema, pa.schema([("number", pa.int64())]), zone, drops_bad)
    columns = [pa.array(messages, pa.binary()).cast(message_type or pa.binary()), pa.array(range(len(messages)))]
    whole = pa.RecordBatch.from_arrays(columns, names=["message", "number"])
    left_out = LeftOut()
    cut = len(messages) // 2
    found = pa.Table.from_batches(decoder.read([whole.slice(0, cut), whole.slice(cut)], left_out), decoder.schema)
    found.validate(full=True)
    return found.to_pylist(), left_out.messages


def written(form: MessageFormat, rows: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    if form == "parquet":
        pq.write_table(rows, sink, **options)
    else:
        new = pa.ipc.new_file if options.pop("file", False) else pa.ipc.new_stream
        with new(sink, rows.schema, **options) as writer:
            writer.write_table(rows, max_chunksize=2)
    return sink.getvalue()
