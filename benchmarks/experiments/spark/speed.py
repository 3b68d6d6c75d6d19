"""How much of the path's own speed the join leaves: ours against the empty pipeline, taking turns.

Both have the same plan, envelopes and shuffle; the empty pipeline's processor reads envelopes and drops them. The
pairs go to Spark's ``noop`` sink, which takes every row and writes none.
"""

from __future__ import annotations

from typing import Final

from benchmarks.contestant import (
    EMPTY,
    OURS,
    ROW_BYTES,
    Arena,
    MicroBatch,
    compare_trees,
    median_rate,
    median_seconds,
    rivals,
    with_older_tree,
)
from benchmarks.experiment import Context, Experiment, median
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table

__all__ = ["EXPERIMENT"]

SEED: Final = 80
WINDOW: Final = 4_000_000
BATCH: Final = 1_000_000
TURNS: Final = 3
BATCHES: Final = 4
WARM_UP: Final = 2
GOAL: Final = 0.85


def run(context: Context) -> Result:
    """Fill the window, then let both take turns."""
    window, batch = context.size(WINDOW), context.size(BATCH)
    turns, batches = context.size(TURNS, 1), context.size(BATCHES, 2)
    with Arena.open(context, seed=SEED, block=batch) as arena:
        contestants = [arena.enter(name, window) for name in ("ours", *rivals(context))]
        measured: dict[str, list[MicroBatch]] = {contestant.name: [] for contestant in contestants}
        for contestant in contestants:
            contestant.fill(window, batch)
        for turn in range(turns):
            for contestant in contestants[:: -1 if turn % 2 else 1]:
                measured[contestant.name] += contestant.turn(batches, batch, warm_up=WARM_UP)
    sizes = f"window {window:,} rows a side, micro-batches of {batch:,} rows a side"
    rates = {name: median_rate(taken) for name, taken in measured.items()}
    ratio = rates[OURS] / rates[EMPTY]
    lines: list[tuple[Cell, ...]] = [
        (
            name,
            rates[name],
            rates[name] / rates[EMPTY],
            median_seconds(taken),
            median([one["add_batch_seconds"] for one in taken]),
            sum(one["pairs"] for one in taken) / sum(one["rows"] for one in taken),
        )
        for name, taken in measured.items()
    ]
    bars = [Series(name, [0.0], [rate]) for name, rate in rates.items()]
    return Result(
        tables=[
            Table(
                f"rows/s on 2 cores, {sizes}",
                ("query", "rows/s", "of the empty pipeline", "s a micro-batch", "of it addBatch", "pairs a row"),
                lines,
                f"medians of {turns * batches} micro-batches in {turns} turns",
            ),
            _cores(measured, window),
        ],
        figures=[Figure("speed", "The join and the empty pipeline", [Panel(sizes, "", "rows/s", bars, bars=True)])],
        goals=[Goal("ours against the empty pipeline, rows/s", ratio, GOAL, at_least=True), *compare_trees(measured)],
        runs=[{"what": name, **one} for name, taken in measured.items() for one in taken],
    )


def _cores(measured: dict[str, list[MicroBatch]], window: int) -> Table:
    """Return what the cores of each query did: medians over its micro-batches."""
    lines: list[tuple[Cell, ...]] = []
    for name, taken in measured.items():
        for core in sorted({record["core"] for one in taken for record in one["cores"]}):
            records = [(one, record) for one in taken for record in one["cores"] if record["core"] == core]
            lines.append(
                (
                    name,
                    core,
                    median([float(record["rows_in"]) for _, record in records]),
                    median([record["busy_seconds"] / one["seconds"] for one, record in records]),
                    sum(record["runs_read"] for _, record in records),
                    median([float(record["state_bytes"]) for _, record in records]),
                    median([float(record["runs"]) for _, record in records]),
                )
            )
    return Table(
        "what the cores did",
        ("query", "core", "rows in", "busy part of the time", "runs read from the state", "state bytes", "runs"),
        lines,
        f"medians; the rows of both windows are {2 * window * ROW_BYTES / 1e6:,.1f} M bytes",
    )


EXPERIMENT: Final = with_older_tree(
    Experiment(
        "speed",
        Description(
            purpose="rows a second of the join on Spark against the empty pipeline in one run",
            seed=SEED,
            shape="2 cores, window 4 million rows a side, micro-batches of 1 million rows a side; int64 keys uniform in"
            " 2^31, a timestamp per microsecond, 8 bytes of payload; Parquet files in, noop sink out",
            expected="about one pair per row; at least 0.85 of the empty pipeline's rows a second",
        ),
        run,
    )
)
