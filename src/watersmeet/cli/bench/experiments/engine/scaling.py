"""Rows a second over cores, nested loops on every core: windows by count, and by time, where theory is a square root.

With a fixed number of rows in the window twice the cores do twice the work. With a fixed time, twice the rate also
doubles the window, so the highest rate that keeps up grows with the square root of the cores (handshake join,
section 5, figure 8; SplitJoin, figures 12 and 16).

*Threads, nothing shared* is what the machine itself gives: the same nested loop on as many threads, each with data of
its own. A machine whose cores share execution units, caches, memory or power stays below its number of cores there
already.

A machine's speed drifts. So all core counts of a topology are fed one right after the other, and the figure is the
median of the ratios of such turns.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from watersmeet.cli.bench.experiment import Context, Experiment, median
from watersmeet.cli.bench.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table
from watersmeet.cli.bench.rig import NESTED_LOOP_TOPOLOGIES, VALUES, Rig, core_counts, highest_rate
from watersmeet.kernels.scan import nested_loop

__all__ = ["EXPERIMENT"]

SEED: Final = 60
WINDOW: Final = 1 << 19
ROWS: Final = 2048
BLOCK: Final = 512
SECONDS: Final = 60.0
TURNS: Final = 7
BAND: Final = 10
BISECTIONS: Final = 7
SHARED_NOTHING: Final = "threads, nothing shared"
TWO_CORES: Final = 1.8
SIXTEEN_CORES: Final = 10.0
Seconds = dict[str, dict[int, list[float]]]
"""What every turn took, by name and cores."""


def run(context: Context) -> Result:
    """Measure every topology on 1, 2, 4 ... cores, taking turns."""
    counts = core_counts(os.cpu_count() or 1)
    window, rows = context.size(WINDOW, 1 << 13), context.size(ROWS, 256)
    context.progress.step(f"filling windows of {window:,} rows")
    rigs = {
        topology: {cores: Rig(topology, window, cores, BLOCK, SEED) for cores in counts}
        for topology in NESTED_LOOP_TOPOLOGIES
    }
    work: dict[str, dict[int, Callable[[], float]]] = {
        SHARED_NOTHING: {cores: _threads_alone(cores, window, rows) for cores in counts}
    }
    for topology, by in rigs.items():
        work[topology] = {cores: partial(_seconds, rig, rows) for cores, rig in by.items()}
    seconds = _in_turns(work, context)
    for rig in (rig for by in rigs.values() for rig in by.values()):
        rig.close()
    return _report(seconds, rows, _by_time(context, counts), window)


def _seconds(rig: Rig, rows: int) -> float:
    return rig.feed(rows)[0]


def _in_turns(work: dict[str, dict[int, Callable[[], float]]], context: Context) -> Seconds:
    """Return the seconds of every turn; the first, which is not among them, compiles and starts threads."""
    seconds: Seconds = {name: {cores: [] for cores in by} for name, by in work.items()}
    for turn in range(context.size(TURNS, 1) + 1):
        context.progress.step(f"turn {turn} of {context.size(TURNS, 1)}")
        for name, by in work.items():
            for cores in sorted(by, reverse=turn % 2 == 1):
                taken = by[cores]()
                if turn:
                    seconds[name][cores].append(taken)
    return seconds


def _threads_alone(cores: int, window: int, rows: int) -> Callable[[], float]:
    """Return what lets threads that share nothing probe a window, a part of it each, and tells the seconds."""
    share, who = window // cores, np.arange(rows, dtype=np.int32)
    probing = np.sort(np.random.default_rng(SEED).integers(1, VALUES, rows))  # as batches are
    keys = [np.random.default_rng((SEED, core)).integers(1, VALUES, share) for core in range(cores)]
    stored = np.arange(share, dtype=np.int32)

    def probe() -> float:
        arguments = [(key, stored, probing - BAND, probing + BAND, who) for key in keys]
        threads = [threading.Thread(target=nested_loop, args=some) for some in arguments]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - begin

    return probe


def _by_time(context: Context, counts: list[int]) -> dict[str, dict[int, float]]:
    """Return the highest rates per stream that keep up, for a window of a fixed time."""
    found: dict[str, dict[int, float]] = {}
    for topology in NESTED_LOOP_TOPOLOGIES:
        for cores in counts:
            context.progress.step(f"{topology}, time window, {cores} cores")

            def make(rate: float, topology: str = topology, cores: int = cores) -> Rig:
                apart = 1e6 / rate
                window = max(1024, int(rate * SECONDS))
                return Rig(topology, window, cores, 64, SEED, apart=apart)  # type: ignore[arg-type] # a name of one

            steps, high, seconds = (2, 2_000.0, 0.1) if context.quick else (BISECTIONS, 40_000.0, 1.0)
            found.setdefault(topology, {})[cores] = highest_rate(make, steps, 200.0, high, seconds)
    return found


def _report(seconds: Seconds, rows: int, by_time: dict[str, dict[int, float]], window: int) -> Result:
    rates = {name: {cores: 2 * rows / median(some) for cores, some in by.items()} for name, by in seconds.items()}
    growth = {name: {cores: _times_faster(by[1], some) for cores, some in by.items()} for name, by in seconds.items()}
    fixed_time = {name: {cores: rate / by[1] for cores, rate in by.items()} for name, by in by_time.items()}

    def lines(rates: dict[str, dict[int, float]], growth: dict[str, dict[int, float]]) -> list[tuple[Cell, ...]]:
        return [
            (name, cores, rates[name][cores], times, rates[name][cores] / rates["splitjoin"][1])
            for name, by in growth.items()
            for cores, times in by.items()
            if name != SHARED_NOTHING
        ]

    alone: list[tuple[Cell, ...]] = [
        (SHARED_NOTHING, cores, None, times, None) for cores, times in growth[SHARED_NOTHING].items()
    ]
    columns = ("topology", "cores", "rows/s", "against its 1 core", "against splitjoin on 1")
    goals = [
        Goal(f"{name}: {cores} cores against 1", by[cores], limit, at_least=True)
        for cores, limit, names in (
            (2, TWO_CORES, NESTED_LOOP_TOPOLOGIES),
            (16, SIXTEEN_CORES, ("splitjoin", "panjoin")),
        )
        for name, by in growth.items()
        if name in names and cores in by
    ]
    return Result(
        tables=[
            Table(
                f"nested loops, window of {window:,} rows a side: rows/s of both streams",
                columns,
                alone + lines(rates, growth),
                "medians of turns",
            ),
            Table(
                f"nested loops, window of {SECONDS:.0f} seconds: highest rate per stream that keeps up",
                columns,
                lines(by_time, fixed_time),
                "by bisection; theory: the square root of the cores",
            ),
        ],
        figures=[
            Figure(
                "scaling",
                "Nested loops over cores",
                [
                    _panel(f"count window, {window:,} rows a side", "rows/s", rates),
                    _panel(f"time window, {SECONDS:.0f} s", "rows/s per stream", by_time),
                ],
            )
        ],
        goals=goals,
        notes=[f"{SHARED_NOTHING}: the compiled nested loop alone, which is what the machine gives"],
        runs=[
            {"what": name, "cores": cores, "seconds": some}
            for name, by in seconds.items()
            for cores, some in by.items()
        ],
    )


def _times_faster(one: list[float], several: list[float]) -> float:
    return median([alone / together for alone, together in zip(one, several, strict=True)])


def _panel(title: str, label: str, figures: dict[str, dict[int, float]]) -> Panel:
    series = [
        Series(name, [float(cores) for cores in by], list(by.values()))
        for name, by in figures.items()
        if name != SHARED_NOTHING
    ]
    return Panel(title, "cores", label, series)


EXPERIMENT: Final = Experiment(
    "scaling",
    Description(
        purpose="rows a second of every topology with nested loops, over cores",
        seed=SEED,
        shape="R(x int, y float, z char[20]) and S(a int, b float, c double, d bool), 2-D band of 10, values to 10,000;"
        " window 512K rows a side by count, 60 seconds by time; blocks of 512 rows",
        expected="count windows: 2 cores at least 1.8 times, 16 cores at least 10 times one; time windows: square root",
    ),
    run,
)
