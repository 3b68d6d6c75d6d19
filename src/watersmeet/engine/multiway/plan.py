"""The plan of a join of many streams, as a conjunction of joins of two.

*Windows are pairwise.* A result exists iff every row is still in its stream's window when the latest arrives. In time:
``latest - ts_i <= W_i`` for all *i*, which is the same as ``ts_j - ts_i <= W_i`` for all *i* and *j*, and that is the
rule of two streams for every two of them. In a count window: a row that is among the last of its stream when the
latest arrives is so too when any row between the two does.

So a join of many streams consists of three things: for every two streams a :class:`~watersmeet.window.plan.JoinPlan`,
in which they are called left and right, made of the conjuncts that read these two (TRUE if there are none); a filter
for each stream; and a residual, the conjuncts that read more streams. Indexes and windows know joins of two streams
only.

*Derived* equalities follow from those given (:mod:`watersmeet.spec.transitive`). Where two streams have conditions
anyway they are added to these. Where they have none, they make an edge that a probe order may use, at the price of an
index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import pyarrow as pa

from watersmeet.columns.dictionaries import held_schema
from watersmeet.spec.errors import ColumnTypeError, SpecificationError
from watersmeet.spec.expression import (
    Boolean,
    Column,
    Constant,
    Predicate,
    StreamName,
    columns_of,
    conjunction,
    streams_of,
)
from watersmeet.spec.membership import without_lists
from watersmeet.spec.names import resolve_columns, resolve_name
from watersmeet.spec.normal import Axis, KeyDomain
from watersmeet.spec.options import Structure, check_options
from watersmeet.spec.streams import check_names, take_apart, with_streams
from watersmeet.spec.transitive import close_equalities
from watersmeet.spec.typing import check_predicate
from watersmeet.spec.window import CountWindows, TimeWindows, Windows
from watersmeet.window.arrival import Moments
from watersmeet.window.plan import JoinPlan, arrival_axis, check_layouts, check_time_column, plan_join
from watersmeet.window.streams import MICRO_SCALE, AxisSide, in_units, order_of

__all__ = ["MultiPlan", "PairPlan", "Residual", "plan_streams"]


TRUE = Boolean(Constant(value=True, kind="boolean"))


@dataclass(frozen=True)
class PairPlan:
    """The plan of two of the streams; ``left`` and ``right`` are their names."""

    left: StreamName
    right: StreamName
    plan: JoinPlan
    is_edge: bool
    """Whether a condition reads both: only then rows of one probe the other's window."""

    def side(self, stream: StreamName) -> StreamName:
        """Return the side that a stream is in ``plan``."""
        return "left" if stream == self.left else "right"

    def other(self, stream: StreamName) -> StreamName:
        """Return the other one of the two streams."""
        return self.right if stream == self.left else self.left

    def columns(self, stream: StreamName) -> list[str]:
        """Return the columns of a stream that this pair reads: a row is reduced to them before it is indexed."""
        return list(self.plan.schemas[self.side(stream)].names)


@dataclass(frozen=True)
class Residual:
    """A conjunct that reads more than two streams."""

    streams: frozenset[StreamName]
    predicate: Predicate


