"""What order costs: SplitJoin without stars, in outer order, and with ever more stars up to inner order (figure 19)."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Final

from benchmarks.experiment import Context, Experiment
from benchmarks.report import Cell, Description, Figure, Panel, Result, Series, Table
from benchmarks.rig import Rig
from watersmeet.engine.topologies.contract import Layout, Topology
from watersmeet.engine.topologies.splitjoin import Punctuation, SplitJoin

__all__ = ["EXPERIMENT"]

SEED: Final = 63
WINDOW: Final = 1 << 17
ROWS: Final = 4096
BLOCK: Final = 512
VALUES: Final = 1000
STARS: Final = (1 << 15, 1 << 12, 1 << 9, 1 << 6, 1 << 3, 1)
TURNS: Final = 3


def run(context: Context) -> Result:
    """Measure precision after precision."""
    cores = min(os.cpu_count() or 1, 16)
    window, rows = context.size(WINDOW, 1 << 12), context.size(ROWS, 256)
    builds: dict[str, Callable[[Layout], Topology] | None] = {"no stars": None, "outer order": SplitJoin}
    builds |= {
        f"a star every {stars:,} stored rows": partial(SplitJoin, punctuation=Punctuation(1, stars)) for stars in STARS
    }
    rates: dict[str, float] = {}
    for name, build in builds.items():
        context.progress.step(name)
        order = None if build is None else "outer"
        rig = Rig("splitjoin", window, cores, BLOCK, SEED, order=order, values=VALUES, build=build)  # type: ignore[arg-type] # one of two
        rates[name] = rig.rate(rows, context.size(TURNS, 1))
        rig.close()
    unordered = rates["no stars"]
    lines: list[tuple[Cell, ...]] = [(name, rate, rate / unordered) for name, rate in rates.items()]
    precisions = [rates[f"a star every {stars:,} stored rows"] for stars in STARS]
    return Result(
        tables=[
            Table(
                f"splitjoin on {cores} cores, nested loops, windows of {window:,} rows a side",
                ("precision", "rows/s", "against no stars"),
                lines,
            )
        ],
        figures=[
            Figure(
                "ordering",
                "What inner order costs",
                [
                    Panel(
                        f"splitjoin, {cores} cores",
                        "stored rows between two stars",
                        "rows/s",
                        [Series("splitjoin", [float(stars) for stars in STARS], precisions)],
                        y_log=False,
                    )
                ],
            )
        ],
        runs=[{"what": name, "rate": rate} for name, rate in rates.items()],
    )


EXPERIMENT: Final = Experiment(
    "ordering",
    Description(
        purpose="what outer and inner order cost SplitJoin",
        seed=SEED,
        shape="the papers' 2-D band, values to 1,000, windows of 128K rows a side, blocks of 512 rows",
        expected="outer order costs little; the finer the stars within a row's results, the more",
    ),
    run,
)
