"""Envelopes: many rows for one core in one Spark row, so that Python never walks rows.

``packer`` makes the function that runs in ``mapInArrow`` on each side, before the shuffle. It collects a task's Arrow
batches, leaves out rows that cannot match (nulls on an axis, rows that fail their side's own conjuncts), routes the
rest and emits for each core one envelope. Its blob is an Arrow IPC stream of the rows; hidden last columns say which
of them the core stores, where it does not store all, and in a count window their arrival numbers. A task ends with an
empty envelope for every core: a core that gets no rows in a micro-batch still expires its own, and reports.

``unpacker`` makes the function that runs in ``mapInArrow`` after the join and turns pairs, which come in files or blobs
(see :mod:`watersmeet.spark.hand_over`), into columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext

from watersmeet.balance.generation import RoutingTable
from watersmeet.spark.cores import KEEPER
from watersmeet.spark.hand_over import take_pairs
from watersmeet.spark.routing import Routing, route_rows
from watersmeet.spark.tables import current_table
from watersmeet.spec.expression import Side
from watersmeet.window.admission import drop_filtered, drop_nulls, keep_rows
from watersmeet.window.batch import Arrival
from watersmeet.window.plan import JoinPlan

__all__ = [
    "BYTES_AT_ONCE",
    "ENVELOPE",
    "ENVELOPE_NAMES",
    "PIECE_BYTES",
    "SEQUENCE",
    "Envelope",
    "arranger",
    "envelopes",
    "one_batch",
    "open_blob",
    "packer",
    "seal",
    "to_blob",
    "to_blobs",
    "unpacker",
]

ENVELOPE: Final = (
    "core int, side string, part bigint, null_rows bigint, left_rows bigint, right_rows bigint, generation bigint, "
    "oldest bigint, blob binary"
)
"""``part`` orders a side's envelopes; ``left_rows`` and ``right_rows`` count the streams of a count window;
``generation`` and ``oldest`` are the newest and the oldest live generation by which the rows were routed."""
ENVELOPE_NAMES: Final = [column.split()[0] for column in ENVELOPE.split(", ")]
STORED: Final = "\0stored"
SEQUENCE: Final = "\0sequence"
SEEN: Final = "\0seen"
PROBED: Final = "\0probed"
GROUP: Final = "\0group"
HIDDEN: Final = (STORED, SEQUENCE, SEEN, PROBED, GROUP)
PIECE_BYTES: Final = 1 << 20
"""Blobs are cut to this size: the JVM would put larger ones aside, each in memory of its own that is cleared first."""
ROWS_AT_ONCE: Final = 1 << 20
BYTES_AT_ONCE: Final = 1 << 28
"""What a task collects before it routes."""

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
ArrowMap = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Envelope:
    """Rows of one side that one core gets; ``stored`` tells which it keeps (None: all)."""

    rows: pa.RecordBatch
    stored: Bools | None = None
    arrival: Arrival | None = None
    probed: Int64s | None = None
    """The generations that each left row looks into, as bits (None: all)."""
    group: npt.NDArray[np.int32] | None = None
    """The group that each row counts for, where groups are counted."""


def packer(plan: JoinPlan, side: Side, routing: Routing, core_ids: tuple[int, ...]) -> ArrowMap:
    """Return the function that packs one side's rows; ``core_ids`` are the keys Spark shuffles by."""

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        routed = nulls = 0
        table = current_table(routing)
        part = _first_part()
        for rows in _collected(batches, plan.schemas[side]):
            keep = np.ones(rows.num_rows, bool)
            nulls += drop_nulls(plan, side, rows, keep)
            drop_filtered(plan, side, rows, keep)
            kept = Envelope(keep_rows(rows, keep))
            for core, envelope in envelopes(plan, side, routing, kept, routed, table=table):
                yield _packed(core_ids[core], side, part, seal(envelope), table)
            routed += kept.rows.num_rows
            part += kept.rows.num_rows
        yield _heartbeats(core_ids, side, nulls, table)

    return pack


