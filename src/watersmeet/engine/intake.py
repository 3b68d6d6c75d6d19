"""The intake: what happens to rows before they are joined (checks, lateness, order of arrival, slices of time).

The intake knows the progress of two streams or many (largest timestamps, numbers of rows), and no windows. Its plan is
a :class:`~watersmeet.window.streams.Streams`. ``accept`` changes nothing: its result has the new progress, which takes
effect when the caller commits it. So a refused push leaves no trace.

Watermark. It is the smallest of all streams' largest timestamps, less the lateness, as of the *previous* push; with
``idle`` it lies at most so far behind the largest of them (:func:`~watersmeet.window.streams.watermark_of`). Otherwise
there is none until every stream has had rows. A row behind it is late. A row may expire when the watermark *after* the
push is more than the window's length beyond it.

Slices. A push that spans much more time than the window is cut into slices, which are joined in the order of time. Rows
expire between slices, so windows stay small even for a long push, and a probe meets few rows outside its reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Final, Generic, TypeVar

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.columns.dictionaries import held_rows
from watersmeet.spec.errors import SchemaError
from watersmeet.spec.expression import StreamName
from watersmeet.spec.options import Late, refuse_late
from watersmeet.window.admission import Admission, Verdict, admit, keep_rows, largest_time, late_error, times_of
from watersmeet.window.arrival import Counts, count_arrivals
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.expiry import Bounds, expired_before
from watersmeet.window.payload import Extent, extent_of
from watersmeet.window.plan import OTHER_SIDE, JoinPlan
from watersmeet.window.streams import Streams, waiting_for, watermark_of

__all__ = ["Accepted", "Arrived", "Intake", "PairIntake", "Progress", "Slice"]

Part = TypeVar("Part")

ROWS_PER_SLICE: Final = 1 << 17
CONVERSIONS: Final = {
    "list": "rows with pyarrow.Table.from_pylist(rows, schema=schema)",
    "dict": "columns with pyarrow.table(columns, schema=schema)",
    "DataFrame": "a pandas frame with pyarrow.Table.from_pandas(frame, schema=schema)",
}


@dataclass(frozen=True)
class Progress:
    """How far the streams have come, and how many rows were left out."""

    largest_time: dict[StreamName, int | None]
    watermark: int | None
    rows: dict[StreamName, int]
    late: dict[StreamName, int]
    null: dict[StreamName, int]

    @staticmethod
    def at_start(streams: Mapping[StreamName, object]) -> Progress:
        """Return the progress of streams before their first rows."""
        rows, late, null = (dict.fromkeys(streams, 0) for _ in range(3))
        return Progress(dict.fromkeys(streams), None, rows, late, null)


@dataclass(frozen=True)
class Arrived:
    """A slice: rows of all streams that are joined together, and the bounds of expiry afterwards."""

    rows: dict[StreamName, pa.RecordBatch]
    times: dict[StreamName, Int64s] | None
    """In a time window: the rows' timestamps, from :func:`~watersmeet.window.admission.times_of`."""
    counts: dict[StreamName, Counts] | None
    """In a count window: the rows' arrivals."""
    expire_before: Bounds
    extents: Mapping[StreamName, Extent] = field(default_factory=dict)
    """Where rows lie in their window, of streams of which it is known."""


@dataclass(frozen=True)
class Slice:
    """A slice of two streams: left and right rows that are joined together."""

    left: KeyedBatch
    right: KeyedBatch
    expire_before: Bounds


@dataclass(frozen=True)
class Accepted(Generic[Part]):
    """A push that passed all checks: its slices in order, and the progress after it."""

    slices: Iterator[Part]
    progress: Progress
    unmatched: Mapping[StreamName, pa.RecordBatch] = field(default_factory=dict)
    """Of preserved streams, the rows that take no part though they were in time."""
    late: dict[StreamName, pa.RecordBatch] = field(default_factory=dict)
    """Late rows, where they are kept."""


