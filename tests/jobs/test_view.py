"""What a running job shows: on a terminal and elsewhere, and that what is not known is not made up."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from watersmeet.jobs.example import EXAMPLE
from watersmeet.jobs.figures import Figures, JoinFigures, Latency
from watersmeet.jobs.reading import job_of
from watersmeet.jobs.view import View

JOIN = JoinFigures(500, 0, 3, 12_000, 240_000, "right", (0.9, 0.3))


def figures(batch: int, *, latency: Latency | None = None, behind: int | None = None, results: int = 500) -> Figures:
    return Figures(batch, 2.0, 1_000, results, latency, None, behind, 75.0, {"pairs": JOIN})


def shown(*, terminal: bool, told: list[Figures], results: pa.Table | None = None) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None, soft_wrap=True)
    with View(job_of(EXAMPLE, Path("job.toml")), console=console) as view:
        view.started()
        for one in told:
            view.figures(one)
        if results is not None:
            view.results(0, results)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue() + view.summary()


def test_a_plain_line_has_the_micro_batchs_figures() -> None:
    text = shown(terminal=False, told=[figures(0, latency=Latency(1.5, 130.0), behind=70)])
    assert (
        "batch 0; 500 rows/s; 250 results/s; pairs: 250 pairs/s window 12,000 rows state 240.0 kB 3 late"
        " busiest core 90% waits for right; lag 70 rows; latency from event time p50 1.5 s  p95 2.2 min"
    ) in text
    assert "trades near quotes: 1 micro-batch, 1,000 rows in, 500 results out" in text
    assert "\x1b" not in text


def test_lines_that_come_fast_are_put_together() -> None:
    text = shown(terminal=False, told=[figures(batch) for batch in range(4)])
    lines = [line for line in text.splitlines() if line.startswith("batch")]
    assert [line.split(";")[0] for line in lines] == ["batch 0", "batch 1-3"]
    assert "500 rows/s" in lines[1]
    assert "9 late" in lines[1]


def test_a_terminal_shows_a_table_and_why_a_figure_is_missing() -> None:
    text = shown(terminal=True, told=[figures(0)])
    for expected in (
        "rows/s",
        "latency from event time",
        "75 s",
        "▇▂ 90% the busiest of 2",
        "12,000",
        "240.0 kB",
        "right",
    ):
        assert expected in text
    assert "no latency from arrival: not every stream has `arrival`" in text
    assert "no latency from event time" in text
    assert "no lag" in text
    assert "no l" not in shown(terminal=True, told=[figures(0, results=0)])  # nothing is known to be missing yet


def test_results_are_shown_up_to_the_rows_that_are_asked_for() -> None:
    moments = [datetime(2026, 1, 5, 9, 30, second, 250_000 * (second % 2), tzinfo=UTC) for second in range(7)]
    table = pa.table({"ts": moments, "price": [None, *range(6)]})
    text = shown(terminal=False, told=[], results=table)
    assert "micro-batch 0: 5 of 7 results" in text
    assert "2026-01-05 09:30:00 " in text
    assert "2026-01-05 09:30:01.25 " in text
    assert "NULL" in text
    assert "09:30:05" not in text
    assert (
        "micro-batch" not in shown(terminal=False, told=[], results=table.slice(0, 0)).split("started")[1].split(":")[0]
    )
