"""Envelopes: many rows for one core in one Spark row, so that Python never loops over rows.

``packer`` makes the function for ``mapInArrow`` on each stream before the shuffle. It collects a task's Arrow batches
(those of a decoded side are messages, which it turns into rows), leaves out rows that cannot match (nulls on an axis,
rows that fail the conditions on their stream alone), routes the rest, and emits one envelope for each core. Of a
preserved side the rows that cannot match travel too, as *lone* rows, to a core that follows from their task. The blob
is an Arrow IPC stream of the rows. Hidden last columns have more on each row: whether the core stores it, if it does
not store all; in a count window its arrival; in a balanced join the generations that it probes and the group that it
counts for. A task ends with an empty envelope for every core that the routing table knows, so that a core without rows
in a micro-batch still expires its own, and writes its record.

Trust. An envelope comes through Spark's shuffle from this package's packer. It is validated in full nevertheless, which
takes no time for columns of fixed width, and 3 to 7 ms for 1 M rows of text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar, cast

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.balance.generation import RoutingTable
from watersmeet.balance.generation_sets import GenerationSets
from watersmeet.columns.hidden import add_hidden, labelled, split_hidden, unlabelled
from watersmeet.engine.arrow_bytes import check_rows
from watersmeet.spark.core_ids import KEEPER
from watersmeet.spark.decoding.decoder import Decoder, LeftOut, decoded
from watersmeet.spark.gc_freeze import freeze_once
from watersmeet.spark.routing.contract import Router, Routes
from watersmeet.spark.schema import Columns
from watersmeet.spec.errors import SchemaError
from watersmeet.spec.expression import StreamName
from watersmeet.window.admission import Verdict, admit, keep_rows, largest_time, times_of
from watersmeet.window.arrival import Counts
from watersmeet.window.streams import Streams

__all__ = [
    "BLOB_BYTES",
    "COUNT",
    "ENVELOPE",
    "Envelope",
    "arranger",
    "collected",
    "envelopes",
    "joinable",
    "one_batch",
    "open_blob",
    "packer",
    "seal",
    "to_blob",
    "to_blobs",
    "together",
]

ENVELOPE: Final[Columns] = {
    "core": "int",
    "stream": "string",
    "part": "bigint",
    "null_rows": "bigint",
    "bad_messages": "bigint",
    "counts": "array<bigint>",
    "generation": "bigint",
    "oldest": "bigint",
    "lone": "boolean",
    "blob": "binary",
}
"""``part`` orders a stream's envelopes, in whichever order they come; ``counts`` says how many rows each stream of a
count window has had, or in a time window one number: the largest timestamp that a task has seen; ``generation`` and
``oldest`` are the newest and the oldest live generation by which the rows were routed; ``lone`` rows of a preserved
side can match nobody."""
COUNT: Final = "count "
"""Label of the hidden columns that say how many rows of each stream came before a row of a count window."""
PROBED: Final = "probed "
"""Label of the hidden columns that say which generations a row probes."""
BLOB_BYTES: Final = 1 << 20
"""Size of a blob: for larger ones the JVM would allocate separate memory and clear it first."""
ROWS_AT_ONCE: Final = 1 << 20
BYTES_AT_ONCE: Final = 1 << 28
"""Rows and bytes that a task collects before it routes them."""

TASK_BITS: Final = 32
"""Bits of a part's number that a task counts with; those above them are the task's number."""

Column = TypeVar("Column", Bools, Int32s, Int64s)
ArrowMap = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Envelope:
    """Rows of one stream that one core gets; ``stored`` tells which have a home here (None: all)."""

    rows: pa.RecordBatch
    stored: Bools | None = None
    counts: Counts | None = None
    """In a count window: the rows' arrivals."""
    probed: GenerationSets | None = None
    """The generations under which each left row has its home here; None: all."""
    group: Int32s | None = None
    """If groups are counted: the group that each row counts for."""
    judged: Bools | None = None
    """The rows that this core judges (see :mod:`watersmeet.spark.judge`); None: all."""
    times: Int64s | None = None
    """In a time window: the rows' timestamps, where they are known already. They do not travel: the rows do."""
    first: Bools | None = None
    """Where late rows are kept: which rows are the first of their copies; None: all."""

    def keep(self, mask: Bools) -> Envelope:
        """Return what it says of the rows that ``mask`` keeps."""
        return self._with(keep_rows(self.rows, mask), mask)

    def take(self, order: Int32s) -> Envelope:
        """Return what it says of rows by their numbers, in this order."""
        return self._with(self.rows.take(pa.array(order)), order)

    def _with(self, rows: pa.RecordBatch, which: Bools | Int32s) -> Envelope:
        return Envelope(
            rows,
            _kept(self.stored, which),
            None if self.counts is None else {name: own[which] for name, own in self.counts.items()},
            None if self.probed is None else self.probed.keep(which),
            _kept(self.group, which),
            _kept(self.judged, which),
            _kept(self.times, which),
            _kept(self.first, which),
        )


