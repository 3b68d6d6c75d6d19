"""What a routing must do: send rows to cores so that every result is given by exactly one of them.

It is found on one core alone, but for two cases. In a full join by buckets or by broadcast several cores may find one
pair, and the judge of its left row gives it. Of many streams several may find a result while owners of groups change
(see :mod:`watersmeet.spark.multiway.processor`).

Where rows come out that met nobody, every row of a preserved stream has *one judge*: a core that it and all rows come
to that it can meet (see :mod:`watersmeet.spark.judge`). That is a row's home where it has one. Where rows of both
streams have copies, a route says which rows its core judges.

A :class:`Routing` is made for a join and a number of cores; it travels to the tasks and routes batch after batch. What
others may do with one follows from what it says it *has*, never from its name. A routing with *groups* sends rows by
the hash of a key, or of a bucket of values. Between that hash and a core stands the routing table, which may change
while rows are stored (see :mod:`watersmeet.balance.placement`): so load can be balanced. Nothing is sampled or fitted,
so nothing has to move when values drift.

A routing of many streams also says its *centre*: the stream of which each row lies on one core, where the results of
that row are given.

A task looks its routing table up once: :meth:`Routes.now` gives what routes all its rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int32s, Int64s
from watersmeet.balance.generation import Generation, RoutingTable
from watersmeet.balance.placement import Buckets, Route, place_left, place_right
from watersmeet.columns.keys import axis_keys, combine_keys
from watersmeet.kernels.text import mix_hashes
from watersmeet.spark.tables import Tables
from watersmeet.spec.errors import SpecificationError
from watersmeet.spec.expression import Compare, Predicate, StreamName
from watersmeet.spec.normal import Axis
from watersmeet.spec.saved_form import predicate_to_json
from watersmeet.window.streams import Streams

__all__ = ["Grouped", "Router", "Routes", "Routing", "axis_to_json", "pick"]

Plan_co = TypeVar("Plan_co", bound=Streams, covariant=True)
AnyRouting = TypeVar("AnyRouting", bound="Routing[Any]")
Json = Any


@dataclass(frozen=True)
class Routing(ABC, Generic[Plan_co]):
    """How the rows of a join's streams are spread over its cores."""

    name: ClassVar[str]
    """What a user writes, and a checkpoint has."""
    needs: ClassVar[str]
    """What it needs of a predicate, in words."""
    has_groups: ClassVar[bool] = False
    """Whether rows go by groups, which may be given to other cores."""
    has_buckets: ClassVar[bool] = False
    """Whether groups are of buckets of values, which may be made narrower and wider."""

    cores: int
    plan: Plan_co

    @classmethod
    @abstractmethod
    def of(cls, *join: Any, **further: Any) -> Self | None:  # noqa: ANN401 -- each takes what its joins have
        """Return the routing of a join, or None where its predicate does not allow it.

        It takes the join's plan and the number of cores; one of two streams also the kind of the join (``how``), one of
        many the stream with most rows.
        """

    @abstractmethod
    def route(
        self, stream: StreamName, rows: pa.RecordBatch, first: int, table: RoutingTable, *, counts: bool = False
    ) -> list[Route]:
        """Return for every core the rows of a stream that it gets.

        ``first`` is the number of rows routed before, for storing in turn. Where it ``counts``, and has groups, every
        row says which one it counts for.
        """

    @abstractmethod
    def to_json(self) -> Json:
        """Return what a checkpoint is bound to: how rows were spread that are stored."""

    def earlier_text(self) -> str:
        """Return the text by which state of format 3 knows it (see :mod:`watersmeet.spark.earlier`), if it does."""
        return ""

    def turns(self, stream: StreamName, rows: pa.RecordBatch, first: int) -> Int64s:
        """Return numbers by which rows are spread. They follow from the values, so a task run again gets the same.

        Rows of such a task may come in another order. In a count window rows always come in the order of their
        numbers, and ``first`` rows came before.
        """
        if self.plan.lateness is None:
            return first + np.arange(rows.num_rows)
        parts = self.plan.parts(stream)
        keys = [axis_keys(axis, side, rows, plan.schemas) for plan, side in parts for axis in plan.axes]
        return np.asarray(mix_hashes(np.zeros(rows.num_rows, np.int64), combine_keys(keys)))


