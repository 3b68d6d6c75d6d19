"""Which cores the rows of many streams go to: so that every result is found on exactly one.

- ``hash``: equalities connect a column of every stream. All go to the core of their key.
- ``bucket``: bands connect a column of every stream, so each lies within some distance of that of one stream, the
  *centre*; distances along a chain of bands add up. A row of the centre goes to the core of its own bucket, any other
  row to every core that owns a bucket its distances touch: a result is found at the core of its centre row.
- ``replicate``: anything else. Rows of one stream, best the largest, are spread by a hash of their keys; those of all
  others go to every core. A result is found at the core of the one row that is not replicated.

They are routings as those of two streams are (:mod:`watersmeet.spark.routing.contract`), and those by groups are
balanced as those are (:mod:`watersmeet.balance.placement`, *Many streams*). A new one is a class here and
a line in ``MULTI_ROUTINGS``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np
import pyarrow as pa

from watersmeet.balance.generation import RoutingTable
from watersmeet.balance.placement import Buckets, Route, place_left
from watersmeet.columns.keys import axis_keys, combine_keys
from watersmeet.engine.multiway.plan import MultiPlan
from watersmeet.spark.earlier import text_of
from watersmeet.spark.multiway.spots import Spot, Spots, connections, stream_of, width_of
from watersmeet.spark.routing.buckets import find_buckets, is_bucketable
from watersmeet.spark.routing.contract import Grouped, Routing, axis_to_json, pick
from watersmeet.spec.errors import SpecificationError
from watersmeet.spec.expression import StreamName
from watersmeet.spec.normal import Axis

__all__ = ["MULTI_ROUTINGS", "MultiRoutingName", "choose_multi_routing"]

MultiRoutingName = Literal["auto", "hash", "bucket", "replicate"]


@dataclass(frozen=True)
class _ByOneKey(Grouped[MultiPlan]):
    """A routing by one key, which every stream has at its spot."""

    spots: Spots

    def axis(self, stream: StreamName) -> tuple[Spot, Axis]:
        """Return a stream's spot, and the axis that it names."""
        spot = dict(self.spots)[stream]
        return spot, self.plan.pair(*spot.pair).plan.axes[spot.axis]


@dataclass(frozen=True)
class MultiHash(_ByOneKey):
    """By the key that equalities make the same in all streams."""

    name: ClassVar[str] = "hash"
    needs: ClassVar[str] = "equalities that connect a column of every stream"

    @classmethod
    def of(cls, plan: MultiPlan, cores: int, largest: StreamName) -> Self | None:  # noqa: ARG003 -- no stream is replicated
        """Return the routing of a join; None where no equalities connect all streams."""
        return next((cls(cores, plan, spots) for _, spots in connections(plan, lambda axis: axis.is_equality)), None)

    @property
    def centre(self) -> StreamName:
        """The stream whose rows are shared out where a group is cut."""
        return self.plan.streams[0]

    def has_one_home(self, stream: StreamName) -> bool:
        """Tell whether each row of a stream goes to one core alone: those of the first stream do."""
        return stream == self.centre

    def buckets(self, stream: StreamName, rows: pa.RecordBatch) -> Buckets:
        """Return the key of each row."""
        spot, axis = self.axis(stream)
        pair = self.plan.pair(*spot.pair)
        key = combine_keys([axis_keys(axis, pair.side(stream), rows, pair.plan.schemas)])
        return Buckets(lambda _: (key, key))

    def to_json(self) -> Any:  # noqa: ANN401
        """Return what a checkpoint is bound to."""
        return {"kind": self.name, "centre": None, "by": _spots_to_json(self)}

    def earlier_text(self) -> str:
        """Return the text of format 3."""
        return _earlier_text(self.name, self.cores, self.spots, None)


