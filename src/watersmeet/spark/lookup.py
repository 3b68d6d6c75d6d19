"""A table to look up: a streaming ``join`` whose other side is a batch DataFrame.

A table has no time, so there is no window: a row of the stream meets all rows of the table, and is decided at once. So
nothing is kept, and no stateful operator is needed: the table goes to the workers with the plan, and ``mapInArrow``
probes it with the structures of a window. To these the table is the window of a stream that has come as a whole before
the first row of the other, in a count window as long as the table; so the window holds for every pair, and no candidate
is checked for it.

The table is read when ``join`` is called, so a program that starts again has the new one. It is read by one task, which
stops beyond the limit (``spark.watersmeet.tableBytes``); the driver never holds more than that.

Cost: a Python worker decodes and sorts the table when it first needs it, and remembers it. Each task unpickles the
compressed bytes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from watersmeet.engine.result import bounded_tables, gather_pairs, in_tables, result_schema, unmatched_rows
from watersmeet.spark.decoding.side import Side
from watersmeet.spark.envelope import collected, joinable
from watersmeet.spark.gc_freeze import freeze_once
from watersmeet.spark.pipeline import check_frames
from watersmeet.spark.remembered import Remembered
from watersmeet.spark.schema import arrow_schema, ddl, spark_result_schema
from watersmeet.spark.session import bytes_setting, check_session, check_time_zone, is_case_sensitive
from watersmeet.spec.errors import SpecificationError
from watersmeet.spec.expression import Predicate, StreamName
from watersmeet.spec.kinds import How, gives_pairs, preserved, returns_left_rows
from watersmeet.spec.options import Structure
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.window import count_window
from watersmeet.window.admission import keep_rows
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.plan import OTHER_SIDE, JoinPlan, plan_join
from watersmeet.window.stream_window import StreamWindow

__all__ = ["TABLE_BYTES", "Lookup", "look_up"]

TABLE_BYTES: Final = "spark.watersmeet.tableBytes"
"""Setting of a session: most bytes of a table, as Arrow holds it in memory."""
DEFAULT_TABLE_BYTES: Final = 64 << 20
"""As the server and the client of Spark Connect take messages of 128 MB."""
BATCH_BYTES: Final = 1 << 20
"""Results reach the JVM in batches of this size."""
READ: Final = {"nbytes": "bigint", "blob": "binary"}

ArrowMap = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_remembered: Remembered[str, StreamWindow] = Remembered()
"""Tables with their indexes, by the keys of their joins."""


@dataclass(frozen=True)
class Lookup:
    """What a task has to know."""

    plan: JoinPlan
    how: How
    stream: StreamName
    """The side that is a stream; the other one is the table."""
    result: pa.Schema
    table: bytes
    """The table's rows that can match, as a compressed Arrow IPC stream."""
    rows: int
    """As many rows of the table have come before each row of the stream."""
    key: str

    @classmethod
    def of(cls, plan: JoinPlan, how: How, stream: StreamName, result: pa.Schema, table: pa.Table) -> Self:
        """Return the look-up of a stream's rows in a table, all of whose rows can match."""
        rows = max(1, table.num_rows)
        plan = replace(plan, window=count_window(left=rows, right=rows))
        return cls(plan, how, stream, result, _compressed(table), rows, uuid.uuid4().hex)

    def window(self, sample: KeyedBatch) -> StreamWindow:
        """Return the table with its index, which is chosen by a first batch of the stream."""
        known = _remembered.get(self.key)
        if known is None:
            probing = StreamWindow(self.plan, self.stream)
            probing.announce(sample)
            known, first = StreamWindow(self.plan, OTHER_SIDE[self.stream]), 0
            for rows in pa.ipc.open_stream(self.table):
                count = rows.num_rows
                arrival = Arrival(np.arange(first, first + count), np.zeros(count, np.int64))
                known.append(KeyedBatch(self.plan, known.side, rows, arrival), probing)
                first += count
            _remembered.put(self.key, known, known.nbytes)
        return known

    def found(self, rows: pa.RecordBatch) -> Iterator[pa.Table]:
        """Yield the results of the stream's rows."""
        keep, _ = joinable(self.plan, self.stream, rows)
        kept = keep_rows(rows, keep)
        arrival = Arrival(np.zeros(kept.num_rows, np.int64), np.full(kept.num_rows, self.rows))
        probing = KeyedBatch(self.plan, self.stream, kept, arrival)
        met = np.zeros(kept.num_rows, bool)
        for matches in in_tables(probing, self.window(probing).probe(probing)):
            for match in matches:
                met[match.who] = True
            if gives_pairs(self.how):
                yield gather_pairs(probing, matches, self.result)
        if self.how == "semi":
            yield pa.Table.from_batches([kept.filter(pa.array(met))], self.result)
        elif self.stream in preserved(self.how):
            unmatched = np.ones(rows.num_rows, bool)
            unmatched[np.flatnonzero(keep)[met]] = False
            yield unmatched_rows(rows.filter(pa.array(unmatched)), self.stream, self.result)


