"""Which cores the rows of many streams go to: so that every result is found on exactly one.

- ``hash``: equalities connect a column of every stream. All go to the core of their key.
- ``bucket``: bands connect a column of every stream, so each lies within some distance of that of one stream, the
  *centre*; distances along a chain of bands add up. A row of the centre goes to the core of its own bucket, any other
  row to every core that owns a bucket its distances touch: a result is found at the core of its centre row.
- ``replicate``: anything else. Rows of one stream, best the largest, are spread by a hash of their keys; those of all
  others go to every core. A result is found at the core of the one row that is not replicated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal, get_args

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.balance.generation import RoutingTable, first_generation
from watersmeet.balance.placement import Route, place_left, place_right
from watersmeet.columns.keys import axis_keys, group_keys
from watersmeet.engine.multiway.plan import MultiPlan, PairPlan
from watersmeet.spark.routing import buckets_of, is_bucketable, pick_kind, reach_of, turns_of
from watersmeet.spec.errors import SpecificationError, explain_refusal
from watersmeet.spec.expression import Column, Expression, Side, sides_of, with_columns
from watersmeet.spec.normal import Axis, KeyDomain

__all__ = ["MultiRoutes", "MultiRouting", "MultiRoutingName", "Spot", "choose_multi_routing"]

MultiRoutingName = Literal["auto", "hash", "bucket", "replicate"]

HERE: Final = (Fraction(0), Fraction(0))


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a stream's rows get their key from: an axis of the streams ``pair``."""

    pair: tuple[Side, Side]
    axis: int
    reach: tuple[Fraction, Fraction] = HERE
    """How far the centre's value may lie from the row's: lowest and highest difference."""


@dataclass(frozen=True, slots=True)
class MultiRouting:
    """How rows are spread over ``cores`` cores."""

    kind: Literal["hash", "bucket", "replicate"]
    cores: int
    spots: tuple[tuple[Side, Spot], ...] = ()
    """For ``hash`` and ``bucket``, by stream."""
    centre: Side | None = None
    """The stream whose rows go to one core each, for ``bucket`` and ``replicate``."""


@dataclass(frozen=True, slots=True)
class _Edge:
    """An axis between two streams: ``left - right`` lies in ``reach``."""

    pair: tuple[Side, Side]
    axis: int
    left: Expression
    right: Expression
    domain: KeyDomain
    reach: tuple[Fraction, Fraction]


def choose_multi_routing(
    wanted: MultiRoutingName, plan: MultiPlan, cores: int, largest: Side | None = None
) -> MultiRouting:
    """Return the first routing that applies, or the one asked for if it does."""
    if largest is not None and largest not in plan.schemas:
        raise SpecificationError(
            explain_refusal(
                f"largest={largest!r}", f"one of the streams: {', '.join(plan.streams)}", "check the spelling"
            )
        )
    possible = [
        routing
        for routing in (
            _by_hash(plan, cores),
            _by_bucket(plan, cores),
            MultiRouting("replicate", cores, centre=largest or plan.streams[0]),
        )
        if routing is not None
    ]
    needs = "hash needs equalities, bucket bands, that connect a column of every stream"
    kinds = {routing.kind: routing for routing in possible}
    return kinds[pick_kind(wanted, get_args(MultiRoutingName), list(kinds), plan.predicate, needs)]


def _by_hash(plan: MultiPlan, cores: int) -> MultiRouting | None:
    found = _starts(plan, [edge for edge, axis in _edges(plan) if axis.is_equality])
    return next((MultiRouting("hash", cores, spots) for _, spots in found), None)


def _by_bucket(plan: MultiPlan, cores: int) -> MultiRouting | None:
    """Return the routing whose centre is the nearest to all others."""
    found = _starts(plan, [edge for edge, axis in _edges(plan) if is_bucketable(axis)])
    best = min(found, key=lambda option: sum(_width(spot) for _, spot in option[1]), default=None)
    return None if best is None else MultiRouting("bucket", cores, best[1], _stream_of(best[0]))


def _starts(plan: MultiPlan, edges: list[_Edge]) -> Iterator[tuple[Expression, tuple[tuple[Side, Spot], ...]]]:
    """Yield every expression that edges connect with all streams, and the spots of these nearest to it.

    Only edges of one domain are used together: other keys could not be compared.
    """
    for domain in dict.fromkeys(edge.domain for edge in edges):
        own = [edge for edge in edges if edge.domain == domain]
        for start in dict.fromkeys(node for edge in own for node in (edge.left, edge.right)):
            found = _nearest(own, start)
            if set(found) == set(plan.streams):
                yield start, tuple((stream, found[stream]) for stream in plan.streams)


