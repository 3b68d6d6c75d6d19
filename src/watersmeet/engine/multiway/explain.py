"""A join of many streams in plain words."""

from __future__ import annotations

from watersmeet.engine.multiway.probe_order import ProbeOrders
from watersmeet.engine.multiway.stage import Stages

__all__ = ["explain_streams"]


def explain_streams(stages: Stages, orders: ProbeOrders) -> str:
    """Return what connects the streams, how rows pass through them, and how each window is indexed."""
    plan = stages.plan
    lines = [f"join of {', '.join(plan.streams)} on {plan.predicate}", f"  {plan.window}", "conditions of two streams:"]
    for pair in plan.pairs.values():
        if pair.is_edge:
            words = str(pair.plan.predicate).replace("left.", f"{pair.left}.").replace("right.", f"{pair.right}.")
            lines.append(f"  {pair.left} and {pair.right}: {words}")
    lines += [f"filtered on arrival, {stream}: {predicate}" for stream, predicate in plan.filters.items()]
    lines += [f"verified once all its streams are bound: {term.predicate}" for term in plan.residual]
    lines.append("a new row passes through the windows of")
    for stream in plan.streams:
        steps = orders.steps(frozenset((stream,)))
        words = ", ".join(f"{step.stream} (through {step.via})" for step in steps)
        lines.append(f"  {stream}: {words}; {orders.expected_work(frozenset((stream,))):.3g} rows of work expected")
    for stream, stage in stages.of.items():
        lines.append(f"window of {stream}: {len(stage.rows):,} rows")
        for partner, window in stage.windows.items():
            choice = window.segments[-1].choice if window.segments else None
            how = "chosen when the first rows arrive" if choice is None else f"{choice.structure}; {choice.reason}"
            lines.append(f"  index for {partner}: {how}")
    return "\n".join(lines)
