"""Rows a second over cores, nested loops on every core, for a window of a fixed number of rows.

Twice the cores do twice the work (SplitJoin, figure 16, whose largest windows these are: what a core does besides
comparing weighs the less, the more rows it holds). For windows of a fixed time see
:mod:`benchmarks.experiments.engine.time_windows`.

*Threads, nothing shared* is what the machine itself gives: the same nested loop on as many threads, each with data of
its own. A machine whose cores share execution units, caches, memory or power stays below its number of cores there
already.

A machine's speed drifts. So all core counts of a topology are fed one right after the other, and the figure is the
median of the ratios of such turns. Twice the cores get twice the rows in a push, so that every push takes about as
long: cores wait where a push begins and ends, which streams that never stop do not know.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from benchmarks.experiment import Context, Experiment, median, seconds_side_by_side
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table
from benchmarks.rig import NESTED_LOOP_TOPOLOGIES, VALUES, Rig, core_counts
from watersmeet.kernels.scan import nested_loop
from watersmeet.subwindow.contract import PAIRS_AT_ONCE

__all__ = ["EXPERIMENT", "RATE_COLUMNS", "Rates", "rate_lines", "rate_panel"]

SEED: Final = 60
WINDOW: Final = 1 << 21
ROWS_PER_CORE: Final = 1024
BLOCK: Final = 512
TURNS: Final = 5
BAND: Final = 10
SHARED_NOTHING: Final = "threads, nothing shared"
TWO_CORES: Final = 1.8
SIXTEEN_CORES: Final = 10.0
RATE_COLUMNS: Final = ("topology", "cores", "rows/s", "against its 1 core", "against splitjoin on 1")
Rates = dict[str, dict[int, float]]
"""Rates, or ratios of them, by name and cores."""
Work = Callable[[int], float]
"""Takes so many rows of each stream and returns the seconds."""
Seconds = dict[str, dict[int, list[float]]]
"""What a row took in every turn, by name and cores."""


def run(context: Context) -> Result:
    """Measure every topology on 1, 2, 4 ... cores, taking turns."""
    counts = core_counts(os.cpu_count() or 1)
    window, rows = context.size(WINDOW, 1 << 13), context.size(ROWS_PER_CORE, 256)
    context.progress.step(f"filling windows of {window:,} rows")
    rigs = {
        topology: {cores: Rig(topology, window, cores, BLOCK, SEED) for cores in counts}
        for topology in NESTED_LOOP_TOPOLOGIES
    }
    work: dict[str, dict[int, Work]] = {SHARED_NOTHING: {cores: _threads_alone(cores, window) for cores in counts}}
    for topology, by in rigs.items():
        work[topology] = {cores: partial(_seconds, rig) for cores, rig in by.items()}
    seconds = _in_turns(work, rows, context)
    for rig in (rig for by in rigs.values() for rig in by.values()):
        rig.close()
    return _report(seconds, window)


def _seconds(rig: Rig, rows: int) -> float:
    return rig.feed(rows)[0]


def _in_turns(work: dict[str, dict[int, Work]], rows_per_core: int, context: Context) -> Seconds:
    """Return the seconds per row of every turn; a block fed before the first compiles kernels and starts threads."""
    for some in (some for by in work.values() for some in by.values()):
        some(BLOCK)
    seconds: Seconds = {name: {cores: [] for cores in by} for name, by in work.items()}
    turns = context.size(TURNS, 1)
    for turn in range(turns):
        for name, by in work.items():
            context.progress.step(f"turn {turn + 1} of {turns}: {name}")
            for cores in sorted(by, reverse=turn % 2 == 1):
                rows = rows_per_core * cores
                seconds[name][cores].append(by[cores](rows) / (2 * rows))
    return seconds


def _threads_alone(cores: int, window: int) -> Work:
    """Return what lets threads that share nothing probe a window, a part of it each, and tells the seconds."""
    share = window // cores
    keys = [np.random.default_rng((SEED, core)).integers(1, VALUES, share) for core in range(cores)]
    stored = np.arange(share, dtype=np.int32)

    def probe(rows: int) -> float:
        probing = np.sort(np.random.default_rng(SEED).integers(1, VALUES, rows))  # as batches are
        who = np.arange(rows, dtype=np.int32)
        wanted = probing - BAND, probing + BAND, who
        return seconds_side_by_side([partial(nested_loop, key, stored, *wanted, 0, PAIRS_AT_ONCE) for key in keys])

    return probe


def _report(seconds: Seconds, window: int) -> Result:
    rates = {name: {cores: 1 / median(some) for cores, some in by.items()} for name, by in seconds.items()}
    growth = {name: {cores: _times_faster(by[1], some) for cores, some in by.items()} for name, by in seconds.items()}
    alone = growth.pop(SHARED_NOTHING)
    goals = [
        Goal(f"{name}: {cores} cores against 1", growth[name][cores], limit, at_least=True)
        for cores, limit, names in (
            (2, TWO_CORES, NESTED_LOOP_TOPOLOGIES),
            (16, SIXTEEN_CORES, ("splitjoin", "panjoin")),
        )
        for name in names
        if cores in growth[name]
    ]
    without_rates: list[tuple[Cell, ...]] = [
        (SHARED_NOTHING, cores, None, times, None) for cores, times in alone.items()
    ]
    del rates[SHARED_NOTHING]
    return Result(
        tables=[
            Table(
                f"nested loops, window of {window:,} rows a side: rows/s of both streams",
                RATE_COLUMNS,
                without_rates + rate_lines(rates, growth),
                "medians of turns",
            )
        ],
        figures=[
            Figure("scaling", "Nested loops over cores", [rate_panel(f"{window:,} rows a side", "rows/s", rates)])
        ],
        goals=goals,
        notes=[f"{SHARED_NOTHING}: the compiled nested loop alone, which is what the machine gives"],
        runs=[
            {"what": name, "cores": cores, "seconds_per_row": some}
            for name, by in seconds.items()
            for cores, some in by.items()
        ],
    )


def rate_lines(rates: Rates, growth: Rates) -> list[tuple[Cell, ...]]:
    """Return a table's lines: rates of topologies over cores, and how they compare."""
    return [
        (name, cores, rates[name][cores], times, rates[name][cores] / rates["splitjoin"][1])
        for name, by in growth.items()
        for cores, times in by.items()
    ]


def rate_panel(title: str, label: str, rates: Rates) -> Panel:
    """Return rates of topologies over cores as a picture."""
    series = [Series(name, [float(cores) for cores in by], list(by.values())) for name, by in rates.items()]
    return Panel(title, "cores", label, series)


def _times_faster(one: list[float], several: list[float]) -> float:
    return median([alone / together for alone, together in zip(one, several, strict=True)])


EXPERIMENT: Final = Experiment(
    "scaling",
    Description(
        purpose="rows a second of every topology with nested loops, over cores, windows by count",
        seed=SEED,
        shape="R(x int, y float, z char[20]) and S(a int, b float, c double, d bool), 2-D band of 10, values to 10,000;"
        " window 2M rows a side by count; pushes of 1,024 rows a side and core, blocks of 512 rows",
        expected="2 cores at least 1.8 times, 16 cores at least 10 times one",
    ),
    run,
)
