"""Bucket: a band. Its axis is cut into buckets a few times as wide as the band; a bucket's number is hashed to a core.

A left row goes to the core of its own bucket, a right row once to every core that owns a bucket its band touches: the
pair meets at the left row's core, and only there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pyarrow as pa

from watersmeet.balance.placement import Buckets
from watersmeet.spark.earlier import text_of
from watersmeet.spark.routing.buckets import HERE, find_buckets, is_bucketable, reach_of
from watersmeet.spark.routing.contract import Grouped, axis_to_json
from watersmeet.spec.expression import StreamName
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

    @classmethod
    def of(cls, plan: JoinPlan, cores: int) -> Self | None:
        """Return the routing by the first band of a join; None where it has none."""
        bands = (number for number, axis in enumerate(plan.axes) if number != plan.time and is_bucketable(axis))
        return next((cls(cores, plan, number) for number in bands), None)

    def has_one_home(self, stream: StreamName) -> bool:
        """Tell whether each row of a side goes to one core alone: left rows do."""
        return stream == "left"

    def buckets(self, stream: StreamName, rows: pa.RecordBatch) -> Buckets:
        """Return the buckets that each row's band touches; of a left row its own."""
        axis = self.plan.axes[self.axis]
        low, high = reach_of(axis)
        reach = HERE if self.has_one_home(stream) else (low, high)
        find = find_buckets(axis, stream, self.plan.schemas, rows, reach)
        return Buckets(lambda widths: find((high - low) * widths))

    def to_json(self) -> Any:  # noqa: ANN401
        """Return what a checkpoint is bound to."""
        axis = self.plan.axes[self.axis]
        return {"kind": self.name, "by": axis_to_json(axis), "reach": list(map(str, reach_of(axis)))}

    def earlier_text(self) -> str:
        """Return the text of format 3."""
        return text_of("Routing", kind=self.name, cores=self.cores, axis=self.axis)
