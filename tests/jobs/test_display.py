"""What a running job shows: on a terminal and elsewhere, and that what is not known is not made up."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console

from watersmeet.jobs.display import Display
from watersmeet.jobs.example import EXAMPLE
from watersmeet.jobs.reading import job_of
from watersmeet.live.history import Figures

RECORDED = Path(__file__).resolve().parents[1] / "fixtures" / "progress" / "job.json"
BEGAN = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)


def progress(
    batch: int, *, latencies: tuple[float, float] | None = None, unread: int | None = None, results: int = 500
) -> dict[str, Any]:
    """Return a recorded progress with other figures: two seconds in which two cores were busy."""
    shown: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))[3]
    near = shown["observedMetrics"]["near"]
    near |= {"pairs": 500, "late_rows": 3, "window_rows": 12_000, "state_bytes": 240_000, "waiting_for": "right"}
    near["cores"] = [core | {"busy_seconds": 2 * load} for core, load in zip(near["cores"], (0.3, 0.9), strict=False)]
    began = BEGAN + batch * timedelta(seconds=2)
    ended = began + timedelta(seconds=2)
    moments = [round((ended.timestamp() - latency) * 1e6) for latency in latencies or ()]
    tells = {} if unread is None else {"avgOffsetsBehindLatest": str(unread)}
    return shown | {
        "batchId": batch,
        "batchDuration": 2_000,
        "timestamp": began.isoformat(),
        "eventTime": {"watermark": (ended - timedelta(seconds=75)).isoformat()},
        "sources": [{"description": "rows", "numInputRows": 1_000, "metrics": tells, "endOffset": '{"rows":{"0":1}}'}],
        "observedMetrics": {"pairs": near, "watersmeet results": {"results": results, "event": moments or None}},
    }


def shown(*, terminal: bool, told: list[dict[str, Any]], results: pa.Table | None = None) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None, soft_wrap=True)
    figures = Figures()
    with Display(job_of(EXAMPLE, Path("job.toml")), figures, console=console) as display:
        display.started()
        for one in told:
            batch = figures.add(one)
            assert batch is not None
            display.micro_batch(batch)
        if results is not None:
            display.results(0, results)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue() + display.summary()


def test_a_plain_line_has_the_micro_batchs_figures() -> None:
    text = shown(terminal=False, told=[progress(0, latencies=(1.5, 130.0), unread=70)])
    assert (
        "batch 0; 500 rows/s; 250 results/s; pairs: 250 pairs/s window 12,000 rows state 240.0 kB 3 late"
        " busiest core 90% waits for right; unread 70 rows; latency from event time p50 1.5 s  p95 2.2 min"
    ) in text
    assert "trades near quotes: 1 micro-batch, 1,000 rows in, 500 results out" in text
    assert "\x1b" not in text


def test_lines_that_come_fast_are_put_together() -> None:
    text = shown(terminal=False, told=[progress(batch) for batch in range(4)])
    lines = [line for line in text.splitlines() if line.startswith("batch")]
    assert [line.split(";")[0] for line in lines] == ["batch 0", "batch 1-3"]
    assert "500 rows/s" in lines[1]
    assert "9 late" in lines[1]


def test_a_terminal_shows_a_table_and_why_a_figure_is_missing() -> None:
    text = shown(terminal=True, told=[progress(0)])
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
    assert "no unread rows" in text
    empty = shown(terminal=True, told=[progress(0, results=0)])
    assert "no l" not in empty, "nothing is known to be missing yet"
    assert "no unread" not in empty


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
