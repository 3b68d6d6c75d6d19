"""Against Spark's own stream-stream join, in its default state format (2) and its newest (4), all on RocksDB.

Spark's join takes a band only by hand: values are cut into buckets, the right rows are copied into each bucket that
their band touches, and the join is one on equal buckets.

It is so slow that three whole micro-batches would take many minutes. So it gets one, which fills the window, and
two of half the size: while it takes the second of these, rows leave its state, as in a steady state, and that one is
measured. Its time per row depends little on how many come at once. Ours takes whole micro-batches, several of them.
The rows are the same. One query runs at a time; a ratio this large needs no turns.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from benchmarks.contestant import (
    Arena,
    Condition,
    ContestantName,
    MicroBatch,
    median_rate,
    median_seconds,
)
from benchmarks.experiment import Context, DisagreementError, Experiment
from benchmarks.feed import KEY_RANGE
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table

__all__ = ["EXPERIMENT"]

SEED: Final = 81
BATCH: Final = 1_000_000
"""Rows a side, and of the window too."""
WARM_UP: Final = 2
MEASURED: Final = 6
SPARKS_OWN: Final[tuple[ContestantName, ...]] = ("Spark, format 2", "Spark, format 4")
GOALS: Final[dict[Condition, float]] = {"band": 25.0, "equality": 15.0}

Taken = dict[ContestantName, list[MicroBatch]]


def run(context: Context) -> Result:
    """Run all queries, one after the other, over the same rows."""
    half = context.size(BATCH) // 2
    batch = window = 2 * half
    sizes: dict[ContestantName, list[int]] = {"ours": [batch] * (1 + WARM_UP + MEASURED)}
    sizes |= {name: [batch, half, half] for name in SPARKS_OWN}
    result = Result()
    panels = []
    for condition, least in GOALS.items():
        key_range = window if condition == "equality" else KEY_RANGE  # about one match per row either way
        taken: Taken = {}
        for name, some in sizes.items():
            with Arena.open(context, seed=SEED, block=half, key_range=key_range) as arena:
                taken[name] = arena.enter(name, window, condition=condition).take(some)
        pairs = _agreed_pairs(condition, taken, 2 * batch)
        steady: Taken = {name: batches[-MEASURED if name == "ours" else -1 :] for name, batches in taken.items()}
        rates = {name: median_rate(batches) for name, batches in steady.items()}
        result.tables.append(_table(f"{condition} and time, window {window:,} rows a side", steady, rates))
        result.notes.append(f"{condition}: all found {pairs:,} pairs in the first {2 * batch:,} rows a side")
        bars = [Series(name, [0.0], [rate]) for name, rate in rates.items()]
        panels.append(Panel(f"{condition} and time", "", "rows/s", bars, bars=True))
        ratio = rates["ours"] / max(rates[name] for name in SPARKS_OWN)
        result.goals.append(Goal(f"{condition} and time, against Spark's better format", ratio, least, at_least=True))
        result.runs += [
            {"what": name, "condition": condition, **one} for name, batches in taken.items() for one in batches
        ]
    result.figures.append(Figure("spark_join", "Ours and Spark's own stream-stream join", panels))
    return result


def _agreed_pairs(condition: Condition, taken: Taken, rows: int) -> int:
    """Return how many pairs the first ``rows`` rows a side have; raise unless all say the same."""
    found = {name: _pairs(batches, rows) for name, batches in taken.items()}
    if len(set(found.values())) > 1:
        raise DisagreementError(f"{condition}: the numbers of pairs of the first {rows:,} rows a side differ: {found}")
    return found["ours"]


def _pairs(batches: list[MicroBatch], rows: int) -> int:
    seen = accumulate(one["rows"] for one in batches)
    return sum(one["pairs"] for one, so_far in zip(batches, seen, strict=True) if so_far <= 2 * rows)


def _table(title: str, steady: Taken, rates: dict[ContestantName, float]) -> Table:
    lines: list[tuple[Cell, ...]] = [
        (name, rates[name], rates["ours"] / rates[name], median_seconds(batches), len(batches), batches[0]["rows"] // 2)
        for name, batches in steady.items()
    ]
    columns = ("query", "rows/s", "ours is faster by", "s a micro-batch", "micro-batches", "rows a side in each")
    return Table(title, columns, lines, "medians, on 2 cores")


EXPERIMENT: Final = Experiment(
    "spark_join",
    Description(
        purpose="rows a second of the join against Spark's own stream-stream join in one run",
        seed=SEED,
        shape="2 cores, window and micro-batches of 1 million rows a side, RocksDB, noop sink; a band on int64 keys"
        " uniform in 2^31, for Spark by buckets; equal keys out of a million",
        expected="about one pair per row, the same for all; at least 25 times for the band, 15 times for equality",
    ),
    run,
)