def together(envelopes: list[Envelope], schema: pa.Schema) -> Envelope:
    """Return the content of several envelopes of one stream as one."""
    if len(envelopes) == 1:
        return envelopes[0]
    if not envelopes:
        return Envelope(pa.RecordBatch.from_pylist([], schema=schema))
    sizes = [envelope.rows.num_rows for envelope in envelopes]
    counted = [envelope.counts for envelope in envelopes if envelope.counts is not None]
    return Envelope(
        one_batch(pa.Table.from_batches([envelope.rows for envelope in envelopes])),
        _filled([envelope.stored for envelope in envelopes], sizes, 1),
        {name: np.concatenate([counts[name] for counts in counted]) for name in counted[0]} if counted else None,
        GenerationSets.joined([envelope.probed for envelope in envelopes], sizes),
        _filled([envelope.group for envelope in envelopes], sizes, 0),
        _filled([envelope.judged for envelope in envelopes], sizes, 1),
        first=_filled([envelope.first for envelope in envelopes], sizes, 1),
    )


def _kept(column: Column | None, which: Bools | Int32s) -> Column | None:
    return None if column is None else column[which]


def _filled(columns: list[Column | None], sizes: list[int], default: int) -> Column | None:
    """Concatenate columns, with the default for those that are missing; None if all are missing."""
    some = next((column for column in columns if column is not None), None)
    if some is None:
        return None
    filled = [
        np.full(size, default, some.dtype) if column is None else column
        for column, size in zip(columns, sizes, strict=True)
    ]
    return cast("Column", np.concatenate(filled))


def packer(
    streams: Streams,
    stream: StreamName,
    routes: Routes,
    core_ids: tuple[int, ...],
    *,
    decoder: Decoder | None = None,
    marks_first: bool = False,
) -> ArrowMap:
    """Return the function that packs one stream's rows; ``core_ids`` are the keys by which Spark shuffles.

    With ``marks_first`` it marks one of each row's copies, which speaks for it.
    """

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        routed = nulls = 0
        part = _first_part()
        router = routes.now()
        largest, left_out = None, LeftOut()
        for rows in collected(decoded(batches, decoder, left_out), streams.schemas[stream]):
            if streams.lateness is not None:
                largest = largest_time(largest, *times_of(streams, stream, rows))
            keep, without = joinable(streams, stream, rows)
            nulls += without
            kept = Envelope(keep_rows(rows, keep))
            taken = np.zeros(kept.rows.num_rows, np.bool_)
            for core, envelope in envelopes(stream, router, kept, routed, taken if marks_first else None):
                blobs = seal(envelope)
                yield _packed(core_ids[core], stream, part, blobs, router.table)
                part += len(blobs)
            routed += kept.rows.num_rows
            if stream in router.preserved and not keep.all():
                blobs = to_blobs(keep_rows(rows, ~keep))
                yield _packed(
                    core_ids[router.lone_core(part >> TASK_BITS)], stream, part, blobs, router.table, lone=True
                )
                part += len(blobs)
        cores = router.table.cores if streams.idle is None else range(len(core_ids))  # each has to know the time
        lost = nulls, left_out.messages
        yield _heartbeats([core_ids[core] for core in cores], stream, lost, router.table, largest)
        freeze_once("pack")

    return pack


