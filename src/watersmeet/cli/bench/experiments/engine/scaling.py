"""Rows a second over cores, nested loops on every core: windows by count, and by time, where theory is a square root.

With a fixed number of rows in the window twice the cores do twice the work. With a fixed time, twice the rate also
doubles the window, so the highest rate that keeps up grows with the square root of the cores (handshake join,
section 5, figure 8; SplitJoin, figures 12 and 16).

*Two threads, nothing shared* is what the machine itself gives: the same nested loop on as many threads, each with
data of its own. A machine whose cores share caches, memory or power stays below its number of cores there already.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Final

import numpy as np

from watersmeet.cli.bench.experiment import Context, Experiment
from watersmeet.cli.bench.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table
from watersmeet.cli.bench.rig import NESTED_LOOP_TOPOLOGIES, Rig, core_counts, highest_rate
from watersmeet.kernels.scan import nested_loop

__all__ = ["EXPERIMENT"]

SEED: Final = 60
WINDOW: Final = 1 << 19
ROWS: Final = 2048
BLOCK: Final = 512
SECONDS: Final = 60.0
TURNS: Final = 3
BISECTIONS: Final = 7
SHARED_NOTHING: Final = "threads, nothing shared"
TWO_CORES: Final = 1.8
SIXTEEN_CORES: Final = 10.0


def run(context: Context) -> Result:
    """Measure every topology on 1, 2, 4 ... cores, taking turns."""
    _threads_alone(1, 1024, 16)  # compiles
    counts = core_counts(os.cpu_count() or 1)
    window, rows = context.size(WINDOW, 1 << 13), context.size(ROWS, 256)
    rates: dict[str, dict[int, list[float]]] = {}
    for turn in range(context.size(TURNS, 1)):
        for cores in counts:
            context.progress.step(f"turn {turn + 1}: {cores} cores")
            rates.setdefault(SHARED_NOTHING, {}).setdefault(cores, []).append(_threads_alone(cores, window, rows))
            for topology in NESTED_LOOP_TOPOLOGIES:
                rig = Rig(topology, window, cores, BLOCK, SEED)
                rates.setdefault(topology, {}).setdefault(cores, []).append(rig.rate(rows, 2))
                rig.close()
    best = {name: {cores: float(np.median(some)) for cores, some in by.items()} for name, by in rates.items()}
    by_time = _by_time(context, counts)
    return _report(best, by_time, rates, window)


def _threads_alone(cores: int, window: int, rows: int) -> float:
    """Return how many probes a second threads can take that share nothing, all together against a whole window."""
    share, who = window // cores, np.arange(rows, dtype=np.int32)
    lo = np.random.default_rng(SEED).integers(1, 10_000, rows)
    keys = [np.random.default_rng((SEED, core)).integers(1, 10_000, share) + 10**6 for core in range(cores)]
    stored = np.arange(share, dtype=np.int32)
    threads = [threading.Thread(target=nested_loop, args=(key, stored, lo - 10, lo + 10, who)) for key in keys]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return rows / (time.perf_counter() - begin)


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


def _report(
    best: dict[str, dict[int, float]],
    by_time: dict[str, dict[int, float]],
    rates: dict[str, dict[int, list[float]]],
    window: int,
) -> Result:
    def lines(figures: dict[str, dict[int, float]]) -> list[tuple[Cell, ...]]:
        return [
            (name, cores, rate, rate / by[1], None if name == SHARED_NOTHING else rate / figures["splitjoin"][1])
            for name, by in figures.items()
            for cores, rate in by.items()
        ]

    columns = ("topology", "cores", "rows/s", "against its 1 core", "against splitjoin on 1")
    goals = [
        Goal(f"{name}: {cores} cores against 1", by[cores] / by[1], limit, at_least=True)
        for cores, limit, names in (
            (2, TWO_CORES, NESTED_LOOP_TOPOLOGIES),
            (16, SIXTEEN_CORES, ("splitjoin", "panjoin")),
        )
        for name, by in best.items()
        if name in names and cores in by
    ]
    return Result(
        tables=[
            Table(f"nested loops, window of {window:,} rows a side: rows/s of both streams", columns, lines(best)),
            Table(
                f"nested loops, window of {SECONDS:.0f} seconds: highest rate per stream that keeps up",
                columns,
                lines(by_time),
                "by bisection; theory: the square root of the cores",
            ),
        ],
        figures=[
            Figure(
                "scaling",
                "Nested loops over cores",
                [
                    _panel(f"count window, {window:,} rows a side", "rows/s", best),
                    _panel(f"time window, {SECONDS:.0f} s", "rows/s per stream", by_time),
                ],
            )
        ],
        goals=goals,
        notes=[f"{SHARED_NOTHING}: the compiled nested loop alone, which is what the machine gives"],
        runs=[
            {"what": name, "cores": cores, "rates": some} for name, by in rates.items() for cores, some in by.items()
        ],
    )


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
