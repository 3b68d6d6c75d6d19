"""Admission: which rows take part in a join, and why other rows do not.

A row takes part if it has a timestamp, is not late, has a value on every axis that needs one, and satisfies the
conditions on its stream alone. All that take rows in decide by this module: the intake, Spark's packer and cores, and a
snapshot that is restored. The first reason counts, in this order: no time, late, null, condition.

Cost: a byte per row. Columns without nulls are not read, and checks that cannot fail are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.arrays import Bools, Int64s
from watersmeet.columns.keys import axis_valid
from watersmeet.columns.values import is_true
from watersmeet.spec.errors import LateRowError
from watersmeet.spec.expression import StreamName
from watersmeet.window.arrival import Moments
from watersmeet.window.streams import MICRO_SCALE, Streams, moments_of

__all__ = ["Admission", "Verdict", "admit", "is_late", "keep_rows", "largest_time", "late_error", "times_of"]

Verdicts = npt.NDArray[np.uint8]


class Verdict(IntEnum):
    """Whether a row takes part, or why it does not."""

    TAKES_PART = 0
    LATE = 1
    """It lies behind the watermark."""
    NULL = 2
    """It has no timestamp, or no value where a null matches nothing."""
    FAILS = 3
    """It does not satisfy the conditions on its stream alone."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The verdict on every row of a batch.

    All is computed when it is made: a cached property would be computed under a lock that all joins of a process share,
    and that a child which is forked meanwhile finds taken for ever.
    """

    verdicts: Verdicts
    keep: Bools
    """Which rows take part."""
    counts: tuple[int, ...]
    """How many rows got each verdict."""

    @classmethod
    def of(cls, verdicts: Verdicts) -> Self:
        """Return the admission by the verdicts on all rows."""
        counts = tuple(np.bincount(verdicts, minlength=len(Verdict)).tolist())
        return cls(verdicts, np.equal(verdicts, Verdict.TAKES_PART), counts)

    @classmethod
    def of_all(cls, rows: int) -> Self:
        """Return the admission of so many rows that all take part."""
        return cls(np.zeros(rows, np.uint8), np.ones(rows, bool), (rows, *[0] * (len(Verdict) - 1)))

    @property
    def is_of_all(self) -> bool:
        """Whether all rows take part."""
        return self.counts[Verdict.TAKES_PART] == len(self.keep)

    @property
    def meet_nobody(self) -> Bools:
        """Which rows take no part though they were in time: an outer join returns them."""
        return self.verdicts >= Verdict.NULL

    def count(self, verdict: Verdict) -> int:
        """Return how many rows got ``verdict``."""
        return self.counts[verdict]


def admit(
    streams: Streams,
    stream: StreamName,
    rows: pa.RecordBatch,
    times: Moments | None = None,
    watermark: int | None = None,
) -> Admission:
    """Return the verdicts on rows of a stream.

    In a time window ``times`` may be given if :func:`times_of` has been called already. Without a ``watermark`` no row
    is late.
    """
    found: list[tuple[Bools, Verdict]] = []
    known = times[1] if times is not None else _has_time(streams, stream, rows)
    if known is not None:
        found.append((~known, Verdict.NULL))
    if times is not None and watermark is not None:
        late = is_late(times[0], watermark)
        if late is not None:
            found.append((late, Verdict.LATE))
    for axis, side, schemas in streams.compared(stream):
        valid = axis_valid(axis, side, rows, schemas)
        if valid is not None:
            found.append((~valid, Verdict.NULL))
    condition = streams.condition(stream)
    if condition is not None:
        satisfied = is_true(condition, lambda column: rows.column(column.name), streams.schemas, rows.num_rows)
        found.append((~satisfied, Verdict.FAILS))
    if not found:
        return Admission.of_all(rows.num_rows)
    verdicts = np.zeros(rows.num_rows, np.uint8)
    for where, verdict in found:
        _judge(verdicts, where, verdict)
    return Admission.of(verdicts)


def times_of(streams: Streams, stream: StreamName, rows: pa.RecordBatch) -> Moments:
    """Return the timestamps of rows in a time window, and which rows have one (None: all)."""
    return moments_of({stream: streams.time_axis(stream)}, {stream: rows})[stream]


def largest_time(before: int | None, times: Int64s, known: Bools | None) -> int | None:
    """Return the largest timestamp of a stream after these rows; ``before`` is the one before them."""
    some = times if known is None else times[known]
    if not len(some):
        return before
    return int(some.max()) if before is None else max(before, int(some.max()))


def is_late(times: Int64s, watermark: int) -> Bools | None:
    """Return which rows lie behind the watermark, or None if no row does."""
    return times < watermark if len(times) and int(times.min()) < watermark else None


def late_error(streams: Streams, stream: StreamName, count: int, watermark: int) -> LateRowError:
    """Return the error for late rows with ``late="error"``."""
    return LateRowError(
        f'{count} row(s) of the {stream} stream are behind the watermark, and late="error"',
        f"rows at or after the watermark, {_moment(watermark, streams.time_scale)}",
        "give the window a longer lateness (on Spark a withWatermark of your own must be as long), "
        'or late="drop" to leave such rows out and count them',
    )


def keep_rows(rows: pa.RecordBatch, keep: Bools) -> pa.RecordBatch:
    """Return the rows to keep: the batch itself if it keeps all."""
    return rows if keep.all() else rows.filter(pa.array(keep))


def _judge(verdicts: Verdicts, where: Bools, verdict: Verdict) -> None:
    """Give a verdict to rows that have none yet."""
    verdicts[where & (verdicts == Verdict.TAKES_PART)] = verdict


def _has_time(streams: Streams, stream: StreamName, rows: pa.RecordBatch) -> Bools | None:
    if streams.lateness is None:
        return None
    axis, side, schemas = streams.time_axis(stream)
    return axis_valid(axis, side, rows, schemas)


def _moment(time: int, time_scale: int) -> str:
    """Return a timestamp as text: in UTC if Python can, otherwise as a number."""
    microseconds = time // 10 ** (time_scale - MICRO_SCALE)
    try:
        return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)}"
    except OverflowError:
        return f"{microseconds} microseconds since 1970"
