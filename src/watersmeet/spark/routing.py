"""Which cores a row goes to: so that every pair meets on exactly one.

- ``hash``: an equality. Both sides go to the one core of their key.
- ``bucket``: a band. The axis is cut into buckets a few times as wide as the band; a bucket's number is hashed to a
  core. A left row goes to the core of its own bucket, a right row once to every core that owns a bucket its band
  touches: the pair meets at the left row's core, and only there.
- ``broadcast`` (SplitJoin): anything else. Every row probes on all cores and is stored on one.

Between the hash of a key or a bucket and its core stands the routing table, which may change while rows are stored (see
:mod:`watersmeet.balance.placement`). Nothing is sampled or fitted, so nothing has to move when values drift.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Final, Literal, TypeVar, get_args

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Float64s, Int32s, Int64s
from watersmeet.balance.generation import Generation, RoutingTable
from watersmeet.balance.placement import Buckets, Route, place_left, place_right
from watersmeet.columns.keys import axis_keys, axis_values, group_keys
from watersmeet.columns.vectors import to_float
from watersmeet.kernels.keys import shift_ranges
from watersmeet.kernels.text import mix_hashes
from watersmeet.spark.tables import current_table
from watersmeet.spec.errors import SpecificationError, explain_refusal
from watersmeet.spec.expression import Predicate, Side
from watersmeet.spec.normal import Axis
from watersmeet.spec.typing import Schemas
from watersmeet.window.plan import JoinPlan

__all__ = [
    "PairRoutes",
    "Route",
    "Routing",
    "RoutingName",
    "buckets_of",
    "choose_routing",
    "is_bucketable",
    "pick_kind",
    "reach_of",
    "route_rows",
    "turns_of",
]

K = TypeVar("K", bound=str)
RoutingName = Literal["auto", "hash", "bucket", "broadcast"]

ROUNDINGS: Final = 64
"""Units in the last place that a chain of eight bands cannot move a value by."""
FARTHEST: Final = 2.0**44
LARGEST_EDGE: Final = 1e300


@dataclass(frozen=True, slots=True)
class Routing:
    """How rows are spread over ``cores`` cores; ``axis`` is the band of ``bucket``."""

    kind: Literal["hash", "bucket", "broadcast"]
    cores: int
    axis: int | None = None
    tables: str | None = field(default=None, repr=False)
    """Folder of routing tables; None where the first one stays for ever. A checkpoint does not depend on its name."""
    balances: bool = field(default=True, repr=False)
    """Whether groups are counted, for tables to come; those that are there hold anyway."""


def choose_routing(wanted: RoutingName, plan: JoinPlan, cores: int) -> Routing:
    """Return the first routing that applies, or the one asked for if it does."""
    equalities = [number for number, axis in enumerate(plan.axes) if axis.is_equality]
    bands = [number for number, axis in enumerate(plan.axes) if number != plan.time and is_bucketable(axis)]
    possible = [
        *([Routing("hash", cores)] if equalities else []),
        *([Routing("bucket", cores, bands[0])] if bands else []),
        Routing("broadcast", cores),
    ]
    needs = "hash needs an equality, bucket a band that is bounded on both sides"
    kinds = {routing.kind: routing for routing in possible}
    return kinds[pick_kind(wanted, get_args(RoutingName), list(kinds), plan.predicate, needs)]


def pick_kind(wanted: str, names: Sequence[str], possible: Sequence[K], predicate: Predicate, needs: str) -> K:
    """Return the first kind of routing that is possible, or the one asked for if it is."""
    next_step = 'leave routing out, or write routing="auto"'
    if wanted not in names:
        raise SpecificationError(explain_refusal(f"routing={wanted!r}", ", ".join(map(repr, names)), next_step))
    for kind in possible:
        if wanted in ("auto", kind):
            return kind
    raise SpecificationError(
        explain_refusal(
            f"routing={wanted!r} for the predicate {predicate}",
            f"for this predicate: {', '.join(possible)} ({needs})",
            next_step,
        )
    )


def route_rows(
    routing: Routing, plan: JoinPlan, side: Side, rows: pa.RecordBatch, first: int, *, table: RoutingTable
) -> list[Route]:
    """Return for every core the rows it gets; ``first`` counts the rows routed before, for storing in turn."""

    def turns() -> Int64s:
        return turns_of([(plan, side)], rows, first)

    if routing.kind == "broadcast":
        everything = np.arange(rows.num_rows)
        home = (turns() & np.iinfo(np.int64).max) % routing.cores
        return [Route(core, everything, home == core) for core in range(routing.cores)]
    buckets = _buckets(routing, plan, side, rows)
    routes = place_left(table, buckets, turns) if side == "left" else place_right(table, buckets)
    if routing.tables is None or not routing.balances:
        return routes
    newest = table.newest
    low, high = buckets(newest.width)
    begin = newest.group_of(low).astype(np.int32)
    if side == "left" or high is low:
        return [replace(route, group=begin[route.rows]) for route in routes]
    end = newest.group_of(high).astype(np.int32)
    return [replace(route, group=_counted_for(newest, route, begin, end)) for route in routes]


def _counted_for(newest: Generation, route: Route, begin: Int32s, end: Int32s) -> Int32s:
    """Return the group that each row of a route counts for: its first bucket's, or ``~`` that of its last one.

    A right row comes to some cores for its last bucket's sake alone: there it is a copy.
    """
    own = newest.owned_by(route.core)
    first, last = begin[route.rows], end[route.rows]
    return np.where(~own[first] & own[last], ~last, first)


def turns_of(plans: Sequence[tuple[JoinPlan, Side]], rows: pa.RecordBatch, first: int) -> Int64s:
    """Return numbers by which rows are shared out: of their values, so that a task that is run again shares out alike.

    Its rows may come in another order then. In a count window they come in that of their numbers, whatever happens, and
    ``first`` counts those before. A row may have a part in several ``plans``, as their left or right side.
    """
    if plans[0][0].time is None:
        return first + np.arange(rows.num_rows)
    keys = [axis_keys(axis, side, rows, plan.schemas) for plan, side in plans for axis in plan.axes]
    return np.asarray(mix_hashes(np.zeros(rows.num_rows, np.int64), group_keys(keys)))


def _buckets(routing: Routing, plan: JoinPlan, side: Side, rows: pa.RecordBatch) -> Buckets:
    if routing.kind == "hash":
        axes = [axis for axis in plan.axes if axis.is_equality]
        key = group_keys([axis_keys(axis, side, rows, plan.schemas) for axis in axes])
        return lambda _: (key, key)
    assert routing.axis is not None
    axis = plan.axes[routing.axis]
    band = reach_of(axis)
    reach = (Fraction(0), Fraction(0)) if side == "left" else band
    width = band[1] - band[0]
    return cache(lambda widths: buckets_of(axis, side, plan.schemas, rows, reach=reach, width=width * widths))


@dataclass(frozen=True, slots=True)
class PairRoutes:
    """Says which cores get which rows of a join of two streams: ``Routes`` of envelopes."""

    routing: Routing
    plan: JoinPlan

    @property
    def table(self) -> RoutingTable:
        """The routing table of the micro-batch whose task this is."""
        return current_table(self.routing.tables, self.routing.cores, balances=self.routing.balances)

    def __call__(self, side: Side, rows: pa.RecordBatch, routed: int) -> list[Route]:
        """Return for every core the rows it gets; ``routed`` counts the rows routed before."""
        return route_rows(self.routing, self.plan, side, rows, routed, table=self.table)


def is_bucketable(axis: Axis) -> bool:
    """Tell whether an axis bounds the difference of its values on both sides, and these are numbers."""
    return (
        (axis.domain.is_integer or axis.domain.kind == "double_offset")
        and not axis.domain.nulls
        and axis.differences.is_band
        and bool(axis.differences.parts)
    )


def reach_of(axis: Axis) -> tuple[Fraction, Fraction]:
    """Return the lowest and the highest difference ``left - right`` that a band allows."""
    lows, highs = zip(*axis.differences.parts, strict=True)
    return min(lows), max(highs)


def buckets_of(
    axis: Axis,
    side: Side,
    schemas: Schemas,
    rows: pa.RecordBatch,
    *,
    reach: tuple[Fraction, Fraction],
    width: Fraction,
) -> tuple[Int64s, Int64s]:
    """Return the first and the last bucket that what each row is looked for by can lie in.

    That is a value whose difference from the row's own lies in ``reach``; without any reach it is the row's own value,
    and there is one bucket. Buckets are ``width`` wide.
    """
    low, high = reach
    if axis.domain.is_integer:
        key = axis_keys(axis, side, rows, schemas)
        ends = np.empty(len(key), np.int64), np.empty(len(key), np.int64)
        shift_ranges(key, int(low), True, int(high), True, *ends)  # noqa: FBT003
        step = max(1, int(width))
        return ends[0] // step, ends[1] // step
    size = max(float(width), float(np.finfo(float).tiny))
    values = np.broadcast_to(to_float(axis_values(axis, side, rows, schemas)), (rows.num_rows,))
    # Values that share the last bucket anyway are brought nearer: moving all towards zero keeps neighbours neighbours.
    edge = min(2 * FARTHEST * size, LARGEST_EDGE)
    values = np.clip(np.where(np.isnan(values), np.inf, values), -edge, edge)
    if low == high == 0:
        bucket = _bucket_number(values, size)
        return bucket, bucket
    # Both ends are moved outwards by more than any rounding: a bucket too many costs a copy, one too few a pair.
    slack = ROUNDINGS * np.spacing(np.maximum(np.abs(values), max(abs(float(low)), abs(float(high)))))
    return _bucket_number(values + float(low) - slack, size), _bucket_number(values + float(high) + slack, size)


def _bucket_number(values: Float64s, width: float) -> Int64s:
    """Return bucket numbers; all values so far out that a bucket is no wider than their rounding share the last one."""
    return np.clip(np.floor(values / width), -FARTHEST, FARTHEST).astype(np.int64)
