"""Production delay, processor and idle time: figures 5 to 10 and 13 of the paper on shared-nothing clusters, modelled.

Figures 5 and 6: mean production delay over the rate, for several numbers of cores; it rises sharply where the cores no
longer keep up. Figures 7 and 8: processor time and delay with and without *fine tuning*. The paper keeps partitions
small by extendible hashing; so does our structure ``hash``, and without it a row is compared with all stored rows of
its group. Figures 9 and 10: idle time and communication without and with it. Figure 13: delay over the length of the
distribution epoch.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from benchmarks.experiment import Context, Experiment
from benchmarks.models.cluster import Cluster, Step
from benchmarks.models.costs import Costs, measure_costs
from benchmarks.models.keys import Keys, Load, b_model
from benchmarks.report import Cell, Description, Figure, Panel, Result, Series, Table
from watersmeet.balance.balancer import Settings

__all__ = ["EXPERIMENT"]

SEED: Final = 82
B: Final = 0.7
"""The paper's skew."""
LEVELS: Final = 20
CORES: Final = (1, 2, 4, 8, 16)
FOUR: Final = 4
THREE: Final = 3
EPOCH_SECONDS: Final = 2.0
WINDOW_SECONDS: Final = 60.0
STEPS: Final = 90
RATES: Final = tuple(float(round(8e3 * 2 ** (step / 2))) for step in range(13))
DISTRIBUTION_EPOCHS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)


