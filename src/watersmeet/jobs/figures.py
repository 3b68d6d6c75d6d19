"""What a micro-batch of a job did: from the query's progress, ``wm.metrics`` and one observation of our own.

*Latency* is not among Spark's figures. It is measured where results leave: an observation takes two quantiles of the
results' times, and the micro-batch's end, when the sink has committed them, less these is the latency. A time is the
result's event time, the latest timestamp of its rows, or their latest arrival where all streams tell one. The quantiles
are Spark's approximate ones, to one part in 10,000. Event time and arrival are by other clocks than the end is.

Invariant: a figure that cannot be had is None, never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it
from pyspark.sql.streaming.listener import StreamingQueryProgress

import watersmeet as wm
from watersmeet.jobs.sources import Rows, column

__all__ = ["Figures", "JoinFigures", "Latency", "figures_of", "observed"]

OBSERVATION: Final = "watersmeet results"
MIDDLE: Final = 0.5
MOST: Final = 0.95
EPOCH: Final = datetime.fromtimestamp(0, UTC)
MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True)
class Latency:
    """How long it took until results were committed to the sink, in seconds."""

    p50: float
    p95: float


@dataclass(frozen=True)
class JoinFigures:
    """What one join did; totals are those of :class:`watersmeet.JoinProgress`."""

    pairs: int
    unmatched_rows: int
    late_rows: int
    window_rows: int | None
    state_bytes: int | None
    waiting_for: str | None
    loads: tuple[float, ...]
    """For each core the share of the micro-batch's time in which it was busy; the busiest first."""


@dataclass(frozen=True)
class Figures:
    """What one micro-batch did."""

    batch: int
    seconds: float
    rows: int
    results: int
    event_latency: Latency | None
    """None in a micro-batch without results, and where results have no event time."""
    arrival_latency: Latency | None
    """None in a micro-batch without results, and where not every stream tells when its rows arrived."""
    behind: int | None
    """Rows that the sources have and that were not read yet; None if no source tells, as Kafka does."""
    watermark_lag: float | None
    """Seconds by which the query's watermark lay behind the clock; None while there is none."""
    joins: Mapping[str, JoinFigures]


def observed(rows: Rows, *, has_late: bool) -> DataFrame:
    """Return the results, with the observation of their times, from which late rows are left out."""
    times = {"event": rows.times, "arrival": rows.arrivals}
    counted = [F.count(F.lit(1)).alias("results")]
    for name, columns in times.items():
        if columns:
            moments = [column(one).cast("timestamp") for one in columns]
            latest = F.unix_micros(F.greatest(*moments) if len(moments) > 1 else moments[0])
            taken = F.when(column("late").isNull(), latest) if has_late else latest
            counted.append(F.percentile_approx(taken, [1 - MIDDLE, 1 - MOST]).alias(name))
    return rows.frame.observe(OBSERVATION, *counted)


def figures_of(progress: StreamingQueryProgress) -> Figures:
    """Return the figures of one micro-batch."""
    seconds = progress.batchDuration / 1000
    end = datetime.fromisoformat(progress.timestamp) + timedelta(milliseconds=progress.batchDuration)
    seen = progress.observedMetrics.get(OBSERVATION)
    shown: Mapping[str, Any] = {} if seen is None else seen.asDict()
    watermark = progress.eventTime.get("watermark")
    reached = None if watermark is None else datetime.fromisoformat(watermark)
    return Figures(
        batch=progress.batchId,
        seconds=seconds,
        rows=progress.numInputRows,
        results=shown.get("results") or 0,
        event_latency=_latency(end, shown.get("event")),
        arrival_latency=_latency(end, shown.get("arrival")),
        behind=_behind(progress),
        watermark_lag=None if reached is None or reached <= EPOCH else (end - reached).total_seconds(),
        joins={name: _join(done, seconds) for name, done in wm.metrics(progress).items()},
    )


def _join(done: wm.JoinProgress, seconds: float) -> JoinFigures:
    return JoinFigures(
        done.pairs,
        done.unmatched_rows,
        done.late_rows,
        done.window_rows,
        done.state_bytes,
        done.waiting_for,
        tuple(sorted((core.busy_seconds / seconds for core in done.cores if seconds), reverse=True)),
    )


def _latency(end: datetime, quantiles: list[int] | None) -> Latency | None:
    """Return the latencies of results of which the quantiles of their times are given, late ones first."""
    if not quantiles:
        return None
    p50, p95 = ((end - (EPOCH + moment * MICROSECOND)).total_seconds() for moment in quantiles)
    return Latency(p50, p95)


def _behind(progress: StreamingQueryProgress) -> int | None:
    """Return how many rows the sources have still to give, by those that tell."""
    told = [source.metrics["avgOffsetsBehindLatest"] for source in progress.sources if _tells(source)]
    partitions = [_partitions(source.endOffset) for source in progress.sources if _tells(source)]
    return round(sum(float(one) * many for one, many in zip(told, partitions, strict=True))) if told else None


def _tells(source: Any) -> bool:  # noqa: ANN401 -- Spark's SourceProgress
    return bool(source.metrics) and "avgOffsetsBehindLatest" in source.metrics


def _partitions(offsets: str | None) -> int:
    """Return of how many partitions Kafka's offsets tell, which are JSON: by topic, by partition."""
    return sum(len(one) for one in json.loads(offsets).values()) if offsets else 1