@dataclass(frozen=True)
class MultiBucket(_ByOneKey):
    """By the buckets of one stream's values, which bands keep those of all others close to."""

    name: ClassVar[str] = "bucket"
    needs: ClassVar[str] = "bands that connect a column of every stream"
    has_buckets: ClassVar[bool] = True

    centre: StreamName
    """The stream whose rows go to one core each."""

    @classmethod
    def of(cls, plan: MultiPlan, cores: int, largest: StreamName) -> Self | None:  # noqa: ARG003
        """Return the routing whose centre is the nearest to all others; None where no bands connect all streams."""
        found = connections(plan, is_bucketable)
        best = min(found, key=lambda option: sum(width_of(spot) for _, spot in option[1]), default=None)
        return None if best is None else cls(cores, plan, best[1], stream_of(best[0]))

    def has_one_home(self, stream: StreamName) -> bool:
        """Tell whether each row of a stream goes to one core alone: those of the centre do."""
        return stream == self.centre

    def buckets(self, stream: StreamName, rows: pa.RecordBatch) -> Buckets:
        """Return the buckets that the centre's value can lie in, as far as it may lie from each row's."""
        spot, axis = self.axis(stream)
        pair = self.plan.pair(*spot.pair)
        find = find_buckets(axis, pair.side(stream), pair.plan.schemas, rows, spot.reach)
        widest = max(width_of(spot) for _, spot in self.spots)
        return Buckets(lambda widths: find(widest * widths))

    def to_json(self) -> Any:  # noqa: ANN401
        """Return what a checkpoint is bound to."""
        return {"kind": self.name, "centre": self.centre, "by": _spots_to_json(self)}

    def earlier_text(self) -> str:
        """Return the text of format 3."""
        return _earlier_text(self.name, self.cores, self.spots, self.centre)


@dataclass(frozen=True)
class Replicate(Routing[MultiPlan]):
    """One stream's rows are spread, those of all others go everywhere."""

    name: ClassVar[str] = "replicate"
    needs: ClassVar[str] = "nothing"

    centre: StreamName
    """The stream that is spread."""

    @classmethod
    def of(cls, plan: MultiPlan, cores: int, largest: StreamName) -> Self:
        """Return the routing of a join that spreads its ``largest`` stream."""
        return cls(cores, plan, largest)

    def route(
        self,
        stream: StreamName,
        rows: pa.RecordBatch,
        first: int,
        table: RoutingTable,
        *,
        counts: bool = False,  # noqa: ARG002 -- no stream but the centre goes by groups
    ) -> list[Route]:
        """Return for every core the rows of a stream that it gets."""
        if stream != self.centre:
            everything = np.arange(rows.num_rows)
            return [Route(core, everything) for core in range(self.cores)]
        turns = self.turns(stream, rows, first)
        return place_left(table, Buckets(lambda _: (turns, turns)), lambda: turns)

    def to_json(self) -> Any:  # noqa: ANN401
        """Return what a checkpoint is bound to."""
        return {"kind": self.name, "centre": self.centre, "by": {}}

    def earlier_text(self) -> str:
        """Return the text of format 3."""
        return _earlier_text(self.name, self.cores, (), self.centre)


MultiRouting = MultiHash | MultiBucket | Replicate
MULTI_ROUTINGS: Final[tuple[type[MultiRouting], ...]] = (MultiHash, MultiBucket, Replicate)
"""The best first: ``"auto"`` is the first that a join allows."""


def choose_multi_routing(
    wanted: MultiRoutingName, plan: MultiPlan, cores: int, largest: StreamName | None = None
) -> MultiRouting:
    """Return the first routing that applies, or the one asked for if it does."""
    if largest is not None and largest not in plan.schemas:
        raise SpecificationError(
            f"largest={largest!r}", f"one of the streams: {', '.join(plan.streams)}", "check the spelling"
        )
    spread = largest or plan.streams[0]
    possible = [routing for kind in MULTI_ROUTINGS if (routing := kind.of(plan, cores, spread)) is not None]
    return pick(wanted, MULTI_ROUTINGS, possible, plan.predicate)


def _spots_to_json(routing: _ByOneKey) -> Any:  # noqa: ANN401
    return {
        stream: {
            "streams": list(spot.pair),
            "by": axis_to_json(routing.axis(stream)[1]),
            "reach": list(map(str, spot.reach)),
        }
        for stream, spot in routing.spots
    }


def _earlier_text(name: str, cores: int, spots: Spots, centre: StreamName | None) -> str:
    known = (
        f"({stream!r}, {text_of('Spot', pair=spot.pair, axis=spot.axis, reach=spot.reach)})" for stream, spot in spots
    )
    start = text_of("MultiRouting", kind=name, cores=cores).removesuffix(")")
    return f"{start}, spots=({', '.join(known)}), centre={centre!r})"