@dataclass(frozen=True)
class MultiPlan:
    """A join of many streams, checked, as pairs of streams, filters and residual."""

    schemas: dict[StreamName, pa.Schema]
    predicate: Predicate
    window: Windows
    structure: Structure
    pairs: dict[frozenset[StreamName], PairPlan]
    filters: dict[StreamName, Predicate]
    residual: tuple[Residual, ...]
    arrival: dict[StreamName, AxisSide] | None
    """In a count window with ``order_by``: for each stream the axis that orders its rows, and its side of the axis."""
    time_scale: int
    """Timestamps are measured in units of 10^-time_scale seconds."""
    derived: dict[frozenset[StreamName], PairPlan]
    """Of two streams without a condition of their own: the join on an equality that follows from others."""
    classes: dict[frozenset[StreamName], frozenset[Column]]
    """Of two streams that equalities connect, also through others, the columns that are all equal."""

    @cached_property
    def streams(self) -> tuple[StreamName, ...]:
        """The streams' names, in their order."""
        return tuple(self.schemas)

    def streams_from(self, first: StreamName) -> tuple[StreamName, ...]:
        """Return the streams' names, a certain one first."""
        return first, *(stream for stream in self.streams if stream != first)

    def pair(self, one: StreamName, other: StreamName) -> PairPlan:
        """Return the plan of two streams."""
        return self.pairs[frozenset((one, other))]

    def edge(self, one: StreamName, other: StreamName) -> PairPlan:
        """Return by what rows of one stream look for rows of another: what holds between them, or is derived."""
        return self.derived.get(frozenset((one, other))) or self.pair(one, other)

    @cached_property
    def neighbours(self) -> dict[StreamName, tuple[StreamName, ...]]:
        """For each stream the streams that it has a condition with."""
        return {
            stream: tuple(other for other in self.streams if other != stream and self.pair(stream, other).is_edge)
            for stream in self.streams
        }

    @cached_property
    def result_schema(self) -> pa.Schema:
        """The schema of the results: ``NAME_column`` for every column of every stream."""
        return pa.schema(
            column.with_name(f"{stream}_{column.name}") for stream, schema in self.schemas.items() for column in schema
        )

    # --- as streams: see :mod:`watersmeet.window.streams` -------------------------------------------------------------

    @cached_property
    def lateness(self) -> int | None:
        """In the units of the timestamps; None for a count window."""
        return in_units(self.window.lateness, self.time_scale) if isinstance(self.window, TimeWindows) else None

    @cached_property
    def idle(self) -> int | None:
        """How far a stream that pauses holds the watermark back, in the units of the timestamps; None: without end."""
        idle = self.window.idle if isinstance(self.window, TimeWindows) else None
        return None if idle is None else in_units(idle, self.time_scale)

    @cached_property
    def lengths(self) -> dict[StreamName, int]:
        """How long a row of each stream stays: in the units of the timestamps, or in rows."""
        window, scale = self.window, self.time_scale
        if isinstance(window, TimeWindows):
            return {stream: in_units(length, scale) for stream, length in window.lengths.items()}
        return dict(window.counts)

    def length(self, stream: StreamName) -> int:
        """Return how long a row of a stream stays."""
        return self.lengths[stream]

    def parts(self, stream: StreamName) -> list[tuple[JoinPlan, StreamName]]:
        """Return the joins of a stream with each other one, and its side of each."""
        return [(pair.plan, pair.side(stream)) for streams, pair in self.pairs.items() if stream in streams]

    def time_axis(self, stream: StreamName) -> AxisSide:
        """Return where a time window's stream has its timestamps."""
        plan, side = self.parts(stream)[0]
        return plan.time_axis(side)

    def compared(self, stream: StreamName) -> list[AxisSide]:
        """Return the axes on which a row of a stream must have a value to match anything."""
        return [axis for plan, side in self.parts(stream) for axis in plan.compared(side)]

    def condition(self, stream: StreamName) -> Predicate | None:
        """Return what a row of a stream must satisfy by itself; None: nothing."""
        return self.filters.get(stream)

    def moments(self, rows: Mapping[StreamName, pa.RecordBatch]) -> Mapping[StreamName, Moments] | None:
        """Return what a count window's rows are ordered by inside a push; None: stream after stream."""
        return None if self.arrival is None else order_of(self.arrival, rows)


