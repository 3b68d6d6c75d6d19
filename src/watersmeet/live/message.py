"""What the page is told: a view of the figures as JSON, with the micro-batches that it has not had yet.

All messages have one form. The first has the whole history; later ones the micro-batches since then, and the last one's
cores, groups and sides anew. NaN and infinity do not occur, so that every browser reads them.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from watersmeet.live.figures import JoinFigures
from watersmeet.live.history import Point, View
from watersmeet.live.notices import notices

__all__ = ["message"]


def message(view: View, after: float | None, now: float) -> str:
    """Return a view as JSON, with the points of micro-batches that began after a moment; None: all of them."""
    latest = view.latest
    about: dict[str, Any] = {
        "now": now,
        "heard": view.heard,
        "ended": view.ended,
        "query": None if latest is None else {"id": latest.query, "name": latest.name},
        "micro_batches": view.micro_batches,
        "rows": view.rows,
        "points": [_point(point) for point in view.points if after is None or point.batch.began > after],
        "sources": [] if latest is None else _sources(view),
        "joins": {} if latest is None else {name: _join(view, name, join) for name, join in latest.joins.items()},
        "decided": [asdict(decided) for decided in view.decided],
        "notices": [asdict(notice) for notice in notices(view, now)],
    }
    return json.dumps(about, separators=(",", ":"), allow_nan=False)


def _point(point: Point) -> dict[str, Any]:
    batch = point.batch
    return {
        "number": batch.number,
        "at": batch.ended,
        "seconds": batch.seconds,
        "rate": batch.rows / point.interval,
        "results": None if batch.results is None else batch.results / point.interval,
        "event_latency": None if batch.event_latency is None else asdict(batch.event_latency),
        "arrival_latency": None if batch.arrival_latency is None else asdict(batch.arrival_latency),
        "unread": batch.unread,
        "lag": batch.lag,
        "watermark": batch.watermark,
        "joins": {name: _of_point(join, point.interval) for name, join in batch.joins.items()},
    }


def _of_point(join: JoinFigures, interval: float) -> dict[str, Any]:
    return {
        "rate": join.rows_in / interval,
        "pairs": join.pairs / interval,
        "late": join.late_rows,
        "window": join.window_rows,
        "bytes": join.state_bytes,
    }


def _sources(view: View) -> list[dict[str, Any]]:
    """Return the sources, and for how many of the last micro-batches each has given no row."""
    assert view.latest is not None, "there are sources from the first micro-batch on"
    found = []
    for place, source in enumerate(view.latest.sources):
        quiet = 0
        for point in reversed(view.points):
            if len(point.batch.sources) <= place or point.batch.sources[place].rows:
                break
            quiet += 1
        point = view.points[-1]
        found.append({"name": source.name, "rate": source.rows / point.interval, "quiet": quiet})
    return found


def _join(view: View, name: str, join: JoinFigures) -> dict[str, Any]:
    sums = view.sums[name]
    return {
        "waiting_for": join.waiting_for,
        "window_rows": join.window_rows,
        "state_bytes": join.state_bytes,
        "generation": join.generation,
        "skew": join.skew,
        "sides": [asdict(side) for side in join.sides],
        "cores": [asdict(core) for core in join.cores],
        "groups": [asdict(group) for group in join.groups],
        "sums": {
            "rows_in": sums.rows_in,
            "pairs": sums.pairs,
            "late_rows": sums.late_rows,
            "null_rows": sums.null_rows,
            "unmatched_rows": sums.unmatched_rows,
            "changes": sums.changes,
        },
    }
