"""What a checkpoint of a join of many streams is bound to."""

from __future__ import annotations

from watersmeet.engine.multiway.plan import MultiPlan
from watersmeet.spark.earlier import earlier_digest, text_of
from watersmeet.spark.identity import Identity, axis_to_json, identity_of
from watersmeet.spark.multiway.routing import MultiRouting, Spot

__all__ = ["multi_identity"]


def multi_identity(plan: MultiPlan, routing: MultiRouting, core_ids: tuple[int, ...], partitions: int) -> Identity:
    """Return what a join of many streams is to its checkpoint."""
    spots = {
        stream: {
            "streams": list(spot.pair),
            "by": axis_to_json(plan.pair(*spot.pair).plan.axes[spot.axis]),
            "reach": list(map(str, spot.reach)),
        }
        for stream, spot in routing.spots
    }
    return identity_of(
        plan.predicate,
        plan.window,
        plan.schemas,
        {"kind": routing.kind, "centre": routing.centre, "by": spots},
        cores=len(core_ids),
        partitions=partitions,
        earlier=earlier_digest(plan.predicate, plan.window, plan.schemas, _earlier_text(routing), core_ids),
    )


def _earlier_text(routing: MultiRouting) -> str:
    """Return the text of a routing, as state format 3 had it."""
    spots = ", ".join(f"({stream!r}, {_spot(spot)})" for stream, spot in routing.spots)
    start = text_of("MultiRouting", kind=routing.kind, cores=routing.cores).removesuffix(")")
    return f"{start}, spots=({spots}), centre={routing.centre!r})"


def _spot(spot: Spot) -> str:
    return text_of("Spot", pair=spot.pair, axis=spot.axis, reach=spot.reach)
