"""Which cores a row goes to: so that every pair meets on exactly one.

- ``hash``: an equality. Both sides go to the one core of their key.
- ``bucket``: a band. The axis is cut into buckets ``BUCKET_WIDTHS`` times as wide as the band; a bucket's number is
  hashed to a core. A left row goes to the core of its own bucket, a right row once to every core that owns a bucket
  its band touches: the pair meets at the left row's core, and only there.
- ``broadcast`` (SplitJoin): anything else. Every row probes on all cores and is stored on one, in turn.

Nothing is sampled or fitted, so nothing has to move when values drift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.columns.keys import axis_keys, axis_values, group_keys
from watersmeet.columns.vectors import to_float
from watersmeet.kernels.keys import shift_ranges
from watersmeet.kernels.text import mix_hashes
from watersmeet.spec.errors import SpecificationError, explain_refusal
from watersmeet.spec.expression import Side
from watersmeet.spec.normal import Axis
from watersmeet.window.plan import JoinPlan

__all__ = ["Route", "Routing", "RoutingName", "choose_routing", "route_rows"]

RoutingName = Literal["auto", "hash", "bucket", "broadcast"]
Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]

BUCKET_WIDTHS: Final = 4
"""Wide buckets send fewer right rows to two cores (one in five here), narrow ones spread skewed values better."""
FARTHEST: Final = 2.0**44
LARGEST_EDGE: Final = 1e300


@dataclass(frozen=True, slots=True)
class Routing:
    """How rows are spread over ``cores`` cores; ``axis`` is the band of ``bucket``."""

    kind: Literal["hash", "bucket", "broadcast"]
    cores: int
    axis: int | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """The rows of a batch that one core gets; ``stored`` says which of them it keeps (None: all)."""

    core: int
    rows: Int64s
    stored: Bools | None


def choose_routing(wanted: RoutingName, plan: JoinPlan, cores: int) -> Routing:
    """Return the first routing that applies, or the one asked for if it does."""
    if wanted not in get_args(RoutingName):
        raise SpecificationError(
            explain_refusal(
                f"routing={wanted!r}",
                ", ".join(map(repr, get_args(RoutingName))),
                'leave it out, or write routing="auto"',
            )
        )
    equalities = [number for number, axis in enumerate(plan.axes) if axis.is_equality]
    bands = [number for number, axis in enumerate(plan.axes) if number != plan.time and _is_bucketable(axis)]
    possible = [
        *([Routing("hash", cores)] if equalities else []),
        *([Routing("bucket", cores, bands[0])] if bands else []),
        Routing("broadcast", cores),
    ]
    for routing in possible:
        if wanted in ("auto", routing.kind):
            return routing
    raise SpecificationError(
        explain_refusal(
            f"routing={wanted!r} for the predicate {plan.predicate}",
            f"for this predicate: {', '.join(routing.kind for routing in possible)}"
            " (hash needs an equality, bucket a band that is bounded on both sides)",
            'leave routing out, or write routing="auto"',
        )
    )


def route_rows(routing: Routing, plan: JoinPlan, side: Side, rows: pa.RecordBatch, first: int) -> list[Route]:
    """Return for every core the rows it gets; ``first`` counts the rows routed before, for storing in turn."""
    count = rows.num_rows
    if routing.kind == "broadcast":
        everything = np.arange(count)
        home = (first + everything) % routing.cores
        return [Route(core, everything, home == core) for core in range(routing.cores)]
    if routing.kind == "hash":
        axes = [axis for axis in plan.axes if axis.is_equality]
        key = group_keys([axis_keys(axis, side, rows, plan.schemas) for axis in axes])
        return _by_core(_core_of(key, routing.cores), routing.cores)
    assert routing.axis is not None
    low, high = _buckets(plan, plan.axes[routing.axis], side, rows)
    lowest = _core_of(low, routing.cores)
    routes = _by_core(lowest, routing.cores)
    if side == "left":
        return routes
    return _merged_routes(routes, lowest, low, high, routing.cores)


def _merged_routes(routes: list[Route], home: Int64s, low: Int64s, high: Int64s, cores: int) -> list[Route]:
    """Add the rows whose band reaches into further buckets to the cores of these, each row once per core."""
    found = {route.core: [route.rows] for route in routes}
    sent = [(home, np.arange(len(home)))]
    for step in range(1, int((high - low).max(initial=0)) + 1):
        more = np.flatnonzero(low + step <= high)
        core = _core_of(low[more] + step, cores)
        fresh = np.ones(len(more), bool)
        for earlier, of_rows in sent:
            where = np.full(len(home), -1)
            where[of_rows] = earlier
            fresh &= where[more] != core
        for target in np.unique(core[fresh]).tolist():
            found.setdefault(target, []).append(more[fresh & (core == target)])
        sent.append((core, more))
    return [Route(core, np.sort(np.concatenate(parts)), None) for core, parts in sorted(found.items())]


def _by_core(core: Int64s, cores: int) -> list[Route]:
    parts = ((number, np.flatnonzero(core == number)) for number in range(cores))
    return [Route(number, rows, None) for number, rows in parts if len(rows)]


def _core_of(key: Int64s, cores: int) -> Int64s:
    return np.asarray(mix_hashes(np.zeros(len(key), np.int64), key).view(np.uint64) % np.uint64(cores), np.int64)


def _is_bucketable(axis: Axis) -> bool:
    return (
        axis.domain.kind in ("integer", "double_offset") and axis.differences.is_band and bool(axis.differences.parts)
    )


def _buckets(plan: JoinPlan, axis: Axis, side: Side, rows: pa.RecordBatch) -> tuple[Int64s, Int64s]:
    """Return the first and last bucket that each row's left partners (for a left row: it itself) can lie in."""
    lows, highs = zip(*axis.differences.parts, strict=True)
    low, high = min(lows), max(highs)
    if axis.domain.kind == "integer":
        key = axis_keys(axis, side, rows, plan.schemas)
        reach = (0, 0) if side == "left" else (int(low), int(high))
        ends = np.empty(len(key), np.int64), np.empty(len(key), np.int64)
        shift_ranges(key, reach[0], True, reach[1], True, *ends)  # noqa: FBT003
        step = max(1, int(high - low) * BUCKET_WIDTHS)
        return ends[0] // step, ends[1] // step
    width = max(float(high - low) * BUCKET_WIDTHS, float(np.finfo(float).tiny))
    values = np.broadcast_to(to_float(axis_values(axis, side, rows, plan.schemas)), (rows.num_rows,))
    # Values that share the last bucket anyway are brought nearer: moving all towards zero keeps neighbours neighbours.
    edge = min(2 * FARTHEST * width, LARGEST_EDGE)
    values = np.clip(np.where(np.isnan(values), np.inf, values), -edge, edge)
    if side == "left":
        bucket = _bucket_number(values, width)
        return bucket, bucket
    # Both ends are moved outwards by more than any rounding: a bucket too many costs a copy, one too few a pair.
    slack = 8 * np.spacing(np.maximum(np.abs(values), max(abs(float(low)), abs(float(high)))))
    return _bucket_number(values + float(low) - slack, width), _bucket_number(values + float(high) + slack, width)


def _bucket_number(values: npt.NDArray[np.float64], width: float) -> Int64s:
    """Return bucket numbers; all values so far out that a bucket is no wider than their rounding share the last one."""
    return np.clip(np.floor(values / width), -FARTHEST, FARTHEST).astype(np.int64)
