"""Broadcast (SplitJoin): every row probes on all cores and is stored on one. For any predicate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from watersmeet.balance.generation import RoutingTable
from watersmeet.balance.placement import Route
from watersmeet.spark.earlier import text_of
from watersmeet.spark.routing.contract import Routing
from watersmeet.spec.expression import Side
from watersmeet.window.plan import JoinPlan

__all__ = ["Broadcast"]


@dataclass(frozen=True)
class Broadcast(Routing[JoinPlan]):
    """To all cores; which one stores a row follows from its values, or in a count window from its number."""

    name: ClassVar[str] = "broadcast"
    needs: ClassVar[str] = "nothing"

    @classmethod
    def of(cls, plan: JoinPlan, cores: int) -> Self:
        """Return the routing of a join."""
        return cls(cores, plan)

    def route(
        self,
        stream: Side,
        rows: pa.RecordBatch,
        first: int,
        table: RoutingTable,  # noqa: ARG002 -- no row goes by groups
        *,
        counts: bool = False,  # noqa: ARG002
    ) -> list[Route]:
        """Return all rows for every core, and which of them it keeps."""
        everything = np.arange(rows.num_rows)
        home = (self.turns(stream, rows, first) & np.iinfo(np.int64).max) % self.cores
        return [Route(core, everything, home == core) for core in range(self.cores)]

    def to_json(self) -> Any:  # noqa: ANN401
        """Return what a checkpoint is bound to."""
        return {"kind": self.name}

    def earlier_text(self) -> str:
        """Return the text of format 3."""
        return text_of("Routing", kind=self.name, cores=self.cores, axis=None)
