"""Broadcast (SplitJoin): every row probes on all cores and is stored on one. For any predicate.

Where rows come out that met nobody, a preserved row has to see all others on one core, its judge. So it goes to the one
core alone that would have stored it, and rows of the other side are stored on all cores. In a full join rows of both
sides are: the core that would have stored a row judges it, and every core finds all pairs that it judges a row of.
Nothing is probed more often than in an inner join, but for the full one; what is stored grows with the cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from watersmeet.balance.generation import RoutingTable
from watersmeet.balance.placement import Route
from watersmeet.spark.earlier import text_of
from watersmeet.spark.routing.contract import Routing
from watersmeet.spec.expression import StreamName
from watersmeet.spec.kinds import How, watched
from watersmeet.window.plan import JoinPlan

__all__ = ["Broadcast"]


@dataclass(frozen=True)
class Broadcast(Routing[JoinPlan]):
    """To all cores; which one stores a row follows from its values, or in a count window from its number."""

    name: ClassVar[str] = "broadcast"
    needs: ClassVar[str] = "nothing"

    how: How = "inner"

    @classmethod
    def of(cls, plan: JoinPlan, cores: int, how: How = "inner") -> Self:
        """Return the routing of a join."""
        return cls(cores, plan, how)

    def route(
        self,
        stream: StreamName,
        rows: pa.RecordBatch,
        first: int,
        table: RoutingTable,  # noqa: ARG002 -- no row goes by groups
        *,
        counts: bool = False,  # noqa: ARG002
    ) -> list[Route]:
        """Return all rows for every core, and which of them it keeps or judges; of a side with one judge only these."""
        everything = np.arange(rows.num_rows)
        home = (self.turns(stream, rows, first) & np.iinfo(np.int64).max) % self.cores
        cores = range(self.cores)
        if self.how == "inner":
            return [Route(core, everything, home == core) for core in cores]
        if self.how == "full":
            return [Route(core, everything, judged=home == core) for core in cores]
        if stream in watched(self.how):
            return [Route(core, np.flatnonzero(home == core)) for core in np.unique(home).tolist()]
        return [Route(core, everything) for core in cores]

    def to_json(self) -> Any:  # noqa: ANN401
        """Return what a checkpoint is bound to."""
        return {"kind": self.name}

    def earlier_text(self) -> str:
        """Return the text of format 3."""
        return text_of("Routing", kind=self.name, cores=self.cores, axis=None)
