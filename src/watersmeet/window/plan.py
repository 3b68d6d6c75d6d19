"""The plan of a join of two streams: all that is decided before the first row, such as types, axes and filters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, chain, pairwise
from typing import Final

import pyarrow as pa

from watersmeet.columns.dictionaries import held_schema
from watersmeet.columns.hidden import is_hidden
from watersmeet.columns.keys import Shift, shifts
from watersmeet.columns.widths import fixed_width
from watersmeet.spec.durations import format_duration
from watersmeet.spec.errors import ColumnTypeError, SchemaError, SpecificationError
from watersmeet.spec.expression import Column, Compare, Predicate, StreamName, streams_of
from watersmeet.spec.intervals import IntervalSet
from watersmeet.spec.membership import without_lists
from watersmeet.spec.names import resolve_columns, resolve_name
from watersmeet.spec.normal import Axis, KeyDomain, normal_form
from watersmeet.spec.options import Structure, check_options
from watersmeet.spec.typing import Schemas, check_predicate, type_of
from watersmeet.spec.window import TimeWindow, Window
from watersmeet.window.arrival import Moments
from watersmeet.window.streams import MICRO_SCALE, AxisSide, in_units, order_of

__all__ = ["OTHER_SIDE", "JoinPlan", "arrival_axis", "check_layouts", "check_time_column", "plan_join"]

OTHER_SIDE: Final[dict[StreamName, StreamName]] = {"left": "right", "right": "left"}


@dataclass(frozen=True)
class JoinPlan:
    """A join of two streams, checked. ``axes`` are the predicate's axes, then that of the time window."""

    schemas: dict[StreamName, pa.Schema]
    predicate: Predicate
    window: Window
    structure: Structure
    axes: tuple[Axis, ...]
    time: int | None
    """The number of the time window's axis among ``axes``; None for a count window."""
    arrival: dict[StreamName, AxisSide] | None
    """The axis of a count window's ``order_by`` columns."""
    filters: dict[StreamName, Predicate | None]
    residual: Predicate | None
    branches: tuple[tuple[Axis, ...], ...] = ()
    """The axes of each term of a disjunction, if each term may have its own index."""

    @cached_property
    def every_axis(self) -> tuple[Axis, ...]:
        """All axes by their numbers: ``axes``, then those of the branches."""
        return (*self.axes, *chain.from_iterable(self.branches))

    @cached_property
    def branch_numbers(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of each branch's own axes."""
        ends = accumulate(map(len, self.branches), initial=len(self.axes))
        return tuple(tuple(range(begin, end)) for begin, end in pairwise(ends))

    @cached_property
    def shifts(self) -> dict[tuple[int, StreamName], list[Shift] | None]:
        """By the number of an axis and a probing side, how far the ranges of its keys lie from the keys."""
        return {
            (number, side): shifts(axis, side) for number, axis in enumerate(self.every_axis) for side in OTHER_SIDE
        }

    @cached_property
    def pair_width(self) -> int | None:
        """The bytes of a pair; None if they depend on its values."""
        widths = [fixed_width(column.type) for schema in self.schemas.values() for column in schema]
        return None if None in widths else sum(width or 0 for width in widths)

    # --- as streams: see :mod:`watersmeet.window.streams` -------------------------------------------------------------

    @cached_property
    def lateness(self) -> int | None:
        """In the units of the timestamps; None for a count window."""
        return in_units(self.window.lateness, self.time_scale) if isinstance(self.window, TimeWindow) else None

    @cached_property
    def idle(self) -> int | None:
        """How far a stream that pauses holds the watermark back, in the units of the timestamps; None: without end."""
        idle = self.window.idle if isinstance(self.window, TimeWindow) else None
        return None if idle is None else in_units(idle, self.time_scale)

    @cached_property
    def lengths(self) -> dict[StreamName, int]:
        """How long a row of each stream stays: in the units of the timestamps, or in rows."""
        window, scale = self.window, self.time_scale
        if isinstance(window, TimeWindow):
            return {"left": in_units(window.left, scale), "right": in_units(window.right, scale)}
        return {"left": window.left, "right": window.right}

    def length(self, side: StreamName) -> int:
        """Return how long a row of ``side`` stays."""
        return self.lengths[side]

    @property
    def time_scale(self) -> int:
        """Timestamps are measured in units of 10^-time_scale seconds."""
        return MICRO_SCALE if self.time is None else self.axes[self.time].domain.scale

    def parts(self, side: StreamName) -> list[tuple[JoinPlan, StreamName]]:
        """Return the joins of two that a side takes part in: this one."""
        return [(self, side)]

    def time_axis(self, side: StreamName) -> AxisSide:
        """Return the side of the time axis that has a side's timestamps."""
        assert self.time is not None
        return AxisSide(self.axes[self.time], side, self.schemas)

    def compared(self, side: StreamName) -> list[AxisSide]:
        """Return the axes of the predicate on which a row must have a value to match anything."""
        axes = (axis for number, axis in enumerate(self.axes) if number != self.time and not axis.domain.nulls)
        return [AxisSide(axis, side, self.schemas) for axis in axes]

    def condition(self, side: StreamName) -> Predicate | None:
        """Return the condition on a side's rows alone, or None."""
        return self.filters[side]

    def moments(self, rows: Mapping[StreamName, pa.RecordBatch]) -> dict[StreamName, Moments] | None:
        """Return the moments that order a count window's rows inside a push; None: left rows, then right ones."""
        return None if self.arrival is None else order_of(self.arrival, rows)


def plan_join(
    left: pa.Schema,
    right: pa.Schema,
    predicate: Predicate,
    window: Window,
    structure: Structure,
    *,
    time_scale: int = MICRO_SCALE,
    with_branches: bool = False,
    case_sensitive: bool = False,
) -> JoinPlan:
    """Check the join of two streams and return its plan.

    Timestamps are measured in units of 10^-``time_scale`` seconds, or in the unit of the finer column.
    ``with_branches`` allows an index for each term of a disjunction. Columns may be named in any case, unless
    ``case_sensitive``.
    """
    check_options(structure=structure)
    schemas: dict[StreamName, pa.Schema] = {"left": held_schema(left), "right": held_schema(right)}
    if not streams_of(predicate) <= set(schemas):
        raise SpecificationError(
            f"the predicate reads streams {', '.join(sorted(streams_of(predicate)))}",
            "left and right",
            "write left.x and right.x",
        )
    check_layouts(schemas)
    predicate = without_lists(resolve_columns(predicate, schemas, case_sensitive=case_sensitive), schemas)
    check_predicate(predicate, schemas)
    form = normal_form(predicate, schemas)
    axes, time, arrival = form.axes, None, None

    def named(side: StreamName, name: str) -> str:
        return resolve_name(name, schemas[side].names, case_sensitive=case_sensitive)

    if isinstance(window, TimeWindow):
        window = replace(window, left_ts=named("left", window.left_ts), right_ts=named("right", window.right_ts))
        axes, time = (*axes, _time_axis(window, schemas, time_scale)), len(axes)
    elif window.order_by is not None:
        axis = arrival_axis(
            Column("left", named("left", window.order_by)), Column("right", named("right", window.order_by)), schemas
        )
        arrival = {side: AxisSide(axis, side, schemas) for side in schemas}
    filters: dict[StreamName, Predicate | None] = {"left": form.left_filter, "right": form.right_filter}
    branches = form.branches if with_branches else ()
    return JoinPlan(schemas, predicate, window, structure, axes, time, arrival, filters, form.residual, branches)


def check_layouts(schemas: Schemas) -> None:
    """Raise for columns of which Arrow cannot make or gather rows, and for names that hidden columns have."""
    for side, schema in schemas.items():
        for column in schema:
            if is_hidden(column):
                raise SchemaError(
                    f"the {side} stream has a column named {column.name!r}",
                    "names that do not begin with the character of code 0, which marks hidden columns",
                    "rename the column before the join",
                )
            try:
                pa.array([], column.type).take(pa.array([], pa.int64()))
            except pa.ArrowNotImplementedError as error:
                raise ColumnTypeError(
                    f"column {column.name!r} of the {side} stream has type {column.type}",
                    "every type whose rows pyarrow can gather (pyarrow.compute.take)",
                    "cast it before the join, for example string_view to string",
                ) from error


def check_time_column(column: Column, schemas: Schemas) -> int:
    """Return the scale of a time window's column; raise unless it holds timestamps."""
    its_type = type_of(column, schemas)
    if its_type.kind != "timestamp":
        raise ColumnTypeError(
            f"the time window's column {column} has type {schemas[column.stream].field(column.name).type}",
            "timestamps, of any unit, with or without a zone",
            f'cast {column.name} before the join, to pyarrow.timestamp("us") or on Spark .cast("timestamp"), '
            "or use count_window",
        )
    return its_type.scale


def _time_axis(window: TimeWindow, schemas: Schemas, scale: int) -> Axis:
    """Return the window as a band on the timestamps: ``left.ts - right.ts`` lies in ``[-left, right]``."""
    columns = {"left": Column("left", window.left_ts), "right": Column("right", window.right_ts)}
    scale = max(scale, *(check_time_column(column, schemas) for column in columns.values()))
    unit = 10 ** (scale - MICRO_SCALE)
    reach = [Fraction(length // timedelta(microseconds=1) * unit) for length in (window.left, window.right)]
    _check_units(window, scale)
    differences = IntervalSet(((-reach[0], reach[1]),), Fraction(1))
    return Axis(columns["left"], columns["right"], KeyDomain("integer", scale), differences, required=True)


def _check_units(window: TimeWindow, scale: int) -> None:
    """Raise for a window that is longer than 64 bits in the units of its timestamps."""
    given = {"left": window.left, "right": window.right, "lateness": window.lateness, "idle": window.idle}
    for name, duration in given.items():
        if duration is not None and duration // timedelta(microseconds=1) * 10 ** (scale - MICRO_SCALE) >= 2**63:
            raise SpecificationError(
                f"a time window with {name}={format_duration(duration)} on timestamps in nanoseconds",
                "at most 2^63 - 1 nanoseconds, about 292 years",
                'give a shorter one, or cast the timestamps to pyarrow.timestamp("us")',
            )


def arrival_axis(left: Column, right: Column, schemas: Schemas) -> Axis:
    """Return the axis by which rows of both streams get one order of arrival."""
    comparison = Compare("<", left, right)
    check_predicate(comparison, schemas)
    types_of_both = [type_of(column, schemas) for column in comparison.children()]
    axes = normal_form(comparison, schemas).axes
    if all(its_type.kind == "timestamp" for its_type in types_of_both):  # of any units, as in a time window
        scale = max(its_type.scale for its_type in types_of_both)
        return replace(axes[0], domain=KeyDomain("integer", scale))
    if len(axes) != 1 or not axes[0].domain.is_exact:
        types = " and ".join(str(schemas[column.stream].field(column.name).type) for column in (left, right))
        names = " and ".join(dict.fromkeys((repr(left.name), repr(right.name))))
        raise ColumnTypeError(
            f"order_by={names} names columns of type {types}",
            "numbers of at most 64 bits, dates or timestamps, of one kind on both sides",
            "order by a timestamp or a sequence number",
        )
    return axes[0]
