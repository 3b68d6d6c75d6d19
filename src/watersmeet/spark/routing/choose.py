"""Which routing a join of two streams gets. A new one is a module beside this and a line below."""

from __future__ import annotations

from typing import Final, Literal

from watersmeet.spark.routing.broadcast import Broadcast
from watersmeet.spark.routing.bucket import Bucket
from watersmeet.spark.routing.contract import Routing, pick
from watersmeet.spark.routing.hash import Hash
from watersmeet.spec.kinds import How
from watersmeet.window.plan import JoinPlan

__all__ = ["ROUTINGS", "RoutingName", "choose_routing"]

RoutingName = Literal["auto", "hash", "bucket", "broadcast"]
ROUTINGS: Final[tuple[type[Routing[JoinPlan]], ...]] = (Hash, Bucket, Broadcast)
"""The best first: ``"auto"`` is the first that a join allows."""


def choose_routing(wanted: RoutingName, plan: JoinPlan, cores: int, how: How = "inner") -> Routing[JoinPlan]:
    """Return the first routing that applies, or the one asked for if it does."""
    possible = [routing for kind in ROUTINGS if (routing := kind.of(plan, cores, how)) is not None]
    return pick(wanted, ROUTINGS, possible, plan.predicate)
