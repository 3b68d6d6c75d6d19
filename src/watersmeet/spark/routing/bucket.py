"""Bucket: a band. Its axis is cut into buckets a few times as wide as the band; a bucket's number is hashed to a core.

A left row goes to the core of its own bucket, a right row once to every core that owns a bucket its band touches: the
pair meets at the left row's core, and only there. So that core judges the left row. Where right rows are preserved
instead, the two change roles.

In a full join both have copies: a row goes to every core that owns a bucket its band touches, and to the core of its
own bucket, which judges it. All that a row can meet comes to its judge, because the two lie within a band of each
other. Several cores may find a pair, and the left row's judge gives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.balance.generation import RoutingTable
from watersmeet.balance.placement import Buckets, Route, place_right
from watersmeet.spark.earlier import text_of
from watersmeet.spark.routing.buckets import HERE, Reach, find_buckets, is_bucketable, reach_of
from watersmeet.spark.routing.contract import Grouped, axis_to_json
from watersmeet.spec.expression import StreamName
from watersmeet.spec.kinds import How
from watersmeet.window.plan import JoinPlan

__all__ = ["Bucket"]


@dataclass(frozen=True)
class Bucket(Grouped[JoinPlan]):
    """By the buckets of one band."""

    name: ClassVar[str] = "bucket"
    needs: ClassVar[str] = "a band that is bounded on both sides"
    has_buckets: ClassVar[bool] = True

    axis: int
    """Number of the band's axis."""
    how: How = "inner"

    @classmethod
    def of(cls, plan: JoinPlan, cores: int, how: How = "inner") -> Self | None:
        """Return the routing by the first band of a join; None where it has none."""
        bands = (number for number, axis in enumerate(plan.axes) if number != plan.time and is_bucketable(axis))
        return next((cls(cores, plan, number, how) for number in bands), None)

    def has_one_home(self, stream: StreamName) -> bool:
        """Tell whether each row of a side goes to one core alone: left rows do, or right ones if they are preserved."""
        return self.how != "full" and stream == ("right" if self.how == "right" else "left")

    def buckets(self, stream: StreamName, rows: pa.RecordBatch) -> Buckets:
        """Return the buckets that each row's band touches; of a row with one home its own."""
        return self._looked_for(stream, rows, HERE if self.has_one_home(stream) else self._reach(stream))

    def route(
        self, stream: StreamName, rows: pa.RecordBatch, first: int, table: RoutingTable, *, counts: bool = False
    ) -> list[Route]:
        """Return for every core the rows of a stream that it gets, and in a full join which of them it judges."""
        if self.how != "full":
            return super().route(stream, rows, first, table, counts=counts)
        judge = table.newest.first_owner[self._looked_for(stream, rows, HERE).groups(table.newest)]
        routes = place_right(table, self.buckets(stream, rows))
        low, high = self._reach(stream)
        if not low <= HERE[0] <= high:  # then no row's band touches its own bucket but by chance
            routes = _with_judges(routes, judge)
        in_order = ((route.core, np.sort(route.rows, kind="stable")) for route in routes)  # so no core has to sort them
        return [Route(core, rows, judged=judge[rows] == core) for core, rows in in_order]

    def _reach(self, stream: StreamName) -> Reach:
        """Return by how much the values that rows of a stream are looked for by differ from their own."""
        low, high = reach_of(self.plan.axes[self.axis])
        return (low, high) if stream == "right" else (-high, -low)

    def _looked_for(self, stream: StreamName, rows: pa.RecordBatch, reach: Reach) -> Buckets:
        axis = self.plan.axes[self.axis]
        low, high = reach_of(axis)
        find = find_buckets(axis, stream, self.plan.schemas, rows, reach)
        return Buckets(lambda widths: find((high - low) * widths))

    def to_json(self) -> Any:  # noqa: ANN401
        """Return what a checkpoint is bound to."""
        axis = self.plan.axes[self.axis]
        return {"kind": self.name, "by": axis_to_json(axis), "reach": list(map(str, reach_of(axis)))}

    def earlier_text(self) -> str:
        """Return the text of format 3."""
        return text_of("Routing", kind=self.name, cores=self.cores, axis=self.axis)


def _with_judges(routes: list[Route], judge: npt.NDArray[np.uint16]) -> list[Route]:
    """Return routes by which every row also goes to its judge."""
    found = {route.core: route.rows for route in routes}
    more = []
    for core in sorted({*found, *np.unique(judge).tolist()}):
        comes = judge == core
        comes[found.get(core, slice(0))] = True
        more.append(Route(core, np.flatnonzero(comes)))
    return more
