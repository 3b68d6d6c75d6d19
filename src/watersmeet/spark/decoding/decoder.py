"""Turns what Spark gives a packer of a decoded side into rows: messages, and the columns that are kept beside them.

A message is read as a whole or not at all. A bad one ends the query, which says which it is, or is left out and
counted, as the user wants it. A message that is null has no rows, but in JSON, where each has one.

Cost: that of the format. Columns kept beside are gathered by the number of each row's message. Where bad messages are
left out, the rows of one message are held until all of it has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from watersmeet.arrays import Int64s
from watersmeet.engine.arrow_bytes import DAMAGE
from watersmeet.spark.decoding.arrow_rows import arrow_rows
from watersmeet.spark.decoding.json_rows import Bad, JsonRows
from watersmeet.spark.decoding.parquet_rows import parquet_rows
from watersmeet.spec.errors import SchemaError
from watersmeet.spec.options import MessageFormat

__all__ = ["Decoder", "LeftOut", "decoded"]

FORMATS: Final[dict[MessageFormat, str]] = {
    "json": "one JSON object a message",
    "arrow": "an Arrow IPC stream or file that is not compressed",
    "parquet": "a Parquet file",
}
"""What a message has to be."""
ONE_BY_ONE: Final[dict[str, Callable[[pa.Buffer, pa.Schema], Iterator[pa.RecordBatch]]]] = {
    "arrow": arrow_rows,
    "parquet": parquet_rows,
}
SHOWN_BYTES: Final = 60
SHOWN_CHARACTERS: Final = 300
"""What an error shows of a reason, and of a kept value, which may be as long as the message."""


@dataclass(slots=True)
class LeftOut:
    """How many bad messages a task has left out."""

    messages: int = 0


@dataclass(frozen=True)
class Decoder:
    """How the messages of a stream are read: they are the first column of what Spark gives."""

    format: MessageFormat
    rows: pa.Schema
    """The columns that messages have."""
    kept: pa.Schema
    """The columns beside the messages, which all rows of a message get, behind their own."""
    zone: str
    """The session's time zone."""
    drops_bad: bool

    @property
    def schema(self) -> pa.Schema:
        """The columns of the stream."""
        return pa.schema([*self.rows, *self.kept])

    def read(self, batches: Iterable[pa.RecordBatch], left_out: LeftOut) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task's messages."""
        read = JsonRows(self.rows, self.zone).read if self.format == "json" else self._one_by_one
        before = 0
        for batch in batches:
            messages = batch.column(0).cast(pa.binary())
            beside = [column.cast(field.type) for column, field in zip(batch.columns[1:], self.kept, strict=True)]
            for rows, numbers in read(messages, self._bad(messages, beside, before, left_out)):
                everything = len(numbers) == len(messages) and np.array_equal(numbers, np.arange(len(messages)))
                own = beside if everything else [column.take(pa.array(numbers)) for column in beside]
                yield pa.RecordBatch.from_arrays([*rows.columns, *own], schema=self.schema)
            before += len(messages)

    def _one_by_one(self, messages: pa.BinaryArray, bad: Bad) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
        for number, message in enumerate(messages):
            if not message.is_valid:
                continue
            found = ONE_BY_ONE[self.format](message.as_buffer(), self.rows)
            if self.drops_bad:
                found = _all_or_none(found)
            try:
                for rows in found:
                    yield rows, np.full(rows.num_rows, number)
            except DAMAGE as error:
                bad(number, str(error))

    def _bad(self, messages: pa.BinaryArray, beside: list[pa.Array], before: int, left_out: LeftOut) -> Bad:
        """Return what becomes of a bad message of a batch, before which so many others came."""

        def bad(number: int, reason: str) -> None:
            if self.drops_bad:
                left_out.messages += 1
                return
            message = messages[number].as_buffer()
            context = TaskContext.get()
            where = [f"number {before + number}", f"of task {context.partitionId() if context else 0}"]
            where += [f"{field.name} {_shown(column[number])}" for field, column in zip(self.kept, beside, strict=True)]
            columns = ", ".join(f"{field.name} {field.type}" for field in self.rows)
            raise SchemaError(
                f"a message cannot be decoded as {self.format}: {_cut(reason)}. It is {', '.join(where)}, has "
                f"{len(message):,} bytes and begins with {message[:SHOWN_BYTES].to_pybytes()!r}",
                f"{FORMATS[self.format]}, with the columns {columns}",
                'correct what writes such messages; or give decode(…) bad="drop", which leaves them out and counts '
                "them as bad_messages",
            )

        return bad


def decoded(batches: Iterable[pa.RecordBatch], decoder: Decoder | None, left_out: LeftOut) -> Iterable[pa.RecordBatch]:
    """Return a task's rows: what Spark gives, or what that decodes to."""
    return batches if decoder is None else decoder.read(batches, left_out)


def _all_or_none(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from list(found)


def _shown(value: pa.Scalar) -> str:
    """Return a kept value as text: that of Arrow for a date or time, as Python does not have all that Spark has."""
    if pa.types.is_temporal(value.type):
        return str(value.cast(pa.string()))
    try:
        return _cut(str(value))
    except (OverflowError, ValueError):  # there is one in it
        return f"{value.type}"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
