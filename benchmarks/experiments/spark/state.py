"""What a core keeps in Spark's state store once many windows have passed: bytes, and in how many runs."""

from __future__ import annotations

import math
from typing import Final

from benchmarks.contestant import ROW_BYTES, Arena
from benchmarks.experiment import Context, Experiment
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table

__all__ = ["EXPERIMENT"]

SEED: Final = 84
WINDOW: Final = 1_000_000
BATCHES_PER_WINDOW: Final = 20
WINDOWS: Final = 10
QUICK_WINDOWS: Final = 2
GOAL_BYTES: Final = 2.5
GOAL_RUNS: Final = 3.0


def run(context: Context) -> Result:
    """Feed ten windows' length of rows and look at the state during the last."""
    batch = context.size(WINDOW) // BATCHES_PER_WINDOW
    window, windows = batch * BATCHES_PER_WINDOW, context.size(WINDOWS, QUICK_WINDOWS)
    with Arena.open(context, seed=SEED, block=batch) as arena:
        contestant = arena.enter("ours", window)
        taken = contestant.turn(windows * BATCHES_PER_WINDOW, batch)
        files = (contestant.folder / "checkpoint" / "state").rglob("*")
        on_disk = sum(file.stat().st_size for file in files if file.is_file())
    raw = 2 * window * ROW_BYTES
    held = [sum(core["state_bytes"] for core in one["cores"]) / raw for one in taken]
    runs = [max(core["runs"] for core in one["cores"]) / 2 for one in taken]
    most, most_runs = max(held[-BATCHES_PER_WINDOW:]), max(runs[-BATCHES_PER_WINDOW:])
    logarithm = math.log2(BATCHES_PER_WINDOW)
    lines: list[tuple[Cell, ...]] = [
        ("rows of both windows, raw", float(raw), 1.0),
        ("state, at the end", held[-1] * raw, held[-1]),
        ("state, at its fullest in the last window", most * raw, most),
        ("files of the checkpoint's state, at the end", float(on_disk), on_disk / raw),
    ]
    return Result(
        tables=[
            Table(f"bytes of state, window of {window:,} rows a side", ("what", "bytes", "ratio to raw"), lines),
            Table(
                "runs of a core and side",
                ("micro-batches in a window", "their log2", "most runs in the last window"),
                [(BATCHES_PER_WINDOW, logarithm, most_runs)],
            ),
        ],
        figures=[
            Figure(
                "state",
                f"State of a window of {window:,} rows a side",
                [
                    _over_time("bytes", "state to raw rows", held),
                    _over_time("runs", "runs of a core and side", runs),
                ],
            )
        ],
        goals=[
            Goal("state at its fullest against raw rows", most, GOAL_BYTES, at_least=False),
            Goal("runs against log2 of the micro-batches", most_runs / logarithm, GOAL_RUNS, at_least=False),
        ],
        notes=["the checkpoint keeps several versions of the state for recovery, so its files hold more than one"],
        runs=[{"batch": number, **one} for number, one in enumerate(taken)],
    )


def _over_time(title: str, label: str, figures: list[float]) -> Panel:
    passed = [(number + 1) / BATCHES_PER_WINDOW for number in range(len(figures))]
    return Panel(title, "windows passed", label, [Series(title, passed, figures)], x_log=False, y_log=False)


EXPERIMENT: Final = Experiment(
    "state",
    Description(
        purpose="bytes and runs in the state store after ten windows' length of rows",
        seed=SEED,
        shape="2 cores, window 1 million rows a side, micro-batches of 50,000 rows a side, rows of 24 bytes",
        expected="about one pair per row; at most 2.5 times the raw rows; runs in proportion to the logarithm",
    ),
    run,
)
