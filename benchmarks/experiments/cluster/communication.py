"""What sending rows costs: figures 11, 12 and 14 of the paper on shared-nothing clusters, and its master's buffer.

Figure 11: communication over the number of cores, each core's and all together, and with adaptive declustering, where
the balancer leaves cores out that it does not need. Figure 12: shortest, mean and longest time until a core has been
served, over the rate; the master serves one after the other. Figure 14: communication over the distribution epoch.

*Sub-groups* (section V-B): with ``n`` sub-groups of cores, each served in its own slot of the distribution epoch ``t``,
the master buffers at most ``r t / 2 (1 + 1/n)`` rows of a stream of rate ``r``. Here rows arrive at random and the
largest buffer of many epochs is counted. In the cluster itself they also shorten the line in which a core waits to be
served: shown are the time until a core has been served, the delay that follows, and the buffer.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from benchmarks.experiment import Context, Experiment
from benchmarks.models.cluster import Cluster, Step
from benchmarks.models.costs import Costs, measure_costs
from benchmarks.models.keys import Keys, Load, b_model
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table
from watersmeet.balance.balancer import Settings

__all__ = ["EXPERIMENT", "largest_buffer"]

SEED: Final = 83
B: Final = 0.7
LEVELS: Final = 20
CORES: Final = (2, 4, 8, 16, 32, 64)
FOUR: Final = 4
THREE: Final = 3
SECONDS: Final = 2.0
WINDOW: Final = 30
STEPS: Final = 120
RATE: Final = 20_000.0
RATES: Final = tuple(float(5_000 * 2**step) for step in range(7))
DISTRIBUTION_EPOCHS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
SUB_GROUPS: Final = (1, 2, 4, 8, 16, 32)
CLUSTER_OF_GROUPS: Final = 32
FAST: Final = 640_000.0
"""A rate at which it matters when a core is served."""
SLOTS: Final = 64
"""Moments per distribution epoch at which the master's buffer is looked at; all numbers of sub-groups divide it."""
NEAR: Final = 1.05


def run(context: Context) -> Result:
    """Run the model over cores, rates and epochs, and the master's buffer over sub-groups."""
    costs = measure_costs()
    levels = context.size(LEVELS, 14)
    context.progress.step("over cores")
    fixed = {cores: _run(costs, cores, RATE, levels) for cores in CORES}
    adaptive = {cores: _run(costs, cores, RATE, levels, decluster=True) for cores in CORES}
    context.progress.step("over rates")
    by_rate = {rate: _run(costs, FOUR, rate, levels) for rate in RATES}
    context.progress.step("over distribution epochs")
    by_epoch = {seconds: _run(costs, THREE, RATE, levels, seconds=seconds) for seconds in DISTRIBUTION_EPOCHS}
    context.progress.step("sub-groups")
    buffers = {groups: largest_buffer(RATE, SECONDS, groups, SEED) for groups in SUB_GROUPS}
    grouped = {groups: _run(costs, CLUSTER_OF_GROUPS, FAST, levels, sub_groups=groups) for groups in SUB_GROUPS}
    result = _report(fixed, adaptive, by_rate, by_epoch, buffers)
    result.tables.append(_of_sub_groups(grouped))
    result.runs += [{"sub_groups": n, "cores": CLUSTER_OF_GROUPS, **_figures(steps)} for n, steps in grouped.items()]
    return result


def _of_sub_groups(grouped: dict[int, list[Step]]) -> Table:
    one = _figures(grouped[1])
    return Table(
        f"sub-groups of {CLUSTER_OF_GROUPS} cores, {FAST:,.0f} rows/s per stream",
        ("sub-groups", "until served, mean (s)", "mean delay (s)", "idle (s per s)", "buffer, to one group"),
        [
            (n, its["served"], its["delay"], its["idle"], its["buffered"] / one["buffered"])
            for n, its in ((n, _figures(steps)) for n, steps in grouped.items())
        ],
    )


def _figures(steps: list[Step]) -> dict[str, float]:
    """Return the means over some micro-batches."""
    return {
        "served": float(np.mean([step.served.mean() for step in steps])),
        "delay": float(np.mean([step.delay for step in steps])),
        "idle": float(np.mean([step.idle.mean() for step in steps])) / SECONDS,
        "buffered": float(np.mean([step.buffered for step in steps])),
    }