def _edges(plan: MultiPlan) -> Iterator[tuple[_Edge, Axis]]:
    """Yield every axis of the predicate, its expressions read as those of the streams."""
    for pair in plan.pairs.values():
        for number, axis in enumerate(pair.plan.axes):
            if number != pair.plan.time:
                left, right = (_of_stream(expression, pair) for expression in (axis.left, axis.right))
                reach = reach_of(axis) if is_bucketable(axis) else HERE
                yield _Edge((pair.left, pair.right), number, left, right, axis.domain, reach), axis


def _of_stream(expression: Expression, pair: PairPlan) -> Expression:
    names = {"left": pair.left, "right": pair.right}
    return with_columns(expression, lambda column: Column(names[column.side], column.name))


def _nearest(edges: list[_Edge], start: Expression) -> dict[Side, Spot]:
    """Return for every stream that is connected with ``start`` its spot nearest to that, as Dijkstra found it."""
    first = next(edge for edge in edges if start in (edge.left, edge.right))
    waiting: dict[Expression, Spot] = {start: Spot(first.pair, first.axis)}
    found: dict[Side, Spot] = {}
    done: set[Expression] = set()
    while waiting:
        node = min(waiting, key=lambda each: _width(waiting[each]))
        spot = waiting.pop(node)
        done.add(node)
        found.setdefault(_stream_of(node), spot)
        low, high = spot.reach  # start - node lies in [low, high]
        for edge in edges:
            if node == edge.left and edge.right not in done:  # start - right = (start - left) + (left - right)
                _offer(waiting, edge.right, Spot(edge.pair, edge.axis, (low + edge.reach[0], high + edge.reach[1])))
            elif node == edge.right and edge.left not in done:  # start - left = (start - right) - (left - right)
                _offer(waiting, edge.left, Spot(edge.pair, edge.axis, (low - edge.reach[1], high - edge.reach[0])))
    return found


def _offer(waiting: dict[Expression, Spot], node: Expression, spot: Spot) -> None:
    if node not in waiting or _width(spot) < _width(waiting[node]):
        waiting[node] = spot


def _width(spot: Spot) -> Fraction:
    return spot.reach[1] - spot.reach[0]


def _stream_of(expression: Expression) -> Side:
    """Return the stream that an expression of one stream reads."""
    (stream,) = sides_of(expression)
    return stream


@dataclass(frozen=True)
class MultiRoutes:
    """Says which cores get which rows of a join of many streams: ``Routes`` of envelopes."""

    routing: MultiRouting
    plan: MultiPlan

    def __call__(self, stream: Side, rows: pa.RecordBatch, routed: int) -> list[Route]:
        """Return for every core the rows it gets; ``routed`` counts the rows routed before."""
        routing = self.routing

        def turns() -> Int64s:
            plans = [(pair.plan, pair.side(stream)) for streams, pair in self.plan.pairs.items() if stream in streams]
            return turns_of(plans, rows, routed)

        if routing.kind == "replicate" and stream != routing.centre:
            everything = np.arange(rows.num_rows)
            return [Route(core, everything) for core in range(routing.cores)]
        if routing.kind == "bucket":
            if stream == routing.centre:
                return place_left(self.table, lambda width: self._buckets(stream, rows, width), turns)
            return place_right(self.table, lambda width: self._buckets(stream, rows, width))
        key = self._key(stream, rows) if routing.kind == "hash" else turns()
        return place_left(self.table, lambda _: (key, key), turns)

    @property
    def table(self) -> RoutingTable:
        """The routing table, which stays the first one."""
        return RoutingTable((first_generation(self.routing.cores),))

    @cached_property
    def _spots(self) -> dict[Side, Spot]:
        return dict(self.routing.spots)

    @cached_property
    def _width(self) -> Fraction:
        """The widest reach of any stream: what buckets are measured in."""
        return max(map(_width, self._spots.values()))

    def _key(self, stream: Side, rows: pa.RecordBatch) -> Int64s:
        pair = self.plan.pair(*self._spots[stream].pair)
        axis = pair.plan.axes[self._spots[stream].axis]
        return group_keys([axis_keys(axis, pair.side(stream), rows, pair.plan.schemas)])

    def _buckets(self, stream: Side, rows: pa.RecordBatch, width: int) -> tuple[Int64s, Int64s]:
        spot = self._spots[stream]
        pair = self.plan.pair(*spot.pair)
        axis = pair.plan.axes[spot.axis]
        return buckets_of(axis, pair.side(stream), pair.plan.schemas, rows, reach=spot.reach, width=self._width * width)
