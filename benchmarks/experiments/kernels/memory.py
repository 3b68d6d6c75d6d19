"""How many bytes a window holds for each byte of its rows, at its fullest during a rotation of subwindows."""

from __future__ import annotations

from typing import Final, cast

from benchmarks.experiment import Context, Experiment
from benchmarks.report import Cell, Description, Goal, Result, Table
from benchmarks.worker import Memory, Task, start

__all__ = ["EXPERIMENT"]

SEED: Final = 70
WINDOW: Final = 8 << 20
BATCH: Final = 1 << 15
GOAL: Final = 2.0


def run(context: Context) -> Result:
    """Fill both windows in a process of their own and watch them through two rotations."""
    window, batch = context.size(WINDOW), context.size(BATCH, BATCH // 16)
    context.progress.step(f"filling windows of {window:,} rows in a process of its own")
    task: Task = {"window": window, "batch": batch, "number": 0, "seed": SEED}
    with start("memory", task) as worker:
        answer = cast("Memory", worker.answer())
    raw, most, least = answer["raw_bytes"], answer["most_bytes"], answer["least_bytes"]
    growth = answer["resident_growth"]
    lines: list[tuple[Cell, ...]] = [
        ("rows of both windows, raw", float(raw), 1.0),
        ("windows with index, least", float(least), least / raw),
        ("windows with index, most", float(most), most / raw),
        ("growth of the process", float(growth), growth / raw),
    ]
    return Result(
        tables=[Table(f"bytes held, window of {window:,} rows a side", ("what", "bytes", "ratio to raw"), lines)],
        goals=[Goal("bytes of the windows at their fullest against raw rows", most / raw, GOAL, at_least=False)],
        notes=["the process also holds what the allocators keep for the next batch and merge"],
        runs=[{**answer}],
    )


EXPERIMENT: Final = Experiment(
    "memory",
    Description(
        purpose="bytes held per byte of rows by windows of 8M rows a side, index included",
        seed=SEED,
        shape="rows of 24 bytes (key, timestamp, payload), batches of 32K rows a side; bi_sort",
        expected="about one pair per row; at most 2 times the raw rows, at any point of a rotation",
    ),
    run,
)
