"""Explains a join of many streams in words."""

from __future__ import annotations

from watersmeet.engine.multiway.circular import Circular
from watersmeet.engine.multiway.stashed import Stashed
from watersmeet.spec.streams import with_streams
from watersmeet.window.plan import OTHER_SIDE

__all__ = ["explain_streams"]


def explain_streams(strategy: Circular) -> str:
    """Return text on what connects the streams, how rows pass through them, and how each window is indexed."""
    stages, orders = strategy.stages, strategy.orders
    plan = stages.plan
    stash = strategy.stash if isinstance(strategy, Stashed) else None
    lines = [f"join of {', '.join(plan.streams)} on {plan.predicate}", f"  {plan.window}", "conditions of two streams:"]
    for pair in plan.pairs.values():
        if pair.is_edge:
            condition = with_streams(pair.plan.predicate, {"left": pair.left, "right": pair.right})
            lines.append(f"  {pair.left} and {pair.right}: {condition}")
    lines += [
        f"  {pair.left} and {pair.right}, derived: "
        + str(with_streams(pair.plan.predicate, {"left": pair.left, "right": pair.right}))
        for pair in plan.derived.values()
    ]
    lines += [f"filtered on arrival, {stream}: {predicate}" for stream, predicate in plan.filters.items()]
    lines += [f"verified once all its streams are bound: {term.predicate}" for term in plan.residual]
    if isinstance(strategy, Stashed):
        kept = "no matches are stashed" if stash is None else f"matches of {' and '.join(stash.streams)} are stashed"
        lines.append(f"{kept}: {strategy.reason}")
    lines.append("a new row passes through")
    for stream in plan.streams:
        bound = frozenset((stream,))
        planned = None if stash is None or stream in stash.streams else stash.plan
        words = ", ".join(
            f"{'the stash of ' if len(step.streams) > 1 else ''}{' and '.join(step.streams)} (meeting {step.via})"
            for step in orders.steps(bound, planned)
        )
        lines.append(f"  {stream}: {words}; {orders.work(bound, planned):.3g} rows of work expected")
    for stream, stage in stages.of.items():
        lines.append(f"window of {stream}: {len(stage.rows):,} rows")
        for partner, window in stage.windows.items():
            choice = window.segments[-1].choice if window.segments else None
            how = "chosen when the first rows arrive" if choice is None else f"{choice.structure}; {choice.reason}"
            lines.append(f"  index for {partner}, here called {OTHER_SIDE[window.side]}: {how}")
    return "\n".join(lines)
