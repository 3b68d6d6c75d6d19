"""Rows out of Arrow IPC bytes, of a stream or a file: each message has any number of rows.

A file is a stream between two marks, with a list of places behind it; it is read as that stream. All bytes are checked
before a kernel sees them (:mod:`watersmeet.engine.arrow_bytes`). Compressed rows are refused. So is a stream without a
mark at its end: to Arrow one that was cut between two batches would look whole.

Cost: columns of the right type are views of the message. Dictionaries and views of text are written out, and may then
be far larger than the message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from watersmeet.engine.arrow_bytes import read_rows
from watersmeet.spark.decoding.fitting import check_columns, fitted

__all__ = ["arrow_rows"]

MARK: Final = b"ARROW1"
BEGIN: Final = 8
"""Bytes of the mark at the beginning, with what fills it up."""
END: Final = struct.Struct("<i6s")
"""The length of the list of places, and the mark at the end."""
END_OF_STREAM: Final = b"\xff\xff\xff\xff\0\0\0\0"


def arrow_rows(message: pa.Buffer, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a message; raise before the first if it is damaged, or has other columns."""
    stream = _stream_of(message) if message[: len(MARK)].to_pybytes() == MARK else message
    if stream[-len(END_OF_STREAM) :].to_pybytes() != END_OF_STREAM:
        complaint = "the stream has no end"
        raise ValueError(complaint)
    found, batches = read_rows(stream)
    check_columns(found, schema)
    for batch in batches:
        yield fitted(batch, schema)


def _stream_of(file: pa.Buffer) -> pa.Buffer:
    """Return the stream that lies in a file."""
    size = len(file)
    if size >= BEGIN + END.size:
        places, mark = END.unpack(file[size - END.size :].to_pybytes())
        if mark == MARK and 0 <= places <= size - BEGIN - END.size:
            return file.slice(BEGIN, size - BEGIN - END.size - places)
    message = "the file has no end"
    raise ValueError(message)
