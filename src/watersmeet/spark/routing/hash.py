"""Hash: both sides of an equality go to the one core of their key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pyarrow as pa

from watersmeet.balance.placement import Buckets
from watersmeet.columns.keys import axis_keys, combine_keys
from watersmeet.spark.earlier import text_of
from watersmeet.spark.routing.contract import Grouped, axis_to_json
from watersmeet.spec.expression import StreamName
from watersmeet.spec.kinds import How
from watersmeet.spec.normal import Axis
from watersmeet.window.plan import JoinPlan

__all__ = ["Hash"]


@dataclass(frozen=True)
class Hash(Grouped[JoinPlan]):
    """By the key of all equalities together."""

    name: ClassVar[str] = "hash"
    needs: ClassVar[str] = "an equality"

    @classmethod
    def of(cls, plan: JoinPlan, cores: int, how: How = "inner") -> Self | None:  # noqa: ARG003 -- it serves all kinds
        """Return the routing of a join; None where it has no equality."""
        routing = cls(cores, plan)
        return routing if routing._axes() else None

    def has_one_home(self, stream: StreamName) -> bool:
        """Tell whether each row of a side goes to one core alone: left rows do."""
        return stream == "left"

    def buckets(self, stream: StreamName, rows: pa.RecordBatch) -> Buckets:
        """Return the key of each row."""
        key = combine_keys([axis_keys(axis, stream, rows, self.plan.schemas) for axis in self._axes()])
        return Buckets(lambda _: (key, key))

    def to_json(self) -> Any:  # noqa: ANN401
        """Return what a checkpoint is bound to."""
        return {"kind": self.name, "by": list(map(axis_to_json, self._axes()))}

    def earlier_text(self) -> str:
        """Return the text of format 3."""
        return text_of("Routing", kind=self.name, cores=self.cores, axis=None)

    def _axes(self) -> list[Axis]:
        return [axis for axis in self.plan.axes if axis.is_equality]