def look_up(sides: Mapping[StreamName, Side], on: Predicate | str, *, how: How, structure: Structure) -> DataFrame:
    """Return what a stream's rows find in a table; see :func:`watersmeet.join`, whose ``window`` is None."""
    spark, _ = (check_frames({side: frame}) for side, frame in sides.items())
    frames = {side: _frame_of(side, frame) for side, frame in sides.items()}
    stream = _stream_of(frames)
    _check_kind(how, stream)
    check_session(spark)
    case_sensitive = is_case_sensitive(spark)
    schemas = {side: arrow_schema(frame.schema) for side, frame in frames.items()}
    plan = plan_join(
        schemas["left"],
        schemas["right"],
        parse_predicate(on) if isinstance(on, str) else on,
        count_window(1),
        structure,
        with_branches=True,
        case_sensitive=case_sensitive,
    )
    check_time_zone(spark, plan.predicate, plan.schemas)
    result = result_schema(schemas["left"], schemas["right"], how=how, case_sensitive=case_sensitive)
    lookup = Lookup.of(plan, how, stream, result, _read(spark, frames[OTHER_SIDE[stream]], plan, OTHER_SIDE[stream]))
    columns = spark_result_schema(
        {side: frame.schema for side, frame in frames.items() if side == "left" or not returns_left_rows(how)},
        result.names,
        lambda side, field: field.metadata if side == stream else {},  # a watermark stays with its column
    )
    renamed = frames[stream].toDF(*(f"column_{number}" for number in range(len(schemas[stream]))))
    return renamed.mapInArrow(_mapping(lookup), columns)


def _mapping(lookup: Lookup) -> ArrowMap:
    """Return the function for ``mapInArrow`` on the stream."""

    def find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in collected(batches, lookup.plan.schemas[lookup.stream]):
            for results in bounded_tables(lookup.found(rows)):
                yield from results.to_batches(max(1, results.num_rows * BATCH_BYTES // max(1, results.nbytes)))
        freeze_once("look up")

    return find


def _read(spark: SparkSession, frame: DataFrame, plan: JoinPlan, side: StreamName) -> pa.Table:
    """Return a table's rows that can match; raise for one that is larger than the limit."""
    schema = plan.schemas[side]
    given = bytes_setting(spark, TABLE_BYTES, example=DEFAULT_TABLE_BYTES)
    limit = DEFAULT_TABLE_BYTES if given is None else given

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = 0
        for rows in collected(batches, schema):
            kept = keep_rows(rows, joinable(plan, side, rows)[0])
            held += kept.nbytes
            fits = held <= limit
            blob = _compressed(pa.Table.from_batches([kept])) if fits else None
            yield pa.RecordBatch.from_arrays([pa.array([held]), pa.array([blob], pa.binary())], names=list(READ))
            if not fits:
                return

    plain = frame.toDF(*(f"column_{number}" for number in range(len(schema))))
    parts = plain.repartition(1).mapInArrow(pack, ddl(READ)).collect()
    if any(part.blob is None for part in parts):
        raise SpecificationError(
            f"the {side} side is a table of {max(part.nbytes for part in parts):,} bytes or more",
            f"tables of at most {limit:,} bytes, which every Python worker holds in memory",
            f"select fewer columns or rows, or set {TABLE_BYTES} to more; or read the table as a stream, with a window",
        )
    tables = [pa.ipc.open_stream(part.blob).read_all() for part in parts]
    return pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()


def _compressed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _frame_of(side: StreamName, given: Side) -> DataFrame:
    if isinstance(given, DataFrame):
        return given
    raise SpecificationError(
        f"window=None, and the {side} side is decoded",
        "window=None with two DataFrames, of which one is streaming and the other a table to look up",
        "decode the column with Spark, by from_json or by reading the files, or give a window",
    )


def _stream_of(frames: Mapping[StreamName, DataFrame]) -> StreamName:
    """Return the side that is a stream; raise unless the other one is a table."""
    streaming = [side for side, frame in frames.items() if frame.isStreaming]
    if len(streaming) != 1:
        kind = "streaming" if streaming else "batch"
        raise SpecificationError(
            f"window=None, and both sides are {kind} DataFrames",
            "window=None where one side is streaming and the other a batch DataFrame, a table to look up",
            'give a window, such as wm.time_window("10 minutes", ts="ts")'
            + ("" if streaming else ", or use Spark's own join"),
        )
    return streaming[0]


def _check_kind(how: How, stream: StreamName) -> None:
    """Raise unless each of the stream's rows decides a result, or none, at once."""
    if set(preserved(how)) <= {stream} and (stream == "left" or not returns_left_rows(how)):
        return
    allowed = ("inner", "left", "semi", "anti") if stream == "left" else ("inner", "right")
    raise SpecificationError(
        f"how={how!r} where the {OTHER_SIDE[stream]} side is a table",
        f"{', '.join(map(repr, allowed))}: that a row of the table meets none is known only when the stream has ended",
        "keep the stream's rows instead, or find the table's other rows by a query over the results",
    )
