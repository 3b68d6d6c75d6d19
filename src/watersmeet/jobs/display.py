"""Shows a running job: on a terminal a table that is drawn anew, elsewhere a plain line for each micro-batch.

What cannot be known is shown as a dash, and a line below the table says why.
"""

from __future__ import annotations

import sys
import time
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from watersmeet.jobs.model import ConsoleSink
from watersmeet.jobs.reading import JobFile
from watersmeet.live.figures import JoinFigures, Latency, MicroBatch
from watersmeet.live.history import Figures, View

__all__ = ["Display"]

EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
MOST_BARS: Final = 32
PLAIN_SECONDS: Final = 1.0
"""Plain lines come at most so often; what came between is in the next one."""
NONE: Final = "-"


class Display:
    """Shows one job and its figures; use it in ``with``."""

    def __init__(
        self, file: JobFile, figures: Figures, *, console: Console | None = None, log: Path | None = None
    ) -> None:
        self._file = file
        self._figures = figures
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._log = log
        self._state = "Spark starts"
        self._since = time.monotonic()
        self._shown_at = 0.0
        self._unshown: list[MicroBatch] = []
        self._live = Live(console=self._console, auto_refresh=True, refresh_per_second=4, get_renderable=self._drawn)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        else:
            self._say(f"{self._file.job.name}: {self._state}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._flush()
        self._state = "ended" if kind is None else "failed"
        if self._console.is_terminal:
            self._live.stop()

    # --- what the runner tells --------------------------------------------------------------------------------------

    def started(self) -> None:
        """Show that the query has started."""
        self._since = time.monotonic()
        self._state = "waits for the first micro-batch; Spark's Python workers start in it"
        if not self._console.is_terminal:
            self._say(f"{self._file.job.name}: started")

    def micro_batch(self, batch: MicroBatch) -> None:
        """Show what a micro-batch did."""
        self._state = "runs"
        self._unshown.append(batch)
        if not self._console.is_terminal and time.monotonic() - self._shown_at >= PLAIN_SECONDS:
            self._flush()

    def results(self, batch: int, results: pa.Table) -> None:
        """Show results, of a console sink."""
        if not results.num_rows:
            return
        assert isinstance(self._file.job.sink, ConsoleSink), "no other sink shows its results"
        shown = results.slice(0, self._file.job.sink.rows)
        table = Table(
            title=f"micro-batch {batch}: {shown.num_rows:,} of {results.num_rows:,} results", title_justify="left"
        )
        for name in shown.schema.names:
            numeric = pa.types.is_integer(shown.schema.field(name).type) or pa.types.is_floating(
                shown.schema.field(name).type
            )
            table.add_column(name, justify="right" if numeric else "left")
        for row in zip(*(shown.column(number).to_pylist() for number in range(shown.num_columns)), strict=True):
            table.add_row(*(Text(_cell(value)) for value in row))
        self._console.print(table)

    def stopping(self, why: str) -> None:
        """Show that the query has been asked to end."""
        self._state = f"{why}: ends after this micro-batch (once more: at once)"
        if not self._console.is_terminal:
            self._say(f"{self._file.job.name}: {self._state}")

    def summary(self) -> str:
        """Return what the job did."""
        seconds, done = time.monotonic() - self._since, self._figures.view()
        return (
            f"{self._file.job.name}: {_count(done.micro_batches, 'micro-batch')}, {done.rows:,} rows in,"
            f" {_count(done.results or 0, 'result')} out, {_seconds(seconds)}"
        )

    # --- a terminal -------------------------------------------------------------------------------------------------

    def _drawn(self) -> RenderableType:
        """Return the picture of now."""
        passed = _seconds(float(round(time.monotonic() - self._since)))
        state = Text.assemble((self._file.job.name, "bold"), f"  {self._state}  ", (passed, "dim"))
        parts: list[RenderableType] = [state]
        view = self._figures.view()
        if view.latest is not None:
            parts += [self._of_query(view, view.latest), self._of_joins(view.latest)]
            parts += [Text(text, style="dim") for text in self._remarks(view, view.latest)]
        if self._log is not None:
            parts.append(Text(f"Spark's log: {self._log}", style="dim"))
        return Group(*parts)

    def _of_query(self, view: View, last: MicroBatch) -> Table:
        table = Table(box=None, pad_edge=False, show_header=False)
        for _ in range(4):
            table.add_column()
        took, unread = _seconds(last.seconds), NONE if last.unread is None else f"{last.unread:,}"
        event, arrival = _latency(last.event_latency), _latency(last.arrival_latency)
        table.add_row("micro-batch", f"{last.number:,}  took {took}", "rows/s", _rate(last.rows, last))
        table.add_row("rows in so far", f"{view.rows:,}", "results/s", _rate(last.results or 0, last))
        table.add_row("results so far", f"{view.results or 0:,}", "unread rows", unread)
        table.add_row("latency from event time", event, "from arrival", arrival)
        table.add_row("watermark behind the clock", _seconds(last.behind_clock), "", "")
        return table

    def _of_joins(self, last: MicroBatch) -> Table:
        table = Table(box=None, pad_edge=False)
        for name in ("join", "pairs/s", "window rows", "state", "late", "load per core", "waits for"):
            table.add_column(name, justify="left" if name in ("join", "load per core", "waits for") else "right")
        for name, join in last.joins.items():
            table.add_row(
                name,
                _rate(join.pairs, last),
                NONE if join.window_rows is None else f"{join.window_rows:,}",
                _bytes(join.state_bytes),
                f"{join.late_rows:,}",
                _bars(_loads(join, last)),
                join.waiting_for or "",
            )
        return table

    def _remarks(self, view: View, last: MicroBatch) -> list[str]:
        """Return why figures are missing that never come."""
        if not view.results:
            return []
        remarks = (
            [] if last.unread is not None else ["no unread rows: none of the sources tells of them, as Kafka does"]
        )
        if last.results and last.event_latency is None:
            remarks.append("no latency from event time: the results have no timestamp of a time window")
        if last.results and last.arrival_latency is None:
            remarks.append("no latency from arrival: not every stream has `arrival`, the column of when its rows came")
        return remarks

    # --- elsewhere --------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Print a line for the micro-batches that no line has been printed for."""
        if self._console.is_terminal or not self._unshown:
            return
        first, last = self._unshown[0], self._unshown[-1]
        seconds = sum(one.seconds for one in self._unshown) or 1e-3
        rows, results = (sum(getattr(one, name) or 0 for one in self._unshown) for name in ("rows", "results"))
        batches = f"{first.number}" if first is last else f"{first.number}-{last.number}"
        parts = [f"batch {batches}", f"{rows / seconds:,.0f} rows/s", f"{results / seconds:,.0f} results/s"]
        for name, join in last.joins.items():
            pairs = sum(one.joins[name].pairs for one in self._unshown if name in one.joins)
            late = sum(one.joins[name].late_rows for one in self._unshown if name in one.joins)
            told = [f"{pairs / seconds:,.0f} pairs/s"]
            told += [] if join.window_rows is None else [f"window {join.window_rows:,} rows"]
            told += [] if join.state_bytes is None else [f"state {_bytes(join.state_bytes)}"]
            told += [f"{late:,} late"] if late else []
            told += [f"busiest core {load:.0%}" for load in _loads(join, last)[:1]]
            told += [f"waits for {join.waiting_for}"] if join.waiting_for else []
            parts.append(f"{name}: {' '.join(told)}")
        parts += [] if last.unread is None else [f"unread {last.unread:,} rows"]
        for name, latency in (("event time", last.event_latency), ("arrival", last.arrival_latency)):
            parts += [] if latency is None else [f"latency from {name} {_latency(latency)}"]
        self._say("; ".join(parts))
        self._unshown.clear()
        self._shown_at = time.monotonic()

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False)
        sys.stdout.flush()