def arranger(streams: Streams, stream: StreamName, sequencer: int, decoder: Decoder | None = None) -> ArrowMap:
    """Return the function that sends one stream's rows to the sequencer, which numbers them for a count window."""

    def arrange(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part, left_out = _first_part(), LeftOut()
        for rows in collected(decoded(batches, decoder, left_out), streams.schemas[stream]):
            yield _packed(sequencer, stream, part, to_blobs(rows))
            part += rows.num_rows
        # also for a micro-batch without rows
        yield _packed(sequencer, stream, part, pa.nulls(1, pa.binary()), bad_messages=left_out.messages)
        freeze_once("arrange")

    return arrange


def joinable(streams: Streams, stream: StreamName, rows: pa.RecordBatch) -> tuple[Bools, int]:
    """Return which rows can match, and the number of those that cannot because of a null."""
    admission = admit(streams, stream, rows)
    return admission.keep, admission.count(Verdict.NULL)


def envelopes(
    stream: StreamName, router: Router, whole: Envelope, routed: int, taken: Bools | None = None
) -> Iterator[tuple[int, Envelope]]:
    """Yield the envelope of each core for rows; ``routed`` rows were routed before, which matters for taking turns.

    Where first copies are marked, ``taken`` says which rows have had one.
    """
    rows, counts = whole.rows, whole.counts
    if not rows.num_rows:
        return
    for route in router(stream, rows, routed):
        everything = len(route.rows) == rows.num_rows and np.array_equal(route.rows, np.arange(rows.num_rows))
        some = None if counts is None else {name: own[route.rows] for name, own in counts.items()}
        own = rows if everything else rows.take(pa.array(route.rows))
        first = None
        if taken is not None:
            first = ~taken[route.rows]
            taken[route.rows] = True
        yield route.core, Envelope(own, route.stored, some, route.probed, route.group, route.judged, first=first)


def to_blob(rows: pa.RecordBatch) -> pa.Buffer:
    """Return rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue()


def to_blobs(rows: pa.RecordBatch | pa.Table, step: int | None = None) -> pa.BinaryArray:
    """Return rows as Arrow IPC streams of ``step`` rows each, or of about ``BLOB_BYTES``."""
    sink = pa.BufferOutputStream()
    ends = [0]
    step = step or max(1, rows.num_rows * BLOB_BYTES // max(1, rows.nbytes))
    for begin in range(0, rows.num_rows, step):
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write(rows.slice(begin, step))
        ends.append(sink.tell())
    offsets = pa.py_buffer(np.array(ends, np.int32))
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, offsets, sink.getvalue()])


def seal(envelope: Envelope) -> pa.BinaryArray:
    """Return an envelope's content as blobs."""
    known = {"stored": envelope.stored, "group": envelope.group, "judged": envelope.judged, "first": envelope.first}
    hidden = {name: values for name, values in known.items() if values is not None}
    probed = {} if envelope.probed is None else labelled(PROBED, envelope.probed.columns())
    return to_blobs(add_hidden(envelope.rows, hidden | probed | labelled(COUNT, envelope.counts or {})))


def open_blob(blob: bytes, schema: pa.Schema) -> Envelope:
    """Return the content of an envelope without copying the rows."""
    whole = pa.ipc.open_stream(pa.py_buffer(blob)).read_next_batch()
    check_rows(whole)
    rows, hidden = split_hidden(whole, schema)
    counts = unlabelled(COUNT, hidden) or None
    probed = GenerationSets.from_columns(unlabelled(PROBED, hidden))
    judged, first = hidden.get("judged"), hidden.get("first")
    return Envelope(rows, hidden.get("stored"), counts, probed, hidden.get("group"), judged, first=first)


def _heartbeats(
    core_ids: list[int], stream: StreamName, lost: tuple[int, int], table: RoutingTable, largest: int | None
) -> pa.RecordBatch:
    """Return an empty envelope for every core and for the keeper; the first has the numbers of what was left out.

    All have the task's ``largest`` timestamp, in a time window.
    """
    cores = (*core_ids, KEEPER)
    blobs = pa.nulls(len(cores), pa.binary())
    beats = _rows(np.array(cores), stream, np.zeros(len(cores), np.int64), blobs, table, lost=lost)
    if largest is None:
        return beats
    place = beats.schema.get_field_index("counts")
    return beats.set_column(place, "counts", pa.array([[largest]] * len(cores), pa.list_(pa.int64())))


def _packed(
    core: int,
    stream: StreamName,
    part: int,
    blobs: pa.BinaryArray,
    table: RoutingTable | None = None,
    *,
    lone: bool = False,
    bad_messages: int = 0,
) -> pa.RecordBatch:
    """Return the envelopes of some rows for one core; the first is part number ``part``."""
    count = len(blobs)
    parts = part + np.arange(count)
    return _rows(np.full(count, core), stream, parts, blobs, table, lone=lone, lost=(0, bad_messages))


def _rows(
    cores: Int64s,
    stream: StreamName,
    parts: Int64s,
    blobs: pa.BinaryArray,
    table: RoutingTable | None,
    *,
    lone: bool = False,
    lost: tuple[int, int] = (0, 0),
) -> pa.RecordBatch:
    """Return rows of ``ENVELOPE``, of which the streams are not counted yet.

    ``parts`` are their numbers; the first one has how many null rows and bad messages were ``lost``.
    """
    count = len(blobs)
    first = np.zeros(count, np.int64)
    first[:1] = 1
    names, uncounted = pa.array([stream] * count, pa.string()), pa.nulls(count, pa.list_(pa.int64()))
    newest, oldest = (0, 0) if table is None else (table.newest.number, table.oldest)
    live = np.full(count, newest), np.full(count, oldest)
    left_out = (first * number for number in lost)
    columns = (cores.astype(np.int32), names, parts, *left_out, uncounted, *live, np.full(count, lone), blobs)
    return pa.RecordBatch.from_arrays(list(map(pa.array, columns)), names=list(ENVELOPE))


def _first_part() -> int:
    """Return the number of this task's first part; parts of tasks with higher numbers come after it."""
    context = TaskContext.get()
    return (context.partitionId() if context else 0) << TASK_BITS


def collected(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield a task's batches, concatenated to a size that suits an envelope."""
    waiting: list[pa.RecordBatch] = []
    rows = nbytes = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        nbytes += batch.nbytes
        if rows >= ROWS_AT_ONCE or nbytes >= BYTES_AT_ONCE:
            yield _as_schema(waiting, schema)
            waiting, rows, nbytes = [], 0, 0
    if rows:
        yield _as_schema(waiting, schema)


def _as_schema(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows as one batch of ``schema``; their columns may have had other names."""
    return one_batch(pa.Table.from_batches(batches).rename_columns(schema.names).cast(schema))


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table as one contiguous batch."""
    batches = table.combine_chunks().to_batches()
    if len(batches) > 1:
        raise SchemaError(
            f"a core got {table.num_rows:,} rows with more than 2 GiB of text or bytes in one column at once",
            "at most 2 GiB of each such column per core and micro-batch",
            "read less in a micro-batch (maxFilesPerTrigger, maxOffsetsPerTrigger), or use more cores",
        )
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
