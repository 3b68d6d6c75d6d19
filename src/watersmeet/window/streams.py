"""The contract ``Streams``: what a plan says of its streams one by one, before their rows meet.

:class:`~watersmeet.window.plan.JoinPlan` implements it for two streams, called left and right, and
:class:`~watersmeet.engine.multiway.plan.MultiPlan` for many. Admission, arrival and expiry need nothing else of a plan,
so each is written once for both, in-process and on Spark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from watersmeet.columns.keys import axis_keys, axis_valid, exact_keys, have_ends
from watersmeet.spec.expression import Expression, Predicate, StreamName, columns_of
from watersmeet.spec.normal import Axis
from watersmeet.spec.typing import Schemas
from watersmeet.window.arrival import Moments

if TYPE_CHECKING:
    from watersmeet.window.plan import JoinPlan

__all__ = ["MICRO_SCALE", "AxisSide", "Streams", "in_units", "moments_of", "order_of", "waiting_for", "watermark_of"]

MICRO_SCALE: Final = 6


class AxisSide(NamedTuple):
    """One side of an axis, with the schemas for its expression."""

    axis: Axis
    side: StreamName
    schemas: Schemas


def in_units(duration: timedelta, time_scale: int) -> int:
    """Return a duration in units of 10^-time_scale seconds."""
    return int(duration // timedelta(microseconds=1) * 10 ** (time_scale - MICRO_SCALE))


def watermark_of(streams: Streams, largest: Mapping[StreamName, int | None]) -> int | None:
    """Return the watermark of a time window's streams after these largest timestamps (None: no row); None: none yet.

    It is that of the slowest stream, or with ``idle`` of one that lies so far behind the newest, less the lateness.
    It does not decrease while the largest timestamps do not.
    """
    assert streams.lateness is not None, "a count window has no watermark"
    seen = [time for time in largest.values() if time is not None]
    if not seen:
        return None
    reached = [min(seen)] if len(seen) == len(largest) else []
    if streams.idle is not None:
        reached.append(max(seen) - streams.idle)
    return max(reached) - streams.lateness if reached else None


def waiting_for(streams: Streams, largest: Mapping[StreamName, int | None]) -> StreamName | None:
    """Return the stream that holds the watermark of a time window back, so that rows stay for longer than their window.

    It has had no row yet, or its largest timestamp lies further behind the newest than any row stays. None: there is
    none, or an ``idle`` draws it along.
    """
    reached = watermark_of(streams, largest)
    seen = [time for time in largest.values() if time is not None]
    if not seen:
        return None
    slowest = min(largest, key=lambda stream: -math.inf if (time := largest[stream]) is None else time)
    time = largest[slowest]
    if time is None:
        return slowest if reached is None else None
    is_behind = max(seen) - time > max(map(streams.length, largest))
    return slowest if is_behind and reached == time - (streams.lateness or 0) else None


def moments_of(
    streams: Mapping[StreamName, AxisSide], rows: Mapping[StreamName, pa.RecordBatch]
) -> dict[StreamName, Moments]:
    """Return for rows of some streams what they have on an axis."""
    return {
        stream: (axis_keys(axis, side, rows[stream], schemas), axis_valid(axis, side, rows[stream], schemas))
        for stream, (axis, side, schemas) in streams.items()
    }


def order_of(
    streams: Mapping[StreamName, AxisSide], rows: Mapping[StreamName, pa.RecordBatch]
) -> dict[StreamName, Moments]:
    """Return what orders rows of all streams: what they have on an axis, or their ranks if that lies beyond keys."""
    moments = moments_of(streams, rows)
    exact = all(axis.domain.kind == "integer" for axis, _, _ in streams.values())
    if not exact or not any(len(keys) and have_ends(int(keys.min()), int(keys.max())) for keys, _ in moments.values()):
        return moments
    values = {
        stream: exact_keys(axis, side, _column(axis.of(side), rows[stream]), schemas)
        for stream, (axis, side, schemas) in streams.items()
    }
    distinct = np.unique(np.concatenate(list(values.values())))
    return {stream: (np.searchsorted(distinct, own), moments[stream][1]) for stream, own in values.items()}


def _column(expression: Expression, rows: pa.RecordBatch) -> pa.Array:
    (column,) = columns_of(expression)
    return rows.column(column.name)


class Streams(Protocol):
    """A plan of a join, as far as it concerns one stream at a time."""

    @property
    def schemas(self) -> Mapping[StreamName, pa.Schema]:
        """The streams, in their order."""
        ...

    @property
    def lateness(self) -> int | None:
        """The lateness in the units of the timestamps; None for a count window."""
        ...

    @property
    def idle(self) -> int | None:
        """How far a stream that pauses holds the watermark back, in the units of the timestamps; None: without end."""
        ...

    @property
    def time_scale(self) -> int:
        """Timestamps are measured in units of 10^-time_scale seconds."""
        ...

    def length(self, stream: StreamName) -> int:
        """Return how long a row stays in a stream's window: in the units of the timestamps, or in rows."""
        ...

    def parts(self, stream: StreamName) -> Iterable[tuple[JoinPlan, StreamName]]:
        """Return the joins of two that a stream takes part in, and its side of each."""
        ...

    def time_axis(self, stream: StreamName) -> AxisSide:
        """Return the side of an axis that has a stream's timestamps, in a time window."""
        ...

    def compared(self, stream: StreamName) -> Iterable[AxisSide]:
        """Return the axes, without that of time, on which a stream's row must have a value to match anything."""
        ...

    def condition(self, stream: StreamName) -> Predicate | None:
        """Return the condition on a stream's rows alone, or None."""
        ...

    def moments(self, rows: Mapping[StreamName, pa.RecordBatch]) -> Mapping[StreamName, Moments] | None:
        """Return the moments that order a count window's rows inside a push; None: stream after stream."""
        ...
