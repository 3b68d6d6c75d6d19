"""A model, not a measurement: handshake join in lock step, as on the paper's FPGA (appendix A, figure 13).

The model counts cycles; the formula of appendix A.5 must give the same. Clock frequencies are not modelled: the paper
measured them, and they, not the cycles, are why its throughput falls again beyond 100 cores.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from benchmarks.experiment import Context, DisagreementError, Experiment
from benchmarks.models.lock_step import LockStep, throughput
from benchmarks.report import Cell, Description, Figure, Panel, Result, Series, Table
from watersmeet.spec.expression import StreamName

__all__ = ["EXPERIMENT"]

WINDOW: Final = 1000
CORES: Final = (1, 2, 5, 10, 20, 50, 100, 150, 200)
CLOCK: Final = 100e6
ROWS: Final = 100


def run(context: Context) -> Result:
    """Let rows pass through full registers and count cycles."""
    window = context.size(WINDOW, 100)
    lines: list[tuple[Cell, ...]] = []
    modelled = []
    both: list[StreamName] = ["left", "right"]
    for cores in CORES:
        context.progress.step(f"{cores} cores")
        model = LockStep({"left": window, "right": window}, cores, lambda rows, _: np.zeros(len(rows), bool))
        model.run(both * window)
        filled = model.cycles
        model.run(both * ROWS)
        cycles = (model.cycles - filled) / (2 * ROWS)
        formula = throughput(window, window, cores, CLOCK)
        modelled.append(CLOCK / cycles)
        if abs(modelled[-1] / formula - 1) > 1e-9:  # noqa: PLR2004 -- rounding
            raise DisagreementError(
                f"{cores} cores: the model takes {cycles} cycles a row, the formula says {CLOCK / formula}"
            )
        lines.append((cores, cycles, modelled[-1], formula))
    return Result(
        tables=[
            Table(
                f"model: windows of {window:,} rows, a clock of {CLOCK / 1e6:.0f} MHz whatever the number of cores",
                ("cores", "cycles a row", "rows/s, counted", "rows/s, by the formula"),
                lines,
            )
        ],
        figures=[
            Figure(
                "lock_step",
                "Handshake join in lock step: a model",
                [
                    Panel(
                        "appendix A.5",
                        "cores",
                        "rows/s",
                        [Series("model", [float(cores) for cores in CORES], modelled)],
                    )
                ],
            )
        ],
        runs=[{"cores": cores, "rate": rate} for cores, rate in zip(CORES, modelled, strict=True)],
    )


EXPERIMENT: Final = Experiment(
    "lock_step",
    Description(
        purpose="a model of the paper's FPGA: cycles a row over cores",
        seed=0,
        shape="two count windows of 1,000 rows; no data, only cycles",
        expected="exactly the formula: clock over the rows of one core's segment",
    ),
    run,
)
