"""What needs attention: a stalled stream, a hot key, late rows, cores that are not alike, a query that failed.

:func:`notices` says it in words, for the top of the page; the page decides nothing itself. The alert rules in
``monitoring/`` ask the same of the metrics, over longer times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from watersmeet.live.figures import JoinFigures
from watersmeet.live.history import Point, View

__all__ = ["Notice", "notices"]

RECENT: Final = 10
"""Micro-batches that count as now."""
UNEVEN: Final = 2.0
"""Cores are not alike if the busiest does this many times the mean."""
STANDS: Final = 3
"""Micro-batches with rows in which the watermark may stand still."""
QUIET_SECONDS: Final = 30.0
QUIET_TIMES: Final = 5.0
"""A query is quiet after so long, and so many times as long as its last micro-batches took."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to look at."""

    level: Literal["bad", "warn", "info"]
    kind: Literal["failed", "ended", "waits", "stands", "quiet", "hot", "uneven", "late"]
    join: str | None
    text: str


def notices(view: View, now: float) -> list[Notice]:
    """Return what needs attention, the worst first."""
    order = ("bad", "warn", "info")
    return sorted(_found(view, now), key=lambda notice: order.index(notice.level))


def _found(view: View, now: float) -> Iterator[Notice]:
    if view.error is not None:
        yield Notice("bad", "failed", None, f"The query failed: {view.error}")
    elif view.ended:
        yield Notice("info", "ended", None, "The query has ended.")
    if view.latest is None:
        return
    recent = view.points[-RECENT:]
    waits = [(name, join.waiting_for) for name, join in view.latest.joins.items() if join.waiting_for]
    for name, stream in waits:
        yield Notice(
            "bad", "waits", name, f"Stream {stream} has stalled: the join waits for it, and rows stay in the window."
        )
    standing, seconds = view.unmoved
    if standing >= STANDS and not waits:
        yield Notice(
            "warn",
            "stands",
            None,
            f"The watermark stood still for {standing} micro-batches with rows ({seconds:.0f} s).",
        )
    if not view.ended:
        yield from _quiet(view, recent, now)
    for name, join in view.latest.joins.items():
        yield from _of_join(name, join, recent)


def _quiet(view: View, recent: tuple[Point, ...], now: float) -> Iterator[Notice]:
    usual = sum(point.batch.seconds for point in recent) / len(recent)
    silent = now - view.heard
    if silent > max(QUIET_SECONDS, QUIET_TIMES * usual):
        yield Notice("warn", "quiet", None, f"No micro-batch for {silent:.0f} s: no rows come, or one takes long.")


def _of_join(name: str, join: JoinFigures, recent: tuple[Point, ...]) -> Iterator[Notice]:
    for group in join.groups:
        part = f"{group.row_share:.0%} of the rows, {group.pair_share:.0%} of the pairs"
        if group.is_hot:
            where = "one core" if group.cores == 1 else f"{group.cores} cores"
            yield Notice("warn", "hot", name, f"Group {group.group} is hot: {part}, on {where}.")
        elif group.share > 1 / len(join.cores) and len(join.cores) > 1:
            yield Notice("info", "hot", name, f"Group {group.group} has {part}; {group.cores} cores share it.")
    skew = join.skew
    before = [point.skews.get(name) for point in recent]
    lasting = [one for one in before if one is not None]
    mean = sum(lasting) / len(lasting) if lasting else 0.0
    if skew is not None and min(skew, mean) > UNEVEN:
        yield Notice("warn", "uneven", name, f"Cores are not alike: the busiest works {mean:.1f} times the mean.")
    late = sum(point.batch.joins[name].late_rows for point in recent if name in point.batch.joins)
    if late:
        rows = "1 row was" if late == 1 else f"{late:,} rows were"
        yield Notice("warn", "late", name, f"{rows} late in the last {len(recent)} micro-batches.")