def run(context: Context) -> Result:
    """Run the model over rates, cores and distribution epochs."""
    costs = measure_costs()
    steps, levels = context.size(STEPS, 40), context.size(LEVELS, 14)
    by_cores = {}
    for cores in CORES:
        context.progress.step(f"{cores} cores")
        by_cores[cores] = [_run(costs, cores, rate, levels, steps=steps) for rate in RATES]
    context.progress.step("without fine tuning")
    compared = [_run(costs, FOUR, rate, levels, steps=steps, indexed=False) for rate in RATES]
    context.progress.step("distribution epochs")
    rate = RATES[len(RATES) // 2]
    by_epoch = {
        seconds: _run(costs, THREE, rate, levels, steps=int(steps * EPOCH_SECONDS / seconds), seconds=seconds)
        for seconds in DISTRIBUTION_EPOCHS
    }
    return _report(by_cores, compared, by_epoch, rate)


def _run(
    costs: Costs,
    cores: int,
    rate: float,
    levels: int,
    *,
    steps: int,
    seconds: float = EPOCH_SECONDS,
    indexed: bool = True,
) -> list[Step]:
    """Return the second half of a run: the window is full by then."""
    window = round(WINDOW_SECONDS / seconds)
    settings = Settings(decluster=False)
    cluster = Cluster(
        cores, costs, window, seconds=seconds, epoch=window // 3, settings=settings, indexed=indexed, seed=SEED
    )
    keys = Keys.of(b_model(B, levels), cluster.generations[0])
    return [cluster.step(Load(rate, keys)) for _ in range(steps)][steps // 2 :]


def _delay(steps: list[Step]) -> float:
    return float(np.mean([step.delay for step in steps]))


def _processor_time(steps: list[Step]) -> float:
    """Return seconds of work per second, of a core on average."""
    return float(np.mean([step.busy.mean() for step in steps]) / EPOCH_SECONDS)


def _idle_time(steps: list[Step]) -> float:
    """Return the seconds per second in which a core has nothing to do, on average."""
    return float(np.mean([step.idle.mean() for step in steps]) / EPOCH_SECONDS)


def _communication(steps: list[Step]) -> float:
    """Return the seconds per second that a core spends receiving, on average."""
    return float(np.mean([step.communication.mean() for step in steps]) / EPOCH_SECONDS)


def _report(
    by_cores: dict[int, list[list[Step]]], compared: list[list[Step]], by_epoch: dict[float, list[Step]], rate: float
) -> Result:
    rates = list(RATES)
    tuned = by_cores[FOUR]
    rows: list[tuple[Cell, ...]] = [
        (at, *(_delay(by_cores[cores][i]) for cores in CORES), _delay(compared[i])) for i, at in enumerate(rates)
    ]
    figures = [
        Figure(
            "delay",
            "Production delay over the rate (the paper's figures 5, 6 and 8)",
            [
                Panel(
                    "over cores",
                    "rows/s per stream",
                    "mean delay (s)",
                    [Series(f"{n} cores", rates, [_delay(steps) for steps in some]) for n, some in by_cores.items()],
                ),
                Panel(
                    "fine tuning, 4 cores",
                    "rows/s per stream",
                    "mean delay (s)",
                    [
                        Series("with", rates, [_delay(steps) for steps in tuned]),
                        Series("without", rates, [_delay(steps) for steps in compared]),
                    ],
                ),
            ],
        ),
        Figure(
            "processor_time",
            "Processor time over the rate, 4 cores (figure 7)",
            [
                Panel(
                    "fine tuning",
                    "rows/s per stream",
                    "seconds of work per second and core",
                    [
                        Series("with", rates, [_processor_time(steps) for steps in tuned]),
                        Series("without", rates, [_processor_time(steps) for steps in compared]),
                    ],
                )
            ],
        ),
        Figure(
            "idle_time",
            "Idle time and communication over the rate, 4 cores (figures 9 and 10)",
            [
                Panel(
                    f"{name} fine tuning",
                    "rows/s per stream",
                    "seconds per second and core",
                    [
                        Series("idle", rates, [_idle_time(steps) for steps in some]),
                        Series("communication", rates, [_communication(steps) for steps in some]),
                    ],
                    y_log=False,
                )
                for name, some in (("without", compared), ("with", tuned))
            ],
        ),
        Figure(
            "delay_epoch",
            "Production delay over the distribution epoch, 3 cores (figure 13)",
            [
                Panel(
                    f"{rate:,.0f} rows/s per stream",
                    "distribution epoch (s)",
                    "mean delay (s)",
                    [Series("delay", list(by_epoch), [_delay(steps) for steps in by_epoch.values()])],
                    x_log=False,
                    y_log=False,
                )
            ],
        ),
    ]
    epochs: list[tuple[Cell, ...]] = [(seconds, _delay(steps)) for seconds, steps in by_epoch.items()]
    return Result(
        tables=[
            Table(
                f"mean production delay (s), b = {B}, distribution epoch of {EPOCH_SECONDS:g} s",
                ("rows/s per stream", *(f"{cores} cores" for cores in CORES), "4, without fine tuning"),
                rows,
            ),
            Table(
                f"{FOUR} cores, seconds per second and core",
                ("rows/s per stream", "idle", "idle, without fine tuning", "communication"),
                [
                    (at, _idle_time(tuned[i]), _idle_time(compared[i]), _communication(tuned[i]))
                    for i, at in enumerate(rates)
                ],
            ),
            Table(f"{THREE} cores, {rate:,.0f} rows/s per stream", ("distribution epoch (s)", "delay (s)"), epochs),
        ],
        figures=figures,
        notes=["a delay beyond the run's length means that the cores do not keep up: it grows for as long as they run"],
        runs=[
            {"cores": cores, "rate": at, "delay": _delay(steps), "processor_time": _processor_time(steps)}
            for cores, some in by_cores.items()
            for at, steps in zip(rates, some, strict=True)
        ],
    )


EXPERIMENT: Final = Experiment(
    "delay",
    Description(
        purpose="production delay, processor and idle time over rate, cores, fine tuning and distribution epoch",
        seed=SEED,
        shape="a model: 1M keys by the b-model with b = 0.7, window of 60 s, one master that serves the cores in turn",
        expected="flat delay until the cores no longer keep up, which more cores and fine tuning put off",
    ),
    run,
)
