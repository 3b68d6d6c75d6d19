"""What has to be known of a join, of two streams or many, before its rows meet: the contract ``Streams``.

:class:`~watersmeet.window.plan.JoinPlan` keeps it for two streams, which it calls left and right, and
:class:`~watersmeet.engine.multiway.plan.MultiPlan` for many. Admission, arrival and expiry ask nothing else, so each is
written once for both, in-process and on Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from watersmeet.spec.expression import Predicate, Side
from watersmeet.spec.normal import Axis
from watersmeet.spec.typing import Schemas
from watersmeet.window.arrival import Moments

if TYPE_CHECKING:
    from watersmeet.window.plan import JoinPlan

__all__ = ["AxisSide", "Streams"]


class AxisSide(NamedTuple):
    """One side of an axis, and the schemas by which its expression is evaluated."""

    axis: Axis
    side: Side
    schemas: Schemas


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
