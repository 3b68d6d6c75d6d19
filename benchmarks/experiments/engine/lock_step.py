"""A model, not a measurement: handshake join in lock step, as on the paper's FPGA (figures 10 and 13).

Figure 13: windows of a fixed size, more cores, and the cycles that a row takes. Figure 10: segments of a fixed size,
eight rows, so that windows grow with the cores: then a row takes as many cycles on any number of them, and what the
paper measures is that the clock hardly falls. The model counts cycles; the formula of appendix A.5 must give the same.
Clock frequencies are not modelled: the paper measured them, and they, not the cycles, are why its throughput falls
again beyond 100 cores.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from benchmarks.experiment import Context, DisagreementError, Experiment
from benchmarks.models.lock_step import LockStep, throughput
from benchmarks.report import Description, Figure, Panel, Result, Series, Table
from watersmeet.spec.expression import StreamName

__all__ = ["EXPERIMENT"]

WINDOW: Final = 1000
CORES: Final = (1, 2, 5, 10, 20, 50, 100, 150, 200)
CLOCK: Final = 100e6
ROWS: Final = 100
SEGMENT: Final = 8


def run(context: Context) -> Result:
    """Let rows pass through full registers and count cycles."""
    window = context.size(WINDOW, 100)
    lines = [_line(window, cores, context) for cores in CORES]
    of_segments = [_line(SEGMENT * cores, cores, context) for cores in CORES[: context.size(len(CORES), 5)]]
    if len({cycles for _, cycles, *_ in of_segments}) > 1:
        raise DisagreementError("a row takes more cycles on more cores, although segments are equally long")
    modelled = [rate for *_, rate, _ in lines]
    return Result(
        tables=[
            Table(
                f"model: windows of {window:,} rows, a clock of {CLOCK / 1e6:.0f} MHz whatever the number of cores",
                ("cores", "cycles a row", "rows/s, counted", "rows/s, by the formula"),
                list(lines),
            ),
            Table(
                f"model: segments of {SEGMENT} rows on every core, so windows of {SEGMENT} rows times the cores",
                ("cores", "cycles a row", "rows/s, counted", "rows/s, by the formula"),
                list(of_segments),
            ),
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
                        [Series("figure 13: 1,000 rows", [float(cores) for cores in CORES], modelled)],
                    ),
                    Panel(
                        f"segments of {SEGMENT} rows",
                        "cores",
                        "rows/s",
                        [
                            Series(
                                f"figure 10: {SEGMENT} rows a core",
                                [float(cores) for cores, *_ in of_segments],
                                [rate for *_, rate, _ in of_segments],
                            )
                        ],
                    ),
                ],
            )
        ],
        notes=[
            "figure 10: the clock largely stays up to 96% of the chip; at a fixed clock the model's rate is constant",
            "figure 13: highest at 100 cores of ten rows, as the clock falls beyond; the model's goes on growing",
        ],
        runs=[{"cores": cores, "rate": rate} for cores, rate in zip(CORES, modelled, strict=True)],
    )


def _line(window: int, cores: int, context: Context) -> tuple[int, float, float, float]:
    """Return cores, cycles a row, and the rate by the model and by the formula."""
    context.progress.step(f"windows of {window:,} rows, {cores} cores")
    both: list[StreamName] = ["left", "right"]
    model = LockStep({"left": window, "right": window}, cores, lambda rows, _: np.zeros(len(rows), bool))
    model.run(both * window)
    filled = model.cycles
    model.run(both * ROWS)
    cycles = (model.cycles - filled) / (2 * ROWS)
    formula = throughput(window, window, cores, CLOCK)
    if abs(CLOCK / cycles / formula - 1) > 1e-9:  # noqa: PLR2004 -- rounding
        raise DisagreementError(f"{cores} cores: {cycles} cycles a row in the model, {CLOCK / formula} by the formula")
    return cores, cycles, CLOCK / cycles, formula


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
