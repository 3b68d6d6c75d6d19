"""The figures of one micro-batch: what Spark's progress and the joins' metrics in it say, as plain values.

Design: :func:`read` takes the progress as Spark gives it, on a classic session or on Spark Connect, or as its JSON.
What a join did comes from :func:`watersmeet.spark.metrics.metrics` alone; what is added here are sums over cores and
groups.

*Latency* is not among Spark's figures. A query may tell of its results where they leave, in an observation called
``RESULTS``: how many, and quantiles of their times, as ``jobs/`` does (``observation.py``). The micro-batch's end, when
the sink has committed them, less these is the latency. Event time and arrival are by other clocks than the end is.

Invariant: figures are immutable, and nothing is guessed: what the progress does not have is None, or left out.

Cost: one pass over the cores' reports, each with at most 33 groups; no row is looked at.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from watersmeet.balance.loads import PAIR_OF_ROW, GroupReport
from watersmeet.spark.metrics import JoinProgress, metrics, observations
from watersmeet.spark.output import Report

__all__ = ["LATENCIES", "RESULTS", "Core", "Group", "JoinFigures", "Latency", "MicroBatch", "Side", "Source", "read"]

HEAVIEST: Final = 8
"""Groups that are kept of each join."""
EPOCH: Final = datetime.fromtimestamp(0, UTC)
MILLISECONDS: Final = 1_000
MICROSECONDS: Final = 1_000_000
RESULTS: Final = "watersmeet results"
"""The observation with ``results``, a count, and where they are known ``event`` and ``arrival``: for each of
``LATENCIES`` the moment, in microseconds since 1970, that so large a part of the results' times is not before."""
LATENCIES: Final = (0.5, 0.95)
"""The quantiles of :class:`Latency`."""
UNREAD: Final = "avgOffsetsBehindLatest"
"""What Kafka's sources tell among their metrics: the mean of a topic's partitions."""
PARTITION: Final = re.compile(r"""["']\d+["']\s*:\s*\d""")
"""A partition with its offset, in what Kafka's sources have read: JSON, or on some sessions a dictionary of Python."""


@dataclass(frozen=True, slots=True)
class Source:
    """What one of the query's sources gave."""

    name: str
    rows: int


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a join. Of many streams ``left`` is the one whose rows have one home each, ``right`` all others."""

    name: str
    rows: int | None
    """Rows that were stored; one counts for each core that stores it. None where no groups are counted."""
    state_bytes: int
    """Bytes that are held."""
    is_all: bool
    """False while load moves: then rows are held that an earlier routing table has stored, and ``state_bytes`` leaves
    them out."""


@dataclass(frozen=True, slots=True)
class Core:
    """What one core did, and what it holds after it."""

    core: int
    """Its id, by which Spark spreads cores over partitions."""
    rows_in: int
    pairs: int
    late_rows: int
    window_rows: int
    state_bytes: int
    busy_seconds: float
    work_seconds: float


@dataclass(frozen=True, slots=True)
class Group:
    """One of the groups with the most rows and pairs: a key, or a few that share their owner."""

    group: int
    rows: int
    pairs: int
    row_share: float
    pair_share: float
    share: float
    """Its part of the work: of rows, and of pairs, one of which counts as ``PAIR_OF_ROW`` rows."""
    cores: int
    """How many cores have worked for it; more than one if it is cut, or has just moved."""
    is_hot: bool
    """Whether each of these does more for it than one core's fair share of all work."""


@dataclass(frozen=True, slots=True)
class JoinFigures:
    """What one join did, and what it holds after it."""

    rows_in: int
    pairs: int
    late_rows: int
    null_rows: int
    unmatched_rows: int
    window_rows: int | None
    state_bytes: int | None
    waiting_for: str | None
    generation: int | None
    decisions: tuple[str, ...]
    """The reasons for the last change of balance; they stay until the next one."""
    sides: tuple[Side, ...]
    cores: tuple[Core, ...]
    groups: tuple[Group, ...]

    @property
    def skew(self) -> float | None:
        """The work of the busiest core as a multiple of the mean; None without work, or on one core."""
        work = [core.work_seconds for core in self.cores]
        return max(work) * len(work) / sum(work) if len(work) > 1 and sum(work) > 0 else None


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds until results were committed to the sink: what half of them, and 95 of 100, stay below."""

    p50: float
    p95: float


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What a query did in one micro-batch."""

    query: str
    """The query's id, which stays the same when it is started again."""
    name: str | None
    number: int
    began: float
    """Seconds since 1970, as all moments here."""
    seconds: float
    rows: int
    """Rows that all sources gave."""
    results: int | None
    """Rows that went to the sink; None where the query does not tell."""
    event_latency: Latency | None
    """None without results, and where they have no event time, or the query does not tell."""
    arrival_latency: Latency | None
    """None without results, and where not every stream tells when its rows arrived."""
    unread: int | None
    """Rows that the sources have and that were not read yet; None if no source tells, as Kafka does."""
    newest: float | None
    """The newest event time of its rows; None without rows, or without event time."""
    watermark: float | None
    """The query's, by which it was joined; the join's own may be further (docs/monitoring.md)."""
    sources: tuple[Source, ...]
    joins: Mapping[str, JoinFigures]

    @property
    def ended(self) -> float:
        """When it was done."""
        return self.began + self.seconds

    @property
    def lag(self) -> float | None:
        """Seconds of event time between its newest row and the watermark."""
        return None if self.newest is None or self.watermark is None else self.newest - self.watermark

    @property
    def behind_clock(self) -> float | None:
        """Seconds by which the watermark lay behind the clock when it was done."""
        return None if self.watermark is None else self.ended - self.watermark


