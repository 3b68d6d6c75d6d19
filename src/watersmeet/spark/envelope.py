"""Envelopes: many rows for one core in one Spark row, so that Python never walks rows.

``packer`` makes the function that runs in ``mapInArrow`` on each side, before the shuffle. It collects a task's Arrow
batches, leaves out rows that cannot match (nulls on an axis, rows that fail their side's own conjuncts), routes the
rest and emits for each core one envelope. Its blob is an Arrow IPC stream of the rows; hidden last columns say which
of them the core stores, where it does not store all, and in a count window their arrival numbers.

``unpacker`` makes the function that runs in ``mapInArrow`` after the join and turns blobs of pairs into columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext

from watersmeet.spark.routing import Routing, route_rows
from watersmeet.spec.expression import Side
from watersmeet.window.admission import drop_filtered, drop_nulls, keep_rows
from watersmeet.window.batch import Arrival
from watersmeet.window.plan import JoinPlan

__all__ = [
    "ENVELOPE",
    "Address",
    "Envelope",
    "arranger",
    "binary_array",
    "envelopes",
    "one_batch",
    "open_blob",
    "packer",
    "seal",
    "to_blob",
    "unpacker",
]

ENVELOPE: Final = (
    "core int, side string, part bigint, null_rows bigint, left_rows bigint, right_rows bigint, blob binary"
)
"""``part`` orders a side's envelopes; ``left_rows`` and ``right_rows`` count the streams of a count window."""
STORED: Final = "\0stored"
SEQUENCE: Final = "\0sequence"
SEEN: Final = "\0seen"
HIDDEN: Final = (STORED, SEQUENCE, SEEN)
ROWS_PER_ENVELOPE: Final = 1 << 20

Bools = npt.NDArray[np.bool_]
ArrowMap = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Address:
    """Whose rows an envelope carries, and what else it says: one row of ``ENVELOPE`` but for the blob."""

    core: int
    side: Side
    part: int
    null_rows: int = 0
    left_rows: int = 0
    right_rows: int = 0


@dataclass(frozen=True, slots=True)
class Envelope:
    """Rows of one side that one core gets; ``stored`` tells which it keeps (None: all)."""

    rows: pa.RecordBatch
    stored: Bools | None = None
    arrival: Arrival | None = None


def packer(plan: JoinPlan, side: Side, routing: Routing, core_ids: tuple[int, ...]) -> ArrowMap:
    """Return the function that packs one side's rows; ``core_ids`` are the keys Spark shuffles by."""

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        routed = 0
        for part, rows in enumerate(_collected(batches, plan.schemas[side]), start=_first_part()):
            keep = np.ones(rows.num_rows, bool)
            nulls = drop_nulls(plan, side, rows, keep)
            drop_filtered(plan, side, rows, keep)
            kept = Envelope(keep_rows(rows, keep))
            yield from _sealed(envelopes(plan, side, routing, kept, routed), side, core_ids, part, nulls)
            routed += kept.rows.num_rows

    return pack


def arranger(plan: JoinPlan, side: Side, sequencer: int) -> ArrowMap:
    """Return the function that sends all of one side's rows to the sequencer, where a count window numbers them."""

    def arrange(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part, rows in enumerate(_collected(batches, plan.schemas[side]), start=_first_part()):
            yield _row(Address(sequencer, side, part), to_blob(rows))

    return arrange


def unpacker(schema: pa.Schema) -> ArrowMap:
    """Return the function that turns blobs of pairs into columns of ``schema``."""

    def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column(0):
                if blob.is_valid:
                    yield from pa.ipc.open_stream(blob.as_buffer()).read_all().cast(schema).to_batches()

    return unpack


def envelopes(
    plan: JoinPlan, side: Side, routing: Routing, whole: Envelope, routed: int
) -> Iterator[tuple[int, Envelope]]:
    """Yield what each core gets of some rows; ``routed`` counts the rows routed before, for storing in turn."""
    rows, arrival = whole.rows, whole.arrival
    for route in route_rows(routing, plan, side, rows, routed):
        everything = len(route.rows) == rows.num_rows
        some = None if arrival is None else Arrival(arrival.sequence[route.rows], arrival.seen[route.rows])
        yield route.core, Envelope(rows if everything else rows.take(pa.array(route.rows)), route.stored, some)


def to_blob(rows: pa.RecordBatch | pa.Table) -> pa.Buffer:
    """Return rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue()


def binary_array(blob: pa.Buffer | None) -> pa.BinaryArray:
    """Return an array of one blob (or a null), which is not copied."""
    if blob is None:
        return pa.nulls(1, pa.binary())
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(np.array([0, blob.size], np.int32)), blob])


def seal(envelope: Envelope) -> pa.Buffer:
    """Return an envelope's content as bytes."""
    rows = envelope.rows
    if envelope.stored is not None:
        rows = rows.append_column(STORED, pa.array(envelope.stored))
    if envelope.arrival is not None:
        rows = rows.append_column(SEQUENCE, pa.array(envelope.arrival.sequence))
        rows = rows.append_column(SEEN, pa.array(envelope.arrival.seen))
    return to_blob(rows)


def open_blob(blob: bytes, schema: pa.Schema) -> Envelope:
    """Return the content of an envelope without copying the rows."""
    table = pa.ipc.open_stream(pa.py_buffer(blob)).read_all()
    hidden = {name: table.column(name).to_numpy() for name in HIDDEN if name in table.column_names[len(schema) :]}
    rows = one_batch(table.select(list(range(len(schema)))).cast(schema))
    arrival = Arrival(hidden[SEQUENCE], hidden[SEEN]) if SEQUENCE in hidden else None
    return Envelope(rows, hidden.get(STORED), arrival)


def _sealed(
    routed: Iterator[tuple[int, Envelope]], side: Side, core_ids: tuple[int, ...], part: int, nulls: int
) -> Iterator[pa.RecordBatch]:
    """Yield envelopes as Spark rows; the first says how many rows were left out for a null."""
    for core, envelope in routed:
        yield _row(Address(core_ids[core], side, part, nulls), seal(envelope))
        nulls = 0
    if nulls:
        yield _row(Address(core_ids[0], side, part, nulls), None)


def _row(address: Address, blob: pa.Buffer | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([address.core], pa.int32()),
            pa.array([address.side], pa.string()),
            *(
                pa.array([n], pa.int64())
                for n in (address.part, address.null_rows, address.left_rows, address.right_rows)
            ),
            binary_array(blob),
        ],
        names=[column.split()[0] for column in ENVELOPE.split(", ")],
    )


def _first_part() -> int:
    """Return a number from which this task counts its parts, so that parts of later tasks come after its own."""
    context = TaskContext.get()
    return (context.partitionId() if context else 0) << 32


def _collected(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield a task's batches, put together to a size worth an envelope."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ROWS_PER_ENVELOPE:
            yield one_batch(pa.Table.from_batches(waiting).cast(schema))
            waiting, rows = [], 0
    if rows:
        yield one_batch(pa.Table.from_batches(waiting).cast(schema))


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table as one contiguous batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
