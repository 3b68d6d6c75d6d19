"""What many matches cost: SplitJoin's nested loops with values from ever smaller ranges (figure 17)."""

from __future__ import annotations

import os
from typing import Final

from benchmarks.experiment import Context, Experiment
from benchmarks.report import Cell, Description, Figure, Panel, Result, Series, Table
from benchmarks.rig import Rig

__all__ = ["EXPERIMENT"]

SEED: Final = 64
WINDOW: Final = 1 << 17
ROWS: Final = 2048
BLOCK: Final = 512
VALUES: Final = (100_000, 10_000, 3_000, 1_000, 300)


def run(context: Context) -> Result:
    """Measure range after range."""
    cores = min(os.cpu_count() or 1, 16)
    window, rows = context.size(WINDOW, 1 << 12), context.size(ROWS, 128)
    lines: list[tuple[Cell, ...]] = []
    matches, rates = [], []
    for values in VALUES:
        context.progress.step(f"values to {values:,}")
        rig = Rig("splitjoin", window, cores, BLOCK, SEED, values=values)
        rig.feed(BLOCK)
        seconds, pairs = rig.feed(rows)
        rig.close()
        matches.append(max(pairs, 1) / (2 * rows))
        rates.append(2 * rows / seconds)
        lines.append((values, matches[-1], rates[-1], rates[-1] / rates[0]))
    return Result(
        tables=[
            Table(
                f"splitjoin on {cores} cores, nested loops, windows of {window:,} rows a side",
                ("values to", "matches per row", "rows/s", "against the fewest matches"),
                lines,
            )
        ],
        figures=[
            Figure(
                "selectivity",
                "What matches cost",
                [
                    Panel(
                        f"splitjoin, {cores} cores", "matches per row", "rows/s", [Series("splitjoin", matches, rates)]
                    )
                ],
            )
        ],
        runs=[{"values": values, "rate": rate} for values, rate in zip(VALUES, rates, strict=True)],
    )


EXPERIMENT: Final = Experiment(
    "selectivity",
    Description(
        purpose="what many matches cost SplitJoin",
        seed=SEED,
        shape="the papers' 2-D band, values to 100,000 down to 300, windows of 128K rows a side",
        expected="rates fall little until matches, not comparisons, are most of the work",
    ),
    run,
)
