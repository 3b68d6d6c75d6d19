"""Where many streams get one key from: along equalities, or bands, that connect a column of every stream.

Each axis between two streams is an edge between two expressions, of a length: how far their values may lie apart. From
any expression the shortest way to every stream says where that gets its key from, and how far it may lie from the
expression's own: distances along a chain of bands add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from watersmeet.engine.multiway.plan import MultiPlan, PairPlan
from watersmeet.spark.routing.buckets import HERE, Reach, is_bucketable, reach_of
from watersmeet.spec.expression import Column, Expression, Side, sides_of, with_columns
from watersmeet.spec.normal import Axis, KeyDomain

__all__ = ["Spot", "Spots", "connections", "stream_of", "width_of"]


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a stream's rows get their key from: an axis of the streams ``pair``."""

    pair: tuple[Side, Side]
    axis: int
    reach: Reach = HERE
    """How far the centre's value may lie from the row's: lowest and highest difference."""


Spots = tuple[tuple[Side, Spot], ...]
"""The spot of every stream."""


@dataclass(frozen=True, slots=True)
class _Edge:
    """An axis between two streams: ``left - right`` lies in ``reach``."""

    pair: tuple[Side, Side]
    axis: int
    left: Expression
    right: Expression
    domain: KeyDomain
    reach: Reach


def connections(plan: MultiPlan, allows: Callable[[Axis], bool]) -> Iterator[tuple[Expression, Spots]]:
    """Yield every expression that axes which are allowed connect with all streams, and the spots nearest to it.

    Only axes of one domain are used together: other keys could not be compared.
    """
    edges = [edge for edge, axis in _edges(plan) if allows(axis)]
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
        node = min(waiting, key=lambda each: width_of(waiting[each]))
        spot = waiting.pop(node)
        done.add(node)
        found.setdefault(stream_of(node), spot)
        low, high = spot.reach  # start - node lies in [low, high]
        for edge in edges:
            if node == edge.left and edge.right not in done:  # start - right = (start - left) + (left - right)
                _offer(waiting, edge.right, Spot(edge.pair, edge.axis, (low + edge.reach[0], high + edge.reach[1])))
            elif node == edge.right and edge.left not in done:  # start - left = (start - right) - (left - right)
                _offer(waiting, edge.left, Spot(edge.pair, edge.axis, (low - edge.reach[1], high - edge.reach[0])))
    return found


def _offer(waiting: dict[Expression, Spot], node: Expression, spot: Spot) -> None:
    if node not in waiting or width_of(spot) < width_of(waiting[node]):
        waiting[node] = spot


def width_of(spot: Spot) -> Fraction:
    """Return how wide the reach of a spot is."""
    return spot.reach[1] - spot.reach[0]


def stream_of(expression: Expression) -> Side:
    """Return the stream that an expression of one stream reads."""
    (stream,) = sides_of(expression)
    return stream
