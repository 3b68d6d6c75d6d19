"""PanJoin with BI-Sort on one core and on many, by the rows of a push; and what pushes of few rows take.

It is fed through ``StreamJoin.push``, windows full and rotating, pairs materialised. All joins stay open and take
turns, so that what the machine does meanwhile slows all of them.
"""

from __future__ import annotations

import os
from typing import Final

import numpy as np

from benchmarks.experiment import Context, Experiment, median
from benchmarks.feed import Feed
from benchmarks.report import Cell, Description, Goal, Result, Table
from benchmarks.rig import core_counts

__all__ = ["EXPERIMENT"]

SEED: Final = 67
WINDOW: Final = 8 << 20
BATCHES: Final = {1 << 20: 4, 1 << 18: 6, 1 << 15: 32, 1 << 12: 64}
"""Rows a side of a push, and pushes in a turn."""
TURNS: Final = 3
SMALL_WINDOW: Final = 1 << 20
SMALL: Final = {256: 0.25, 1: 0.15}
"""Rows a side of a small push, and the milliseconds that it may take."""
SMALL_PUSHES: Final = 2000
MEDIAN_TO_SLOW: Final = 3.0
GAINS: Final = {(2, 1 << 15): 1.8, (16, 1 << 15): 8.0, (16, 1 << 18): 10.0}
"""By cores and rows of a push: times the rate of one core."""
RATES: Final = {(16, 1 << 18): 50e6}
Rates = dict[int, dict[int, list[float]]]
"""Rows a second of every push, by rows of a push and cores."""


def run(context: Context) -> Result:
    """Fill all windows, then take turns, from large pushes to small ones."""
    counts = core_counts(os.cpu_count() or 1)
    window = context.size(WINDOW)
    batches = {batch: pushes for batch, pushes in BATCHES.items() if 8 * batch <= window}
    feeds = {cores: Feed(window, max(batches), SEED, topology="panjoin", cores=cores) for cores in counts}
    for feed in feeds.values():
        feed.prefill(context.progress.step)
    rates: Rates = {batch: {cores: [] for cores in counts} for batch in batches}
    for batch, pushes in batches.items():
        for feed in feeds.values():
            feed.cut_into(batch)
            feed.push()
        for turn in range(context.size(TURNS, 1)):
            for cores in sorted(feeds, reverse=turn % 2 == 1):
                context.progress.step(f"pushes of {batch:,} rows a side, turn {turn + 1}, {cores} core(s)")
                some = [2 * batch / seconds for seconds in feeds[cores].timed(pushes).each]
                rates[batch][cores] += some
                context.noted.append({"what": "pushes", "rows": batch, "cores": cores, "rows/s": some})
    for feed in feeds.values():
        feed.join.close()
    small, goals = _small_pushes(context)
    return Result(
        tables=[_table(rates, window), small],
        goals=[*_goals(rates), *goals],
        runs=[
            {"what": "pushes", "rows": batch, "cores": cores, "rows/s": some}
            for batch, by in rates.items()
            for cores, some in by.items()
        ],
    )


def _table(rates: Rates, window: int) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for batch, by in rates.items():
        one = median(by[1])
        lines += [(batch, cores, median(some), median(some) / one, 1e9 / median(some)) for cores, some in by.items()]
    return Table(
        f"panjoin with bi_sort, windows of {window:,} rows a side: rows/s of both streams",
        ("rows of a push, a side", "cores", "rows/s", "against 1 core", "ns a row"),
        lines,
        "medians of pushes",
    )


def _goals(rates: Rates) -> list[Goal]:
    """Return the goals for the pushes and cores that were measured."""
    goals = []
    for (cores, batch), least in GAINS.items():
        if cores in rates.get(batch, {}):
            gain = median(rates[batch][cores]) / median(rates[batch][1])
            goals.append(Goal(f"{cores} cores against 1, pushes of {batch:,} rows a side", gain, least, at_least=True))
    for (cores, batch), least in RATES.items():
        if cores in rates.get(batch, {}):
            rate = median(rates[batch][cores])
            goals.append(Goal(f"rows/s of {cores} cores, {batch:,} rows a side", rate, least, at_least=True))
    return goals


def _small_pushes(context: Context) -> tuple[Table, list[Goal]]:
    """Return what small pushes take on one core, and what they may take."""
    window = context.size(SMALL_WINDOW)
    feed = Feed(window, min(1 << 15, window // 8), SEED, topology="panjoin")
    feed.prefill(context.progress.step)
    lines: list[tuple[Cell, ...]] = []
    goals = []
    for batch, most in SMALL.items():
        feed.cut_into(batch)
        feed.timed(context.size(SMALL_PUSHES, 50) // 10)
        each = np.array(feed.timed(context.size(SMALL_PUSHES, 50)).each) * 1000
        half, slow = float(np.median(each)), float(np.quantile(each, 0.99))
        lines.append((batch, half, slow, float(each.max())))
        what = f"pushes of {batch} row(s) a side"
        goals.append(Goal(f"{what}: median, milliseconds", half, most, at_least=False))
        goals.append(Goal(f"{what}: 99th percentile against the median", slow / half, MEDIAN_TO_SLOW, at_least=False))
    feed.join.close()
    columns = ("rows of a push, a side", "median", "99th percentile", "slowest")
    return Table(f"pushes into windows of {window:,} rows a side, one core: milliseconds", columns, lines), goals


EXPERIMENT: Final = Experiment(
    "cores",
    Description(
        purpose="what cores gain, by the rows of a push, and what pushes of few rows cost",
        seed=SEED,
        shape="window 8M rows a side, pushes of 4K to 1M rows a side; int64 keys uniform in 2^31, a timestamp per"
        " microsecond, 8 bytes of payload, about one match per row; small pushes into 1M rows a side",
        expected="16 cores at least 8 times one at 32K rows and 10 times at 256K, 50 M rows/s there; 2 cores 1.8 times;"
        " 256 rows in 0.25 ms, one in 0.15 ms, the 99th percentile within three times that",
    ),
    run,
)
