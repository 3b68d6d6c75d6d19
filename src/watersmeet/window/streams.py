"""What has to be known of a join, of two streams or many, before its rows meet: the contract ``Streams``.

:class:`~watersmeet.window.plan.JoinPlan` keeps it for two streams, which it calls left and right, and
:class:`~watersmeet.engine.multiway.plan.MultiPlan` for many. Admission, arrival and expiry ask nothing else, so each is
written once for both, in-process and on Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import pyarrow as pa

from watersmeet.columns.keys import axis_keys, axis_valid
from watersmeet.spec.expression import Predicate, Side
from watersmeet.spec.normal import Axis
from watersmeet.spec.typing import Schemas
from watersmeet.window.arrival import Moments

if TYPE_CHECKING:
    from watersmeet.window.plan import JoinPlan

__all__ = ["MICRO_SCALE", "AxisSide", "Streams", "in_units", "moments_of"]

MICRO_SCALE: Final = 6


class AxisSide(NamedTuple):
    """One side of an axis, and the schemas by which its expression is evaluated."""

    axis: Axis
    side: Side
    schemas: Schemas


def in_units(duration: timedelta, time_scale: int) -> int:
    """Return a duration in units of 10^-time_scale seconds."""
    return int(duration // timedelta(microseconds=1) * 10 ** (time_scale - MICRO_SCALE))


def moments_of(streams: Mapping[Side, AxisSide], rows: Mapping[Side, pa.RecordBatch]) -> dict[Side, Moments]:
    """Return for rows of some streams what they have on an axis."""
    return {
        stream: (axis_keys(axis, side, rows[stream], schemas), axis_valid(axis, side, rows[stream], schemas))
        for stream, (axis, side, schemas) in streams.items()
    }


class Streams(Protocol):
    """A join, as its rows see it before they meet any other."""

    @property
    def schemas(self) -> Mapping[Side, pa.Schema]:
        """The streams, in their order."""
        ...

    @property
    def lateness(self) -> int | None:
        """In the units of the timestamps; None for a count window."""
        ...

    @property
    def time_scale(self) -> int:
        """Timestamps are measured in units of 10^-time_scale seconds."""
        ...

    def length(self, stream: Side) -> int:
        """Return how long a row of a stream stays: in the units of the timestamps, or in rows."""
        ...

    def parts(self, stream: Side) -> Iterable[tuple[JoinPlan, Side]]:
        """Return the joins of two that a stream takes part in, and its side of each."""
        ...

    def time_axis(self, stream: Side) -> AxisSide:
        """Return where a time window's stream has its timestamps."""
        ...

    def compared(self, stream: Side) -> Iterable[AxisSide]:
        """Return the axes, that of time left out, on which a row of a stream must have a value to match anything."""
        ...

    def condition(self, stream: Side) -> Predicate | None:
        """Return what a row of a stream must satisfy by itself; None: nothing."""
        ...

    def moments(self, rows: Mapping[Side, pa.RecordBatch]) -> Mapping[Side, Moments] | None:
        """Return what a count window's rows are ordered by inside a push; None: stream after stream."""
        ...
