"""Against Spark's own stream-stream join, in its default state format (2) and its newest (4), all on RocksDB.

Spark's join takes a band only by hand: values are cut into buckets, the right rows are copied into each bucket that
their band touches, and the join is one on equal buckets. It is so slow that it gets few micro-batches: the first two
fill the window and let rows grow old, the third has all the work of a steady state, insertion and eviction, and is
measured. Ours goes on for several. One query runs at a time; a ratio this large needs no turns.
"""

from __future__ import annotations

from typing import Final

from watersmeet.cli.bench.contestant import (
    Arena,
    Condition,
    ContestantName,
    MicroBatch,
    median_rate,
    median_seconds,
)
from watersmeet.cli.bench.experiment import Context, DisagreementError, Experiment
from watersmeet.cli.bench.feed import KEY_RANGE
from watersmeet.cli.bench.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table

__all__ = ["EXPERIMENT"]

SEED: Final = 81
WINDOW: Final = 1_000_000
BATCH: Final = 1_000_000
FILLING: Final = 2
MEASURED: Final[dict[ContestantName, int]] = {"ours": 6, "Spark, format 2": 1, "Spark, format 4": 1}
GOALS: Final[dict[Condition, float]] = {"band": 25.0, "equality": 15.0}


def run(context: Context) -> Result:
    """Run all queries, one after the other, over the same rows."""
    window, batch = context.size(WINDOW), context.size(BATCH)
    result = Result()
    panels = []
    for condition, least in GOALS.items():
        taken = {
            name: _run_one(context, name, condition, window=window, batch=batch, batches=FILLING + measured)
            for name, measured in MEASURED.items()
        }
        _check(condition, taken)
        steady = {name: batches[FILLING:] for name, batches in taken.items()}
        rates = {name: median_rate(batches) for name, batches in steady.items()}
        result.tables.append(_table(condition, steady, rates, f"window and micro-batches of {batch:,} rows a side"))
        bars = [Series(name, [0.0], [rate]) for name, rate in rates.items()]
        panels.append(Panel(f"{condition} and time", "", "rows/s", bars, bars=True))
        best = max(rate for name, rate in rates.items() if name != "ours")
        result.goals.append(
            Goal(
                f"{condition} and time, ours against Spark's better format", rates["ours"] / best, least, at_least=True
            )
        )
        result.runs += [
            {"what": name, "condition": condition, **one} for name, batches in taken.items() for one in batches
        ]
    result.figures.append(Figure("spark_join", "Ours and Spark's own stream-stream join", panels))
    return result


def _run_one(
    context: Context, name: ContestantName, condition: Condition, *, window: int, batch: int, batches: int
) -> list[MicroBatch]:
    """Run one query alone, on a machine that holds nothing of the others."""
    key_range = window if condition == "equality" else KEY_RANGE  # about one match per row either way
    with Arena.open(context, seed=SEED, key_range=key_range) as arena:
        return arena.enter(name, window, condition=condition).turn(batches, batch)


def _check(condition: Condition, taken: dict[ContestantName, list[MicroBatch]]) -> None:
    """Raise unless all found the same number of pairs in each micro-batch that all took."""
    for number, batches in enumerate(zip(*taken.values(), strict=False)):
        pairs = {name: one["pairs"] for name, one in zip(taken, batches, strict=True)}
        if len(set(pairs.values())) > 1:
            raise DisagreementError(f"{condition}: the numbers of pairs of micro-batch {number} differ: {pairs}")


def _table(
    condition: Condition, steady: dict[ContestantName, list[MicroBatch]], rates: dict[ContestantName, float], sizes: str
) -> Table:
    lines: list[tuple[Cell, ...]] = [
        (name, rates[name], rates["ours"] / rates[name], median_seconds(batches), len(batches), batches[0]["pairs"])
        for name, batches in steady.items()
    ]
    return Table(
        f"{condition} and time, rows/s on 2 cores, {sizes}",
        ("query", "rows/s", "ours is faster by", "s a micro-batch", "micro-batches", "pairs of the first"),
        lines,
        "medians; the numbers of pairs agree in each micro-batch that all took",
    )


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
