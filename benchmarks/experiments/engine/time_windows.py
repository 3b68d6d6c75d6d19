"""The highest rate that keeps up over cores, nested loops on every core, for a window of a fixed time.

Twice the rate also doubles the rows in the window, so theory is the square root of the cores (handshake join, section
5, figure 8; SplitJoin, figure 12). Windows of a fixed number of rows are another curve, see
:mod:`benchmarks.experiments.engine.scaling`.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Final

from benchmarks.experiment import Context, Experiment
from benchmarks.experiments.engine.scaling import RATE_COLUMNS, Rates, rate_lines, rate_panel
from benchmarks.report import Description, Figure, Result, Table
from benchmarks.rig import NESTED_LOOP_TOPOLOGIES, Rig, core_counts, highest_rate
from watersmeet.spec.options import TopologyName

__all__ = ["EXPERIMENT"]

SEED: Final = 67
SECONDS: Final = 60.0
BLOCK: Final = 64
BISECTIONS: Final = 7
LOWEST: Final = 200.0
HIGHEST: Final = 40_000.0
PAPER: Final = "figure 8: handshake join follows the square root very closely up to 32 cores, a ratio of about 1"


def run(context: Context) -> Result:
    """Find every topology's highest rate per stream on 1, 2, 4 ... cores."""
    rates: Rates = {}
    steps, highest, seconds = (2, 2_000.0, 0.1) if context.quick else (BISECTIONS, HIGHEST, 1.0)
    for topology in NESTED_LOOP_TOPOLOGIES:
        for cores in core_counts(os.cpu_count() or 1):
            context.progress.step(f"{topology}, {cores} cores")
            found = highest_rate(partial(_rig, topology, cores), steps, LOWEST, highest, seconds)
            rates.setdefault(topology, {})[cores] = found
    growth = {name: {cores: rate / by[1] for cores, rate in by.items()} for name, by in rates.items()}
    alone = rates["handshake"][1]
    ideal = {cores: alone * cores**0.5 for cores in rates["handshake"]}
    own = rates["handshake"].items()
    title = f"nested loops, window of {SECONDS:.0f} seconds: highest rate per stream that keeps up"
    return Result(
        tables=[
            Table(title, RATE_COLUMNS, rate_lines(rates, growth), "by bisection; theory: the square root of the cores")
        ],
        figures=[
            Figure(
                "time_windows",
                "Nested loops over cores, windows by time",
                [rate_panel(f"{SECONDS:.0f} seconds", "rows/s per stream", {**rates, "handshake, ideal": ideal})],
            )
        ],
        notes=[f"{PAPER}; here: {', '.join(f'{cores}: {rate / ideal[cores]:.2f}' for cores, rate in own)}"],
        runs=[
            {"what": name, "cores": cores, "rows_per_second": rate}
            for name, by in rates.items()
            for cores, rate in by.items()
        ],
    )


def _rig(topology: TopologyName, cores: int, rate: float) -> Rig:
    window = max(1024, int(rate * SECONDS))
    return Rig(topology, window, cores, BLOCK, SEED, apart=1e6 / rate)


EXPERIMENT: Final = Experiment(
    "time_windows",
    Description(
        purpose="highest rate of every topology with nested loops, over cores, windows by time",
        seed=SEED,
        shape="R(x int, y float, z char[20]) and S(a int, b float, c double, d bool), 2-D band of 10, values to 10,000;"
        " window 60 seconds; blocks of 64 rows",
        expected="the square root of the cores",
    ),
    run,
)
