"""The figures in Prometheus' text format, by ``prometheus_client``, an optional package.

Design: nothing is counted here. A collector reads a view of the figures when it is asked, so a scrape and the page
agree. ``docs/monitoring.md`` has a line for every metric; ``monitoring/`` has a dashboard and alert rules for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from watersmeet.live.figures import LATENCIES
from watersmeet.live.history import Figures, Sums, View
from watersmeet.spec.errors import WatersmeetError

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

__all__ = ["CONTENT_TYPE", "exposition"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(figures: Figures) -> bytes:
    """Return the figures as Prometheus reads them."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 -- optional
    except ModuleNotFoundError as error:
        raise WatersmeetError(
            "metrics for Prometheus need the package prometheus_client, which is not installed",
            "Python environments with the extra 'metrics'",
            "pip install 'watersmeet[metrics]'",
        ) from error
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(figures.view()))
    return generate_latest(registry)


class _Collector:
    """Gives a view as families of metrics."""

    def __init__(self, view: View) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        """Yield all families."""
        yield from self._of_query()
        yield from self._of_joins()
        yield from self._of_cores()

    def _of_query(self) -> Iterator[Metric]:
        view, latest = self._view, self._view.latest
        newest, lag = self._last_known("newest"), self._last_known("lag")
        yield _gauge("query_active", "1 while the query runs.", [((), float(view.started and not view.ended))])
        yield _counter("micro_batches", "Micro-batches that were seen.", [((), view.micro_batches)])
        yield _counter("input_rows", "Rows that all sources gave.", [((), view.rows)])
        yield _counter(
            "source_rows",
            "Rows that a source gave.",
            [((name,), rows) for name, rows in view.source_rows.items()],
            "source",
        )
        if latest is None:
            return
        if view.results is not None:
            yield _counter("results", "Rows that went to the sink.", [((), view.results)])
        if latest.unread is not None:
            yield _gauge("unread_rows", "Rows that the sources have and that were not read yet.", [((), latest.unread)])
        for since in ("event", "arrival"):
            latency = self._last_known(f"{since}_latency")
            if latency is not None:
                parts = [((str(part),), seconds) for part, seconds in zip(LATENCIES, astuple(latency), strict=True)]
                text = f"From results' {since} to the end of the micro-batch that committed them."
                yield _gauge(f"{since}_latency_seconds", text, parts, "quantile")
        yield _gauge("micro_batch_seconds", "How long the last micro-batch took.", [((), latest.seconds)])
        yield _gauge("micro_batch_end_timestamp_seconds", "When it was done.", [((), latest.ended)])
        if latest.watermark is not None:
            yield _gauge("watermark_timestamp_seconds", "The query's watermark.", [((), latest.watermark)])
            yield _gauge(
                "watermark_unmoved_seconds",
                "For how long rows have come and the watermark has not moved.",
                [((), view.unmoved[1])],
            )
        if newest is not None:
            yield _gauge("newest_event_timestamp_seconds", "The newest event time of a micro-batch.", [((), newest)])
        if lag is not None:
            yield _gauge("watermark_lag_seconds", "From the newest event time back to the watermark.", [((), lag)])

    def _last_known(self, name: str) -> Any:  # noqa: ANN401 -- a field of MicroBatch, or None
        """Return a figure of the last micro-batch that has it."""
        found = (getattr(point.batch, name) for point in reversed(self._view.points))
        return next((one for one in found if one is not None), None)

    def _of_joins(self) -> Iterator[Metric]:
        sums = self._view.sums
        joins = {} if self._view.latest is None else self._view.latest.joins

        def count(name: str, text: str) -> Metric:
            return _counter(name, text, [((join,), getattr(own, name)) for join, own in sums.items()], "join")

        yield count("rows_in", "Rows that reached a core; one counts for each core that it reaches.")
        yield count("pairs", "Pairs that were given, or rows of a semi join.")
        yield count("late_rows", "Rows behind the watermark.")
        yield count("null_rows", "Rows that a null keeps from meeting any.")
        yield count("unmatched_rows", "Rows that were given because they met nobody.")
        changes = [((join,), own.changes) for join, own in sums.items()]
        yield _counter("balance_changes", "New routing tables.", changes, "join")
        held = [(name, join) for name, join in joins.items() if join.window_rows is not None]
        rows = [((name,), float(join.window_rows or 0)) for name, join in held]
        yield _gauge("window_rows", "Rows that the cores hold.", rows, "join")
        nbytes = [((name,), float(join.state_bytes or 0)) for name, join in held]
        yield _gauge("state_bytes", "Bytes of state that the cores hold.", nbytes, "join")
        waits = [((name, join.waiting_for), 1.0) for name, join in joins.items() if join.waiting_for]
        yield _gauge("waiting_for", "1 for a stalled stream that holds the watermark back.", waits, "join", "stream")
        skews = [((name,), join.skew) for name, join in joins.items() if join.skew is not None]
        yield _gauge("core_skew", "Work of the busiest core as a multiple of the mean.", skews, "join")
        shares = [((name,), join.groups[0].share) for name, join in joins.items() if join.groups]
        yield _gauge("hottest_group_share", "Part of the work that the heaviest group has.", shares, "join")
        generations = [((name,), float(join.generation)) for name, join in joins.items() if join.generation is not None]
        yield _gauge("balance_generation", "The number of the routing table.", generations, "join")

    def _of_cores(self) -> Iterator[Metric]:
        joins = {} if self._view.latest is None else self._view.latest.joins
        cores = [(name, core) for name, join in joins.items() for core in join.cores]
        rows = [((name, str(core.core)), float(core.window_rows)) for name, core in cores]
        yield _gauge("core_window_rows", "Rows that a core holds.", rows, "join", "core")
        nbytes = [((name, str(core.core)), float(core.state_bytes)) for name, core in cores]
        yield _gauge("core_state_bytes", "Bytes of state that a core holds.", nbytes, "join", "core")
        yield self._core_sum("core_rows_in", "Rows that reached a core.", "core_rows")
        yield self._core_sum("core_work_seconds", "Seconds that a core has probed and stored.", "core_work")
        yield self._core_sum("core_busy_seconds", "Seconds that a core has been busy.", "core_busy")

    def _core_sum(self, name: str, text: str, field: str) -> Metric:
        sums: dict[str, Sums] = dict(self._view.sums)
        found = [
            ((join, str(core)), amount) for join, own in sums.items() for core, amount in getattr(own, field).items()
        ]
        return _counter(name, text, found, "join", "core")


_Samples = Sequence[tuple[Sequence[str], float]]


def _gauge(name: str, text: str, samples: _Samples, *labels: str) -> Metric:
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 -- optional

    family = GaugeMetricFamily(f"watersmeet_{name}", text, labels=labels)
    for values, amount in samples:
        family.add_metric(values, amount)
    return family


def _counter(name: str, text: str, samples: _Samples, *labels: str) -> Metric:
    from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415 -- optional

    family = CounterMetricFamily(f"watersmeet_{name}", text, labels=labels)
    for values, amount in samples:
        family.add_metric(values, amount)
    return family
