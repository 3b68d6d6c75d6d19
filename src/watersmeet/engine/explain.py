"""Explains a join of two streams in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watersmeet.spec.expression import StreamName
from watersmeet.spec.normal import Axis
from watersmeet.window.plan import JoinPlan
from watersmeet.window.stream_window import StreamWindow

__all__ = ["explain_join"]


def explain_join(plan: JoinPlan, how: str, topology: str, windows: Mapping[StreamName, Sequence[StreamWindow]]) -> str:
    """Return text on what is indexed, what is verified, and which structures were chosen and why."""
    lines = [
        f"{'' if how == 'inner' else how + ' '}join on {plan.predicate}",
        f"  {plan.window}",
        f"  topology {topology}, structure {plan.structure}",
        "can be indexed:",
    ]
    lines += [f"  {_axis(axis, is_time=number == plan.time)}" for number, axis in enumerate(plan.axes)] or ["  nothing"]
    for number, branch in enumerate(plan.branches):
        lines.append(f"{'or, by an index of its own: ' if number else 'either: '}{' and '.join(map(str, branch))}")
    lines.append("verified on every candidate:")
    verified = [f"  {plan.residual}"] if plan.residual is not None else []
    lines += verified or ["  nothing beyond the axes above that are not part of the order chosen"]
    for side, predicate in plan.filters.items():
        if predicate is not None:
            lines.append(f"filtered on arrival, {side}: {predicate}")
    for side, parts in windows.items():
        segments = [segment for window in parts for segment in window.segments]
        rows = sum(window.rows for window in parts)
        lines.append(f"{side} window: {rows:,} rows in {len(segments)} subwindow(s)")
        if segments:
            newest = max(segments, key=lambda segment: segment.place.high).choice
            lines.append(f"  newest subwindow: {newest.structure}; {newest.reason}")
        else:
            lines.append("  order and structure are chosen when the first rows arrive")
    return "\n".join(lines)


def _axis(axis: Axis, *, is_time: bool) -> str:
    kind = (
        "time window"
        if is_time
        else "equality"
        if axis.is_equality
        else "band"
        if axis.differences.is_band
        else "comparison"
    )
    exact = "exact" if axis.domain.is_exact else "by a wider range, then verified"
    return f"{kind}: {axis} ({exact})"
