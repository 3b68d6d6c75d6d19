"""What a small micro-batch costs beyond the path's own overhead: ours against the empty pipeline, taking turns."""

from __future__ import annotations

from typing import Final

from benchmarks.contestant import (
    EMPTY,
    OURS,
    Arena,
    MicroBatch,
    compare_trees,
    median_seconds,
    rivals,
    with_older_tree,
)
from benchmarks.experiment import Context, Experiment, median
from benchmarks.report import Cell, Description, Goal, Result, Table

__all__ = ["EXPERIMENT"]

SEED: Final = 83
WINDOW: Final = 1_000_000
BATCH: Final = 10_000
FILLING_BATCH: Final = 500_000
QUICK_PART: Final = 100
TURNS: Final = 8
BATCHES: Final = 10
WARM_UP: Final = 2
GOAL: Final = 1.5


def run(context: Context) -> Result:
    """Fill the window with a few large micro-batches, then let both take turns with small ones."""
    window, batch, filling = (context.size(n, n // QUICK_PART) for n in (WINDOW, BATCH, FILLING_BATCH))
    turns, batches = context.size(TURNS, 1), context.size(BATCHES, 4)
    with Arena.open(context, seed=SEED, block=batch) as arena:
        contestants = [arena.enter(name, window) for name in ("ours", *rivals(context))]
        measured: dict[str, list[MicroBatch]] = {contestant.name: [] for contestant in contestants}
        for contestant in contestants:
            contestant.fill(window, filling)
        for turn in range(turns):
            for contestant in contestants[:: -1 if turn % 2 else 1]:
                measured[contestant.name] += contestant.turn(batches, batch, warm_up=WARM_UP)
    seconds = {name: median_seconds(taken) for name, taken in measured.items()}
    lines: list[tuple[Cell, ...]] = [
        (
            name,
            seconds[name],
            seconds[name] / seconds[EMPTY],
            median([one["add_batch_seconds"] for one in taken]),
            min(one["seconds"] for one in taken),
            max(one["seconds"] for one in taken),
        )
        for name, taken in measured.items()
    ]
    return Result(
        tables=[
            Table(
                f"time of a micro-batch of 2 x {batch:,} rows, window {window:,} rows a side",
                ("query", "s a micro-batch", "to the empty pipeline", "of it addBatch", "least", "most"),
                lines,
                f"medians of {turns * batches} micro-batches in {turns} turns",
            )
        ],
        goals=[
            Goal(
                "time of a small micro-batch, ours against the empty pipeline",
                seconds[OURS] / seconds[EMPTY],
                GOAL,
                at_least=False,
            ),
            *compare_trees(measured),
        ],
        runs=[{"what": name, **one} for name, taken in measured.items() for one in taken],
    )


EXPERIMENT: Final = with_older_tree(
    Experiment(
        "small_batches",
        Description(
            purpose="the time of a small micro-batch against the empty pipeline's in one run",
            seed=SEED,
            shape="2 cores, window 1 million rows a side, micro-batches of 10,000 rows a side, uniform int64 keys",
            expected="about one pair per row; at most 1.5 times the empty pipeline's time",
        ),
        run,
    )
)