def plan_streams(
    schemas: Mapping[StreamName, pa.Schema],
    predicate: Predicate,
    window: Windows,
    structure: Structure,
    *,
    case_sensitive: bool = False,
    closes: bool = False,
) -> MultiPlan:
    """Check a join of many streams and return its plan; ``case_sensitive`` as for two.

    It ``closes`` equalities only for those who can index a window anew while it is in use.
    """
    check_options(structure=structure)
    streams = check_names(schemas)
    own = {stream: held_schema(schema) for stream, schema in schemas.items()}
    check_layouts(own)
    predicate = without_lists(resolve_columns(predicate, own, case_sensitive=case_sensitive), own)
    window = _resolved(window, own, case_sensitive=case_sensitive)
    check_predicate(predicate, own)
    conjuncts = take_apart(predicate, streams)
    residual = tuple(Residual(streams_of(term), term) for term in conjuncts.residual)
    scale = MICRO_SCALE
    if isinstance(window, TimeWindows):
        scale = max(scale, *(check_time_column(Column(stream, ts), own) for stream, ts in window.ts.items()))
    closure = close_equalities(conjuncts.pairs if closes else {}, own)

    def pair_plan(left: StreamName, right: StreamName, *terms: Predicate | None, in_residual: bool) -> PairPlan:
        known = [term for term in terms if term is not None]
        predicate = conjunction(*known) if known else None
        return _pair_plan(
            {left: own[left], right: own[right]}, predicate, window, structure, scale, in_residual=in_residual
        )

    pairs, derived = {}, {}
    for left, right in combinations(streams, 2):
        given, follows = conjuncts.pairs.get((left, right)), closure.derived.get((left, right))
        in_residual = any({left, right} <= term.streams for term in residual)
        has_edge = given is not None or in_residual
        pairs[frozenset((left, right))] = pair_plan(
            left, right, given, follows if has_edge else None, in_residual=in_residual
        )
        if follows is not None and not has_edge:
            derived[frozenset((left, right))] = pair_plan(left, right, follows, in_residual=False)
    order_by = window.order_by if isinstance(window, CountWindows) else None
    arrival = None if order_by is None else _arrival(order_by, own)
    plan = MultiPlan(
        own, predicate, window, structure, pairs, conjuncts.filters, residual, arrival, scale, derived, closure.classes
    )
    _check_result_names(plan.result_schema)
    return plan


def _resolved(window: Windows, schemas: Mapping[StreamName, pa.Schema], *, case_sensitive: bool) -> Windows:
    """Return the windows with columns named as in the streams' schemas."""

    def named(columns: Mapping[StreamName, str]) -> dict[StreamName, str]:
        return {
            stream: resolve_name(name, schemas[stream].names, case_sensitive=case_sensitive)
            for stream, name in columns.items()
        }

    if isinstance(window, TimeWindows):
        return replace(window, ts=named(window.ts))
    return window if window.order_by is None else replace(window, order_by=named(window.order_by))


def _pair_plan(
    schemas: dict[StreamName, pa.Schema],
    predicate: Predicate | None,
    window: Windows,
    structure: Structure,
    time_scale: int,
    *,
    in_residual: bool,
) -> PairPlan:
    """Return the plan of two streams; ``predicate`` is None if no conjunct reads exactly these two."""
    left, right = schemas
    renamed = TRUE if predicate is None else with_streams(predicate, {left: "left", right: "right"})
    read = {(column.stream, column.name) for column in columns_of(renamed)}
    if isinstance(window, TimeWindows):
        read |= {("left", window.ts[left]), ("right", window.ts[right])}

    def read_columns(stream: StreamName, side: StreamName) -> pa.Schema:
        return pa.schema([column for column in schemas[stream] if (side, column.name) in read])

    between = window.between(left, right)
    plan = plan_join(
        read_columns(left, "left"), read_columns(right, "right"), renamed, between, structure, time_scale=time_scale
    )
    return PairPlan(left, right, plan, predicate is not None or in_residual)


def _arrival(order_by: dict[StreamName, str], schemas: dict[StreamName, pa.Schema]) -> dict[StreamName, AxisSide]:
    """Return an axis for each stream by which the rows of all streams get one order: all axes have one domain."""
    found: dict[StreamName, tuple[Axis, StreamName]] = {}
    domains: set[KeyDomain] = set()
    for left, right in combinations(schemas, 2):
        axis = arrival_axis(
            Column("left", order_by[left]),
            Column("right", order_by[right]),
            {"left": schemas[left], "right": schemas[right]},
        )
        domains.add(axis.domain)
        found.setdefault(left, (axis, "left"))
        found.setdefault(right, (axis, "right"))
    if len({domain.kind for domain in domains}) > 1:
        types = ", ".join(
            f"{stream}.{column}: {schemas[stream].field(column).type}" for stream, column in order_by.items()
        )
        raise ColumnTypeError(
            f"order_by names columns of type {types}",
            "columns of one kind in all streams",
            "order by a timestamp or a sequence number",
        )
    finest = max(domains, key=lambda domain: domain.scale)
    return {
        stream: AxisSide(replace(axis, domain=finest), side, {side: schemas[stream]})
        for stream, (axis, side) in found.items()
    }


def _check_result_names(schema: pa.Schema) -> None:
    repeated = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if repeated:
        raise SpecificationError(
            f"the result would have more than one column named {', '.join(map(repr, repeated))}",
            "names that stay different when the stream's is put before the column's",
            "rename the streams or the columns",
        )