def largest_buffer(rate: float, seconds: float, sub_groups: int, seed: int, epochs: int = 20) -> int:
    """Return the most rows that a master buffers whose cores are served by sub-groups, each in its own slot."""
    random = np.random.default_rng(seed)
    waiting = np.zeros(sub_groups, np.int64)
    largest = 0
    for moment in range(epochs * SLOTS):
        waiting += random.poisson(rate * seconds / SLOTS / sub_groups, sub_groups)
        largest = max(largest, int(waiting.sum()))
        if (moment + 1) % (SLOTS // sub_groups) == 0:
            waiting[(moment + 1) // (SLOTS // sub_groups) % sub_groups] = 0
    return largest


def _run(
    costs: Costs,
    cores: int,
    rate: float,
    levels: int,
    *,
    seconds: float = SECONDS,
    decluster: bool = False,
    sub_groups: int = 1,
) -> list[Step]:
    """Return the last window of a run."""
    window = round(WINDOW * SECONDS / seconds)
    cluster = Cluster(
        cores,
        costs,
        window,
        seconds=seconds,
        epoch=window // 3,
        settings=Settings(decluster=decluster),
        sub_groups=sub_groups,
        seed=SEED,
    )
    keys = Keys.of(b_model(B, levels), cluster.generations[0])
    return [cluster.step(Load(rate, keys)) for _ in range(round(STEPS * SECONDS / seconds))][-window:]


def _per_second(steps: list[Step], seconds: float = SECONDS) -> float:
    """Return the seconds of communication of all cores together, per second."""
    return float(np.mean([step.communication.sum() for step in steps])) / seconds


def _served(steps: list[Step]) -> tuple[float, float, float]:
    """Return the shortest, mean and longest time until a core has been served."""
    times = [np.cumsum(step.communication) for step in steps]
    return tuple(float(np.mean([of(some) for some in times])) for of in (np.min, np.mean, np.max))  # type: ignore[return-value]


def _active(steps: list[Step]) -> int:
    return len(steps[-1].active)


def _report(
    fixed: dict[int, list[Step]],
    adaptive: dict[int, list[Step]],
    by_rate: dict[float, list[Step]],
    by_epoch: dict[float, list[Step]],
    buffers: dict[int, int],
) -> Result:
    formula = {groups: RATE * SECONDS / 2 * (1 + 1 / groups) for groups in buffers}
    over_cores: list[tuple[Cell, ...]] = [
        (n, _per_second(fixed[n]) / n, _per_second(fixed[n]), _active(adaptive[n]), _per_second(adaptive[n]))
        for n in fixed
    ]
    cores = [float(n) for n in fixed]
    rates, epochs = list(by_rate), list(by_epoch)
    overhead = [_per_second(steps, seconds) for seconds, steps in by_epoch.items()]
    figure = Figure(
        "communication",
        "Communication (the paper's figures 11, 12 and 14) and the master's buffer",
        [
            Panel(
                f"over cores, {RATE:,.0f} rows/s per stream",
                "cores",
                "seconds per second",
                [
                    Series("one core", cores, [_per_second(steps) / n for n, steps in fixed.items()]),
                    Series("all cores", cores, [_per_second(steps) for steps in fixed.values()]),
                    Series("all, adaptive", cores, [_per_second(steps) for steps in adaptive.values()]),
                ],
            ),
            Panel(
                "until served, 4 cores",
                "rows/s per stream",
                "seconds",
                [
                    Series(name, rates, [_served(steps)[at] for steps in by_rate.values()])
                    for at, name in enumerate(("shortest", "mean", "longest"))
                ],
            ),
            Panel("3 cores", "distribution epoch (s)", "communication, s per s", [Series("all", epochs, overhead)]),
            Panel(
                "master's buffer",
                "sub-groups",
                "rows",
                [
                    Series("counted", [float(n) for n in buffers], [float(rows) for rows in buffers.values()]),
                    Series("formula", [float(n) for n in formula], list(formula.values())),
                ],
                y_log=False,
            ),
        ],
    )
    farthest = max(max(rows / formula[n], formula[n] / rows) for n, rows in buffers.items())
    return Result(
        tables=[
            Table(
                f"communication per second, {RATE:,.0f} rows/s per stream",
                ("cores", "one core", "all cores", "active, adaptive", "all, adaptive"),
                over_cores,
            ),
            Table(
                "until served, 4 cores (s)",
                ("rows/s per stream", "shortest", "mean", "longest"),
                [(rate, *_served(steps)) for rate, steps in by_rate.items()],
            ),
            Table(
                f"{THREE} cores, all together",
                ("distribution epoch (s)", "communication per second"),
                list(zip(epochs, overhead, strict=True)),
            ),
            Table(
                "largest buffer of the master, rows of one stream",
                ("sub-groups", "counted", "formula", "counted over formula"),
                [(n, rows, formula[n], rows / formula[n]) for n, rows in buffers.items()],
            ),
        ],
        figures=[figure],
        goals=[Goal("master's buffer: farthest from the formula", farthest, NEAR, at_least=False)],
        runs=[{"sub_groups": n, "rows": rows, "formula": formula[n]} for n, rows in buffers.items()],
    )


EXPERIMENT: Final = Experiment(
    "communication",
    Description(
        purpose="what sending rows to the cores costs, and what the master has to buffer",
        seed=SEED,
        shape="a model: 1M keys by the b-model with b = 0.7; cost of a message and of a row in it measured",
        expected="adaptive declustering saves most of the communication; the buffer is the formula's",
    ),
    run,
)