def arranger(plan: JoinPlan, side: Side, sequencer: int) -> ArrowMap:
    """Return the function that sends all of one side's rows to the sequencer, where a count window numbers them."""

    def arrange(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = _first_part()
        for rows in _collected(batches, plan.schemas[side]):
            yield _packed(sequencer, side, part, to_blobs(rows))
            part += rows.num_rows

    return arrange


def unpacker(schema: pa.Schema) -> ArrowMap:
    """Return the function that turns pairs, which come as blobs and files, into columns of ``schema``."""

    def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob, file in zip(batch.column("blob"), batch.column("file"), strict=True):
                if blob.is_valid:
                    yield from _columns(pa.ipc.open_stream(blob.as_buffer()), schema)
                if file.is_valid:
                    yield from _columns(take_pairs(file.as_py()), schema)

    return unpack


def _columns(pairs: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in pairs:
        yield from pa.Table.from_batches([batch]).cast(schema).to_batches()


def envelopes(
    plan: JoinPlan, side: Side, routing: Routing, whole: Envelope, routed: int, *, table: RoutingTable
) -> Iterator[tuple[int, Envelope]]:
    """Yield what each core gets of some rows; ``routed`` counts the rows routed before, for storing in turn."""
    rows, arrival = whole.rows, whole.arrival
    for route in route_rows(routing, plan, side, rows, routed, table=table):
        everything = np.array_equal(route.rows, np.arange(rows.num_rows))
        some = None if arrival is None else Arrival(arrival.sequence[route.rows], arrival.seen[route.rows])
        taken = rows if everything else rows.take(pa.array(route.rows))
        yield route.core, Envelope(taken, route.stored, some, route.probed, route.group)


def to_blob(rows: pa.RecordBatch) -> pa.Buffer:
    """Return rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue()


def to_blobs(rows: pa.RecordBatch | pa.Table) -> pa.BinaryArray:
    """Return rows as Arrow IPC streams of about ``PIECE_BYTES`` each."""
    sink = pa.BufferOutputStream()
    ends = [0]
    step = max(1, rows.num_rows * PIECE_BYTES // max(1, rows.nbytes))
    for begin in range(0, rows.num_rows, step):
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write(rows.slice(begin, step))
        ends.append(sink.tell())
    offsets = pa.py_buffer(np.array(ends, np.int32))
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, offsets, sink.getvalue()])


def seal(envelope: Envelope) -> pa.BinaryArray:
    """Return an envelope's content as blobs."""
    rows = envelope.rows
    if envelope.stored is not None:
        rows = rows.append_column(STORED, pa.array(envelope.stored))
    if envelope.arrival is not None:
        rows = rows.append_column(SEQUENCE, pa.array(envelope.arrival.sequence))
        rows = rows.append_column(SEEN, pa.array(envelope.arrival.seen))
    for name, values in ((PROBED, envelope.probed), (GROUP, envelope.group)):
        if values is not None:
            rows = rows.append_column(name, pa.array(values))
    return to_blobs(rows)


def open_blob(blob: bytes, schema: pa.Schema) -> Envelope:
    """Return the content of an envelope without copying the rows."""
    table = pa.ipc.open_stream(pa.py_buffer(blob)).read_all()
    hidden = {name: table.column(name).to_numpy() for name in HIDDEN if name in table.column_names[len(schema) :]}
    rows = one_batch(table.select(list(range(len(schema)))).cast(schema))
    arrival = Arrival(hidden[SEQUENCE], hidden[SEEN]) if SEQUENCE in hidden else None
    return Envelope(rows, hidden.get(STORED), arrival, hidden.get(PROBED), hidden.get(GROUP))


def _heartbeats(core_ids: tuple[int, ...], side: Side, nulls: int, table: RoutingTable) -> pa.RecordBatch:
    """Return an empty envelope for every core and for the keeper; the first says how many rows were left out."""
    cores = (*core_ids, KEEPER)
    null_rows = np.zeros(len(cores), np.int64)
    null_rows[0] = nulls
    blobs = pa.nulls(len(cores), pa.binary())
    return _rows(np.array(cores), side, (np.zeros(len(cores), np.int64), null_rows), blobs, table)


def _packed(
    core: int, side: Side, part: int, blobs: pa.BinaryArray, table: RoutingTable | None = None
) -> pa.RecordBatch:
    """Return the envelopes of some rows for one core; the first is part number ``part``."""
    count = len(blobs)
    parts = part + np.arange(count), np.zeros(count, np.int64)
    return _rows(np.full(count, core), side, parts, blobs, table)


def _rows(
    cores: Int64s, side: Side, parts: tuple[Int64s, Int64s], blobs: pa.BinaryArray, table: RoutingTable | None
) -> pa.RecordBatch:
    """Return rows of ``ENVELOPE``; ``parts`` are their numbers and null rows, the streams are not counted yet."""
    none = np.zeros(len(blobs), np.int64)
    live = (none, none) if table is None else (none + table.newest.number, none + table.oldest)
    sides = pa.array([side] * len(blobs), pa.string())
    columns = (cores.astype(np.int32), sides, *parts, none, none, *live, blobs)
    return pa.RecordBatch.from_arrays(list(map(pa.array, columns)), names=ENVELOPE_NAMES)


def _first_part() -> int:
    """Return a number from which this task counts its parts, so that parts of later tasks come after its own."""
    context = TaskContext.get()
    return (context.partitionId() if context else 0) << 32


def _collected(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield a task's batches, put together to a size worth an envelope."""
    waiting: list[pa.RecordBatch] = []
    rows = nbytes = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        nbytes += batch.nbytes
        if rows >= ROWS_AT_ONCE or nbytes >= BYTES_AT_ONCE:
            yield one_batch(pa.Table.from_batches(waiting).cast(schema))
            waiting, rows, nbytes = [], 0, 0
    if rows:
        yield one_batch(pa.Table.from_batches(waiting).cast(schema))


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table as one contiguous batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