def _cell(value: object) -> str:
    """Return a value for people; a timestamp without its zone, which is the session's, and with what seconds it has."""
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(sep=" ")
        return text.rstrip("0") if value.microsecond else text
    return "NULL" if value is None else str(value)


def _rate(count: int, batch: MicroBatch) -> str:
    return f"{count / batch.seconds:,.0f}" if batch.seconds else NONE


def _loads(join: JoinFigures, batch: MicroBatch) -> list[float]:
    """Return for each core the share of the micro-batch's time in which it was busy; the busiest first."""
    return sorted((core.busy_seconds / batch.seconds for core in join.cores if batch.seconds), reverse=True)


def _latency(latency: Latency | None) -> str:
    return NONE if latency is None else f"p50 {_seconds(latency.p50)}  p95 {_seconds(latency.p95)}"


def _seconds(seconds: float | None) -> str:
    """Return a span of time in the unit that reads best."""
    if seconds is None:
        return NONE
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if abs(seconds) >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    if abs(seconds) >= 1:
        return f"{seconds:.0f} s" if seconds == round(seconds) else f"{seconds:.1f} s"
    return f"{seconds * 1000:.0f} ms"


def _bytes(count: int | None) -> str:
    if count is None:
        return NONE
    size, units = float(count), ["B", "kB", "MB", "GB"]
    while size >= 1000 and len(units) > 1:  # noqa: PLR2004 -- the next unit
        size, units = size / 1000, units[1:]
    return f"{size:,.0f} {units[0]}" if units[0] == "B" else f"{size:,.1f} {units[0]}"


def _bars(loads: list[float]) -> str:
    """Return a bar for each core: full if it was busy all the time."""
    if not loads:
        return NONE
    bars = "".join(EIGHTHS[min(len(EIGHTHS) - 1, round(load * (len(EIGHTHS) - 1)))] for load in loads[:MOST_BARS])
    return f"{bars} {loads[0]:.0%} the busiest of {len(loads)}"


def _count(number: int, what: str) -> str:
    plural = what + ("es" if what.endswith("h") else "s")
    return f"{number:,} {what if number == 1 else plural}"