class Intake:
    """Accepts pushes."""

    def __init__(self, streams: Streams, *, late: Late = "drop", preserved: tuple[StreamName, ...] = ()) -> None:
        self.streams = streams
        self.preserved = preserved
        """Streams whose rows come out though they meet nobody."""
        self.late: Late = late
        self.late_rows: dict[StreamName, list[pa.RecordBatch]]
        """With ``late="keep"``: the late rows that nobody has taken yet."""
        self.forget_late()
        self.progress = Progress.at_start(streams.schemas)
        self._nothing = {
            stream: pa.RecordBatch.from_pylist([], schema=schema) for stream, schema in streams.schemas.items()
        }
        self.number: Callable[[dict[StreamName, pa.RecordBatch]], dict[StreamName, pa.RecordBatch]] | None = None
        """Adds arrival numbers to the rows of a push, before slices of time change their order."""

    @property
    def waiting_for(self) -> StreamName | None:
        """The stream that holds the watermark of a time window back, if there is one."""
        return None if self.streams.lateness is None else waiting_for(self.streams, self.progress.largest_time)

    def accept(self, tables: Mapping[StreamName, pa.Table | None], *, whole: bool = False) -> Accepted[Arrived]:
        """Check a push and prepare it; raise before anything has changed if it cannot be joined.

        With ``whole`` the push is not cut into slices of time.
        """
        rows = {stream: self._contiguous(stream, tables.get(stream)) for stream in self.streams.schemas}
        progress = replace(
            self.progress, rows={stream: n + rows[stream].num_rows for stream, n in self.progress.rows.items()}
        )
        return (
            self._accept_counted(rows, progress)
            if self.streams.lateness is None
            else self._accept_timed(rows, progress, whole=whole)
        )

    def commit(self, accepted: Accepted[Part]) -> None:
        """Let the progress of an accepted push take effect."""
        self.progress = accepted.progress
        for stream, rows in accepted.late.items():
            self.late_rows[stream].append(rows)

    def kept_late(self) -> dict[StreamName, pa.Table]:
        """Return the late rows that nobody has taken yet."""
        if self.late != "keep":
            raise refuse_late(self.late)
        return {
            stream: pa.Table.from_batches(rows, self.streams.schemas[stream]) for stream, rows in self.late_rows.items()
        }

    def forget_late(self) -> None:
        """Forget late rows, those of all streams at once."""
        self.late_rows = {stream: [] for stream in self.streams.schemas}

    # --- count windows ----------------------------------------------------------------------------------------------

    def _accept_counted(self, rows: dict[StreamName, pa.RecordBatch], progress: Progress) -> Accepted[Arrived]:
        sizes = {stream: batch.num_rows for stream, batch in rows.items()}
        counts = count_arrivals(sizes, self.streams.moments(rows), self.progress.rows)
        kept, nulls = {}, dict(progress.null)
        unmatched: dict[StreamName, pa.RecordBatch] = {}
        for stream, batch in rows.items():
            admission = admit(self.streams, stream, batch)
            nulls[stream] += admission.count(Verdict.NULL)
            kept[stream] = keep_rows(batch, admission.keep)
            unmatched |= self._unmatched(stream, batch, admission)
            counts[stream] = {other: before[admission.keep] for other, before in counts[stream].items()}
        arrived = Arrived(kept, None, counts, expired_before(self.streams, progress.rows))
        return Accepted(iter([arrived]), replace(progress, null=nulls), unmatched)

    # --- time windows -----------------------------------------------------------------------------------------------

    def _accept_timed(
        self, rows: dict[StreamName, pa.RecordBatch], progress: Progress, *, whole: bool
    ) -> Accepted[Arrived]:
        kept, times, late_rows = {}, {}, {}
        extents: dict[StreamName, Extent] = {}
        unmatched: dict[StreamName, pa.RecordBatch] = {}
        largest, late, nulls = dict(progress.largest_time), dict(progress.late), dict(progress.null)
        for stream, batch in rows.items():
            time, known = times_of(self.streams, stream, batch)
            if known is None and len(time):  # as nearly always: one look at all timestamps does
                extents[stream] = extent_of(time)
                before = largest[stream]
                largest[stream] = extents[stream].high if before is None else max(before, extents[stream].high)
            else:
                largest[stream] = largest_time(largest[stream], time, known)
            no_late = progress.watermark is None or (stream in extents and extents[stream].low >= progress.watermark)
            admission = admit(self.streams, stream, batch, (time, known), None if no_late else progress.watermark)
            late_now = admission.count(Verdict.LATE)
            if late_now and self.late == "error":
                assert progress.watermark is not None, "before there is one, no row is late"
                raise late_error(self.streams, stream, late_now, progress.watermark)
            if late_now and self.late == "keep":
                late_rows[stream] = batch.filter(pa.array(admission.verdicts == Verdict.LATE))
            late[stream] += late_now
            nulls[stream] += admission.count(Verdict.NULL)
            kept[stream] = batch if admission.is_of_all else keep_rows(batch, admission.keep)
            unmatched |= self._unmatched(stream, batch, admission)
            times[stream] = time if admission.is_of_all else time[admission.keep]
            if not admission.is_of_all:
                extents.pop(stream, None)
        watermark = self._watermark(largest)
        after = replace(progress, largest_time=largest, watermark=watermark, late=late, null=nulls)
        return Accepted(self._slices(kept, times, extents, watermark, whole=whole), after, unmatched, late_rows)

    def _watermark(self, largest: dict[StreamName, int | None]) -> int | None:
        """Return the watermark for the next push; it never decreases."""
        reached, before = watermark_of(self.streams, largest), self.progress.watermark
        return before if reached is None else reached if before is None else max(reached, before)

    def _slices(
        self,
        rows: dict[StreamName, pa.RecordBatch],
        times: dict[StreamName, Int64s],
        extents: dict[StreamName, Extent],
        watermark: int | None,
        *,
        whole: bool,
    ) -> Iterator[Arrived]:
        """Yield the push in slices of time, or as one slice if it is small or spans little more than the window."""
        if self.number is not None:
            rows = self.number(rows)
        borders = np.empty(0, np.int64) if whole else self._borders(times, extents)
        if not len(borders):
            yield Arrived(rows, times, None, expired_before(self.streams, dict.fromkeys(rows, watermark)), extents)
            return
        rows, times = _in_time_order(rows, times)
        cuts = {side: [0, *np.searchsorted(time, borders, "left").tolist(), len(time)] for side, time in times.items()}
        for number in range(len(borders) + 1):
            spans = {side: (some[number], some[number + 1]) for side, some in cuts.items()}
            parts = {side: rows[side].slice(begin, end - begin) for side, (begin, end) in spans.items()}
            moments = {side: times[side][begin:end] for side, (begin, end) in spans.items()}
            # The next rows of this push lie at or after the next border, those of later pushes after the watermark.
            bound = watermark
            if watermark is not None and number < len(borders):
                bound = min(watermark, int(borders[number]))
            yield Arrived(parts, moments, None, expired_before(self.streams, dict.fromkeys(rows, bound)))

    def _borders(self, times: dict[StreamName, Int64s], extents: Mapping[StreamName, Extent]) -> Int64s:
        """Return the times at which a push is cut: slices have many rows and are not shorter than the window."""
        if sum(map(len, times.values())) < 2 * ROWS_PER_SLICE:
            return np.empty(0, np.int64)
        whole = Extent()
        for stream, time in times.items():
            if len(time):
                whole.include(extents.get(stream) or extent_of(time))
        reach = max(1, sum(sorted(map(self.streams.length, times))[-2:]))
        windows = (whole.high - whole.low) // reach
        count = min(sum(map(len, times.values())) // ROWS_PER_SLICE, windows)
        if count <= 1:
            return np.empty(0, np.int64)
        together = np.concatenate(list(times.values()))
        ranks = np.arange(1, count) * (len(together) // count)
        return np.unique(np.partition(together, ranks)[ranks])

    # --- both -------------------------------------------------------------------------------------------------------

    def _unmatched(
        self, stream: StreamName, rows: pa.RecordBatch, admission: Admission
    ) -> Mapping[StreamName, pa.RecordBatch]:
        """Return the rows of a preserved stream that take no part though they were in time."""
        alone = admission.count(Verdict.NULL) + admission.count(Verdict.FAILS)
        if not alone or stream not in self.preserved:
            return {}
        return {stream: rows.filter(pa.array(admission.meet_nobody))}

    def _contiguous(self, stream: StreamName, table: pa.Table | None) -> pa.RecordBatch:
        """Check the schema of a push's rows of one stream, and return them as one record batch."""
        schema = self.streams.schemas[stream]
        if table is None:
            return self._nothing[stream]
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        if not isinstance(table, pa.Table):
            raise SchemaError(
                f"{stream}={type(table).__name__} was pushed",
                "a pyarrow.Table or RecordBatch, or None",
                f"convert it: {CONVERSIONS.get(type(table).__name__, CONVERSIONS['list'])}, "
                f"where schema is the one that the join has for {stream}",
            )
        table = _of_schema(stream, held_rows(table), schema)
        if table.num_rows == 0:
            return self._nothing[stream]
        batches = table.to_batches()
        if len(batches) > 1:
            batches = table.unify_dictionaries().combine_chunks().to_batches()
        if len(batches) > 1:
            raise SchemaError(
                f"the {stream} table has {table.num_rows:,} rows with more than 2 GiB of text or bytes in one column",
                "at most 2 GiB of each such column in a push",
                "push fewer rows at once",
            )
        return batches[0]


class PairIntake(Intake):
    """Accepts pushes of two streams."""

    def __init__(self, plan: JoinPlan, *, late: Late = "drop", preserved: tuple[StreamName, ...] = ()) -> None:
        super().__init__(plan, late=late, preserved=preserved)
        self.plan = plan

    def accept_pair(self, left: pa.Table | None, right: pa.Table | None, *, whole: bool = False) -> Accepted[Slice]:
        """Check and prepare a push of two streams, as :meth:`accept` does."""
        accepted = self.accept({"left": left, "right": right}, whole=whole)
        return Accepted(map(self._slice, accepted.slices), accepted.progress, accepted.unmatched, accepted.late)

    def _slice(self, arrived: Arrived) -> Slice:
        return Slice(self._batch("left", arrived), self._batch("right", arrived), arrived.expire_before)

    def _batch(self, side: StreamName, arrived: Arrived) -> KeyedBatch:
        counts = arrived.counts
        arrival = None if counts is None else Arrival(counts[side][side], counts[side][OTHER_SIDE[side]])
        keys = {} if self.plan.time is None or arrived.times is None else {self.plan.time: arrived.times[side]}
        return KeyedBatch(self.plan, side, arrived.rows[side], arrival, keys, extent=arrived.extents.get(side))


def _in_time_order(
    rows: dict[StreamName, pa.RecordBatch], times: dict[StreamName, Int64s]
) -> tuple[dict[StreamName, pa.RecordBatch], dict[StreamName, Int64s]]:
    """Sort each side by time, unless it is sorted already."""
    rows, times = dict(rows), dict(times)
    for side, time in times.items():
        if np.any(time[1:] < time[:-1]):
            order = np.argsort(time, kind="stable")
            rows[side], times[side] = rows[side].take(pa.array(order)), time[order]
    return rows, times


def _of_schema(stream: StreamName, table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table whose columns differ from the schema only in whether they may be null; raise for any other one."""
    if not table.schema.equals(schema, check_metadata=False):
        for number, (given, wanted) in enumerate(zip_longest(table.schema, schema), 1):
            if given is None or wanted is None or (given.name, given.type) != (wanted.name, wanted.type):
                raise SchemaError(
                    f"the {stream} table has columns {_columns(table.schema)}; column {number} is "
                    f"{'missing' if given is None else _column(given)}",
                    f"the schema the join was built with: {_columns(schema)}",
                    "select and cast the columns to that schema before the push, or build a new join",
                )
        table = pa.Table.from_arrays(table.columns, schema=schema)
    for wanted, column in zip(schema, table.columns, strict=True):
        if not wanted.nullable and column.null_count:  # Arrow does not look
            raise SchemaError(
                f"column {wanted.name!r} of the {stream} table has {column.null_count:,} null(s)",
                f"the schema the join was built with: {_columns(schema)}",
                "leave these rows out before the push, or build the join with a schema in which the column may be null",
            )
    return table


def _columns(schema: pa.Schema) -> str:
    return f"({', '.join(map(_column, schema))})"


def _column(field: pa.Field) -> str:
    return f"{field.name}: {field.type}{'' if field.nullable else ' not null'}"