def read(progress: Mapping[str, Any]) -> MicroBatch:
    """Return the figures of a micro-batch from its progress."""
    times = progress.get("eventTime") or {}
    plain: Any = dict(progress)
    told = observations(progress).get(RESULTS) or {}
    began, seconds = _moment(progress["timestamp"]), progress["batchDuration"] / MILLISECONDS
    return MicroBatch(
        query=str(progress["id"]),
        name=progress["name"],
        number=progress["batchId"],
        began=began,
        seconds=seconds,
        rows=sum(source["numInputRows"] for source in progress["sources"]),
        results=told.get("results"),
        event_latency=_latency(began + seconds, told.get("event")),
        arrival_latency=_latency(began + seconds, told.get("arrival")),
        unread=_unread(progress["sources"]),
        newest=_event_moment(times.get("max")),
        watermark=_event_moment(times.get("watermark")),
        sources=tuple(Source(source["description"], source["numInputRows"]) for source in progress["sources"]),
        joins={name: _figures(join) for name, join in metrics(plain).items()},
    )


def _figures(join: JoinProgress) -> JoinFigures:
    told = {core.core: GroupReport.parse(core.groups) for core in join.cores if core.groups is not None}
    reports = {core: report for core, report in told.items() if report.heaviest}  # without balance nothing is counted
    return JoinFigures(
        rows_in=join.rows_in,
        pairs=join.pairs,
        late_rows=join.late_rows,
        null_rows=join.null_rows,
        unmatched_rows=join.unmatched_rows,
        window_rows=join.window_rows,
        state_bytes=join.state_bytes,
        waiting_for=join.waiting_for,
        generation=join.balance.generation,
        decisions=join.balance.decisions,
        sides=_sides(join.cores, list(reports.values())),
        cores=tuple(sorted(map(_core, join.cores), key=lambda core: core.core)),
        groups=_groups(reports, len(join.cores)),
    )


def _core(report: Report) -> Core:
    return Core(
        report.core,
        report.rows_in,
        report.pairs,
        report.late_rows,
        report.window_rows,
        report.state_bytes,
        report.busy_seconds,
        report.work_seconds,
    )


def _sides(cores: tuple[Report, ...], reports: list[GroupReport]) -> tuple[Side, ...]:
    """Return the sides of a join."""
    held: dict[str, int] = defaultdict(int)
    for core in cores:
        for side, nbytes in core.bytes_by_newest.items():
            held[side] += nbytes
    is_all = all(core.oldest == core.generation for core in cores)
    loads = [load for report in reports for load in (*report.heaviest, report.rest)]
    rows = {"left": sum(load.left for load in loads), "right": sum(load.right for load in loads)} if reports else {}
    return tuple(Side(side, int(rows[side]) if side in rows else None, held[side], is_all) for side in sorted(held))


def _groups(reports: Mapping[int, GroupReport], cores: int) -> tuple[Group, ...]:
    """Return the groups with the most work first."""
    rows, pairs = defaultdict[int, float](float), defaultdict[int, float](float)
    owners: dict[int, int] = defaultdict(int)
    for report in reports.values():
        for load in report.heaviest:
            rows[load.group] += load.left + load.right
            pairs[load.group] += load.pairs
            owners[load.group] += 1
    rests = [report.rest for report in reports.values()]
    all_rows = sum(rows.values()) + sum(rest.left + rest.right for rest in rests)
    all_pairs = sum(pairs.values()) + sum(rest.pairs for rest in rests)
    work = all_rows + PAIR_OF_ROW * all_pairs
    found = [
        Group(
            group,
            int(rows[group]),
            int(pairs[group]),
            row_share=rows[group] / (all_rows or 1),
            pair_share=pairs[group] / (all_pairs or 1),
            share=(share := (rows[group] + PAIR_OF_ROW * pairs[group]) / (work or 1)),
            cores=owners[group],
            is_hot=cores > 1 and share / owners[group] > 1 / cores,
        )
        for group in rows
    ]
    return tuple(sorted(found, key=lambda group: -group.share)[:HEAVIEST])


def _latency(ended: float, moments: list[int] | None) -> Latency | None:
    return Latency(*(ended - moment / MICROSECONDS for moment in moments)) if moments else None


def _unread(sources: Iterable[Mapping[str, Any]]) -> int | None:
    """Return how many rows the sources have still to give, by those that tell."""
    told = [source for source in sources if UNREAD in (source.get("metrics") or {})]
    counts = [float(one["metrics"][UNREAD]) * len(PARTITION.findall(str(one["endOffset"]))) for one in told]
    return round(sum(counts)) if told else None


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _event_moment(text: str | None) -> float | None:
    """Return an event time; Spark shows the watermark as 1970 while there is none."""
    moment = None if text is None else datetime.fromisoformat(text)
    return None if moment is None or moment <= EPOCH else moment.timestamp()