@dataclass(frozen=True)
class Grouped(Routing[Plan_co]):
    """By groups: rows of one stream have one home each, those of all others go wherever they may meet one."""

    has_groups: ClassVar[bool] = True

    @abstractmethod
    def has_one_home(self, stream: StreamName) -> bool:
        """Tell whether each row of a stream goes to one core alone. Of one stream it does: there results are found."""

    @abstractmethod
    def buckets(self, stream: StreamName, rows: pa.RecordBatch) -> Buckets:
        """Return the buckets, or keys, that rows are looked for by."""

    def route(
        self, stream: StreamName, rows: pa.RecordBatch, first: int, table: RoutingTable, *, counts: bool = False
    ) -> list[Route]:
        """Return for every core the rows of a stream that it gets: by the routing table."""
        buckets = self.buckets(stream, rows)
        if self.has_one_home(stream):
            routes = place_left(table, buckets, lambda: self.turns(stream, rows, first))
        else:
            routes = place_right(table, buckets)
        return _counted(table.newest, routes, buckets) if counts else routes


def _counted(newest: Generation, routes: list[Route], buckets: Buckets) -> list[Route]:
    """Return routes that say for which group of the newest generation each row counts."""
    begin = buckets.groups(newest).astype(np.int32)
    low, high = buckets.span(newest.width)
    if high is low:
        return [replace(route, group=begin[route.rows]) for route in routes]
    end = newest.group_of(high).astype(np.int32)
    return [replace(route, group=_counted_for(newest, route, begin, end)) for route in routes]


def _counted_for(newest: Generation, route: Route, begin: Int32s, end: Int32s) -> Int32s:
    """Return the group that each row of a route counts for: that of its first bucket, or ``~`` that of its last one.

    A right row comes to some cores only because of its last bucket: there it is a copy.
    """
    own = newest.owned_by(route.core)
    first, last = begin[route.rows], end[route.rows]
    return np.where(~own[first] & own[last], ~last, first)


# --- in a task ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Router:
    """Routes the rows of one task."""

    routing: Routing[Streams]
    table: RoutingTable
    """That of the micro-batch."""
    counts: bool
    preserved: tuple[StreamName, ...] = ()
    """The streams whose rows come out though they meet nobody."""

    def lone_core(self, task: int) -> int:
        """Return the core that gets a task's rows of preserved streams that can meet nobody: any one will do.

        It follows from the number of the task (or of a micro-batch), so a task that is run again chooses the same one.
        """
        return int(self.table.cores[task % len(self.table.cores)])

    def __call__(self, stream: StreamName, rows: pa.RecordBatch, first: int) -> list[Route]:
        """Return for every core the rows it gets; ``first`` counts the rows of the stream that came before."""
        return self.routing.route(stream, rows, first, self.table, counts=self.counts)


@dataclass(frozen=True)
class Routes:
    """What travels to the tasks: how rows are routed, and where the tables are."""

    routing: Routing[Streams]
    tables: Tables
    preserved: tuple[StreamName, ...] = ()

    def now(self) -> Router:
        """Return what routes this task's rows, by the routing table of its micro-batch."""
        return Router(self.routing, self.tables.current(), self.tables.balances, self.preserved)


# --- for a join -----------------------------------------------------------------------------------------------------


def pick(
    wanted: str, kinds: Sequence[type[AnyRouting]], possible: Sequence[AnyRouting], predicate: Predicate
) -> AnyRouting:
    """Return the first routing that is possible, or the one asked for if it is."""
    next_step = 'leave routing out, or write routing="auto"'
    names = ("auto", *(kind.name for kind in kinds))
    if wanted not in names:
        raise SpecificationError(f"routing={wanted!r}", ", ".join(map(repr, names)), next_step)
    for routing in possible:
        if wanted in ("auto", routing.name):
            return routing
    needs = ", ".join(f"{kind.name} needs {kind.needs}" for kind in kinds)
    raise SpecificationError(
        f"routing={wanted!r} for the predicate {predicate}",
        f"for this predicate: {', '.join(routing.name for routing in possible)} ({needs})",
        next_step,
    )


def axis_to_json(axis: Axis) -> Json:
    """Return the axis by which rows are routed: its expressions, and how their values become keys."""
    both = predicate_to_json(Compare("=", axis.left, axis.right))
    return {"values": both["predicate"], "domain": [axis.domain.kind, axis.domain.scale]}
