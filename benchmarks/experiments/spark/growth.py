"""How the time of a micro-batch grows with the window. All windows take turns."""

from __future__ import annotations

from typing import Final

from benchmarks.contestant import Arena, MicroBatch, median_seconds
from benchmarks.experiment import Context, Experiment
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table

__all__ = ["EXPERIMENT"]

SEED: Final = 82
WINDOWS: Final = (100_000, 1_000_000, 8_000_000)
BATCH: Final = 100_000
FILLING_BATCH: Final = 1_000_000
QUICK_PART: Final = 100
TURNS: Final = 3
BATCHES: Final = 6
WARM_UP: Final = 2
MEMORY: Final = "3g"
"""Of each JVM: three are there at once, and the micro-batches are small."""
GOAL: Final = 1.3


def run(context: Context) -> Result:
    """Fill all windows with a few large micro-batches, then take turns between them with small ones."""
    batch = context.size(BATCH, BATCH // QUICK_PART)
    turns, batches = context.size(TURNS, 1), context.size(BATCHES, 2)
    windows = [context.size(window, window // QUICK_PART) for window in WINDOWS]
    measured: dict[int, list[MicroBatch]] = {window: [] for window in windows}
    with Arena.open(context, seed=SEED, block=batch) as arena:
        contestants = {window: arena.enter("ours", window, memory=MEMORY) for window in windows}
        for window, contestant in contestants.items():
            contestant.fill(window, min(window, context.size(FILLING_BATCH, FILLING_BATCH // QUICK_PART)))
        for _ in range(turns):
            for window, contestant in contestants.items():
                measured[window] += contestant.turn(batches, batch, warm_up=WARM_UP)
    each = {window: median_seconds(taken) for window, taken in measured.items()}
    smallest = each[windows[0]]
    lines: list[tuple[Cell, ...]] = [
        (
            window,
            seconds,
            seconds / smallest,
            min(one["seconds"] for one in measured[window]),
            max(one["seconds"] for one in measured[window]),
            sum(one["pairs"] for one in measured[window]) / sum(one["rows"] for one in measured[window]),
        )
        for window, seconds in each.items()
    ]
    line = Series("ours", [float(window) for window in each], list(each.values()))
    panel = Panel("one match per row", "window (rows a side)", "s per micro-batch", [line], y_log=False)
    return Result(
        tables=[
            Table(
                f"time of a micro-batch of 2 x {batch:,} rows by window",
                ("window rows a side", "s a micro-batch", "ratio to smallest", "least", "most", "pairs a row"),
                lines,
                f"medians of {turns * batches} micro-batches in {turns} turns; the windows take turns",
            )
        ],
        figures=[Figure("growth", f"Time of a micro-batch of 2 x {batch:,} rows", [panel])],
        goals=[Goal("largest window against smallest", each[windows[-1]] / smallest, GOAL, at_least=False)],
        runs=[{"window": window, **one} for window, taken in measured.items() for one in taken],
    )


EXPERIMENT: Final = Experiment(
    "growth",
    Description(
        purpose="how much slower a micro-batch becomes as the window grows from 0.1 to 8 million rows a side",
        seed=SEED,
        shape="2 cores, micro-batches of 100,000 rows a side, uniform int64 keys, one row per microsecond",
        expected="about one pair per row at every size, so the output stays the same; at most 1.3 times slower",
    ),
    run,
)
