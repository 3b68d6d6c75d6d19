"""Rows out of JSON: each message is one object, and gives one row.

*Exactly one row a message.* pyarrow reads many objects at a time, one after the other, whatever lies between them. So a
kernel first finds the messages that are one object each (:mod:`watersmeet.kernels.json_text`). Only these reach the
parser, which can then not take the end of one for the beginning of the next. (Given a lone ``null``, pyarrow 26 ends
the process.)

*Nothing is lost.* A field that is there and does not fit its column makes the message a bad one, as does a number that
would become infinite. Where some messages
are bad, halves of what was read together are read again until these are found.

*Nothing to read.* A message that is null (a tombstone of Kafka), empty or blank gives a row of nulls, as Spark's
``from_json`` does.

*Moments* are read as text first: one without a zone is in the session's, and digits behind the microsecond are left
out, as ``from_json`` does both.

Cost: about 0.5 µs for a message of 100 bytes, of which the kernel takes a tenth. A bad message costs reading those
around it again, twice in all. ``TEXT_BYTES`` of messages are read at a time, or one longer one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from watersmeet.arrays import Int64s
from watersmeet.columns.keys import text_buffers
from watersmeet.engine.arrow_bytes import DAMAGE, check_rows
from watersmeet.kernels.json_text import BLANK, NO_OBJECT, find_objects
from watersmeet.spark.decoding.fitting import values_in
from watersmeet.spark.decoding.zones import LOCAL, MOMENT, moments_in_zone

__all__ = ["JsonRows", "unreadable_column"]

Bad = Callable[[int, str], None]
"""Gets the number of a bad message, and what is wrong with it."""

TEXT_BYTES: Final = 4 << 20
MORE_DIGITS: Final = r"(\.\d{6})\d+"
ZONE: Final = r"\d\d:\d\d(:\d\d(\.\d*)?)?(Z|[+-]\d\d(:?\d\d)?)$"
ROW: Final = re.compile(r" in row \d+$")


class JsonRows:
    """Reads messages as rows of ``schema``; moments without a zone are in ``zone``."""

    def __init__(self, schema: pa.Schema, zone: str) -> None:
        self._schema = schema
        self._zone = zone
        self._options = pa.json.ParseOptions(
            explicit_schema=pa.schema([pa.field(field.name, _as_read(field.type)) for field in schema]),
            unexpected_field_behavior="ignore",
        )

    def read(self, messages: pa.BinaryArray, bad: Bad) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
        """Yield the rows of messages, and the number of each row's message."""
        offset, data = text_buffers(messages)
        found = find_objects(offset, data)
        if messages.null_count:
            found[np.asarray(messages.is_null())] = BLANK
        for number in np.flatnonzero(found == NO_OBJECT).tolist():
            bad(number, "it is not one JSON object")
        if (found == BLANK).any():
            messages = pc.if_else(pa.array(found == BLANK), pa.scalar(b"{}", pa.binary()), messages)
        numbers = np.flatnonzero(found != NO_OBJECT)
        if len(numbers) < len(messages):
            messages = messages.take(pa.array(numbers))
        offset, _ = text_buffers(messages)
        first = 0
        while first < len(messages):
            enough = int(np.searchsorted(offset, int(offset[first]) + TEXT_BYTES, side="right")) - 1
            past = min(len(messages), max(first + 1, enough))
            yield from self._found(messages.slice(first, past - first), numbers[first:past], bad)
            first = past

    def _found(self, messages: pa.BinaryArray, numbers: Int64s, bad: Bad) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
        """Yield the rows of messages of which each is one object, and find the bad ones."""
        try:
            rows = self._rows(messages)
        except DAMAGE as error:
            reason = ROW.sub("", str(error))
        else:
            yield rows, numbers
            return
        if len(messages) == 1:
            bad(int(numbers[0]), reason)
            return
        half = len(messages) // 2
        yield from self._found(messages.slice(0, half), numbers[:half], bad)
        yield from self._found(messages.slice(half), numbers[half:], bad)

    def _rows(self, messages: pa.BinaryArray) -> pa.RecordBatch:
        """Return the rows of messages, of which each is one object; raise if one is not a row."""
        offset, _ = text_buffers(messages)
        begin, end = int(offset[0]), int(offset[-1])
        text = pa.BufferReader(messages.buffers()[2].slice(begin, end - begin))
        # One block, so that the reader looks for no ends of lines.
        options = pa.json.ReadOptions(use_threads=False, block_size=end - begin + 1)
        table = pa.json.read_json(text, options, self._options)
        check_rows(table)
        if table.num_rows != len(messages):
            message = f"{len(messages)} objects gave {table.num_rows} rows"
            raise ValueError(message)
        columns = [_typed(table.column(field.name).combine_chunks(), field.type, self._zone) for field in self._schema]
        for column in columns:
            for values in values_in(column):
                if pa.types.is_floating(values.type) and pc.any(pc.is_inf(values)).as_py():
                    message = f"a number is too large for the type {values.type}"
                    raise ValueError(message)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def unreadable_column(schema: pa.Schema) -> str | None:
    """Return the first column whose type JSON has no values for, or None."""
    return next((field.name for field in schema if not _is_readable(field.type)), None)


def _is_readable(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _is_readable(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_readable(field.type) for field in kind)
    known = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_string)
    return any(holds(kind) for holds in known) or _is_text_in_json(kind)


def _is_text_in_json(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _as_read(kind: pa.DataType) -> pa.DataType:
    """Return the type as which the parser reads a column."""
    if pa.types.is_list(kind):
        return pa.list_(_as_read(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _as_read(field.type)) for field in kind])
    return pa.string() if _is_text_in_json(kind) else kind


def _typed(column: pa.Array, kind: pa.DataType, zone: str) -> pa.Array:
    """Return what the parser read as values of their own type; raise if one is none."""
    if column.type == kind:
        return column
    if pa.types.is_list(kind):
        values = _typed(column.values, kind.value_type, zone)
        return pa.ListArray.from_arrays(column.offsets, values, type=kind, mask=column.is_null())
    if pa.types.is_struct(kind):
        fields = [_typed(column.field(place), field.type, zone) for place, field in enumerate(kind)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=column.is_null())
    if pa.types.is_timestamp(kind):
        return _moments(column, zone) if kind == MOMENT else _local(column)
    return column.cast(kind)


def _moments(text: pa.StringArray, zone: str) -> pa.Array:
    """Return text in ISO 8601 as moments; raise if one is none."""
    try:
        return text.cast(MOMENT)
    except pa.ArrowInvalid:  # without a zone, or with more digits
        text = _short(text)
        with_zone = pc.match_substring_regex(text, ZONE)
        nothing = pa.scalar(None, pa.string())
        local = pc.if_else(with_zone, nothing, text).cast(LOCAL)
        return pc.coalesce(
            pc.if_else(with_zone, text, nothing).cast(MOMENT),
            moments_in_zone(local, zone),
        )


def _local(text: pa.StringArray) -> pa.Array:
    """Return text in ISO 8601 as times without a zone; raise if one is none."""
    try:
        return text.cast(LOCAL)
    except pa.ArrowInvalid:
        return _short(text).cast(LOCAL)


def _short(text: pa.StringArray) -> pa.StringArray:
    """Return text without the digits behind the microsecond."""
    return pc.replace_substring_regex(text, MORE_DIGITS, r"\1")
