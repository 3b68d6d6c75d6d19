"""The highest rate that keeps up, from 16 to 1,024 cores, on uniform keys.

The window grows with the rate and the keys with both, so that a row meets one partner on average at every size. As many
tasks route as there are cores, and each sends every core a message in every micro-batch: that part grows with the
square of the cores.
"""

from __future__ import annotations

from typing import Final

from benchmarks.experiment import Context, Experiment
from benchmarks.models.cluster import Cluster
from benchmarks.models.costs import Costs, measure_costs
from benchmarks.models.keys import Keys, Load
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table
from watersmeet.balance.balancer import Settings

__all__ = ["EXPERIMENT"]

SEED: Final = 81
CORES: Final = (16, 32, 64, 128, 256, 512, 1024)
WINDOW: Final = 5
SECONDS: Final = 10.0
STEPS: Final = 20
ROUNDS: Final = 4
LINEAR: Final = 0.85


def run(context: Context) -> Result:
    """Find the rate at which the busiest core is just busy, for every number of cores."""
    costs = measure_costs()
    rates: dict[str, dict[int, float]] = {"off": {}, "balanced": {}}
    for cores in CORES[: 3 if context.quick else None]:
        for way, settings in (("off", None), ("balanced", Settings(decluster=False))):
            context.progress.step(f"{cores} cores, {way}")
            rates[way][cores] = _highest_rate(costs, cores, settings)
    few, many = min(rates["off"]), max(rates["off"])
    rows: list[tuple[Cell, ...]] = [
        (way, cores, rate, rate / cores, rate / cores * few / by[few])
        for way, by in rates.items()
        for cores, rate in by.items()
    ]
    linear = rates["balanced"][many] * few / (many * rates["balanced"][few])
    panel = Panel(
        "uniform keys, one partner per row",
        "cores",
        "rows/s per stream",
        [Series(way, [float(cores) for cores in by], list(by.values())) for way, by in rates.items()],
    )
    return Result(
        tables=[
            Table(
                "highest rate that keeps up",
                ("way", "cores", "rows/s per stream", "per core", f"per core, against {few}"),
                rows,
            )
        ],
        figures=[Figure("growth", "Rate over cores", [panel])],
        notes=[
            "the model knows messages, skew between groups and copies of rows; it knows no network and no slow machines"
        ],
        goals=[Goal(f"rate per core, {many} cores against {few}", linear, LINEAR, at_least=True)],
        runs=[{"way": way, "cores": cores, "rate": rate} for way, by in rates.items() for cores, rate in by.items()],
    )


def _highest_rate(costs: Costs, cores: int, settings: Settings | None) -> float:
    rate = cores / (2 * (costs.probe + costs.store + costs.sent + costs.pair))
    for _ in range(ROUNDS):
        cluster = Cluster(
            cores, costs, WINDOW, seconds=SECONDS, epoch=WINDOW, settings=settings, senders=cores, seed=SEED
        )
        keys = Keys.uniform(rate * SECONDS * WINDOW, cluster.generations[0], SEED)
        last = [cluster.step(Load(rate, keys)) for _ in range(STEPS)][-WINDOW:]
        rate *= SECONDS / max(float(step.busy.max()) for step in last)
    return rate


EXPERIMENT: Final = Experiment(
    "growth",
    Description(
        purpose="the highest rate that keeps up, over cores",
        seed=SEED,
        shape="a model: uniform keys, as many as rows in the window; micro-batches of 10 seconds, window of 5 of them",
        expected="1,024 cores take at least 0.85 of 64 times what 16 take",
    ),
    run,
)
