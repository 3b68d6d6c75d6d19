"""How evenly cores are loaded while keys are skewed, drift all at once, and an executor is lost.

Three clusters get the same rows: one that never changes its routing table, one that follows the paper to the letter
(every supplier yields one group per epoch, no group is cut), and ours. No stored row ever moves, so load follows a
decision within a window; an epoch here is as long as the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.experiment import Context, Experiment
from benchmarks.models.cluster import Cluster, Step
from benchmarks.models.costs import Costs, measure_costs
from benchmarks.models.keys import Keys, Load, b_model, rate_for
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table
from watersmeet.arrays import Float64s
from watersmeet.balance.balancer import Settings

__all__ = ["EXPERIMENT"]

SEED: Final = 80
CORES: Final = 64
LEVELS: Final = 22
EPOCH: Final = 10
"""Micro-batches in a reorganisation epoch, and in a window."""
EVENTS: Final = {"start": 0, "drift": 4 * EPOCH, "lost executor": 8 * EPOCH}
END: Final = 12 * EPOCH
WANTED_SPREAD: Final = 1.2
WANTED_EPOCHS: Final = 3.0
OCCUPANCY: Final = 0.5
OURS: Final = "balanced"
WAYS: Final = {
    "off": None,
    "one group per supplier": Settings(moves=1, cut=False, decluster=False),
    OURS: Settings(decluster=False),
}
LOADS: Final = {"b = 0.5": 0.5, "b = 0.6": 0.6, "b = 0.7": 0.7, "b = 0.8": 0.8, "b = 0.9": 0.9, "one hot key": None}


@dataclass(frozen=True)
class _Course:
    steps: list[Step]
    rate: float

    def spread(self) -> Float64s:
        return np.array([step.spread for step in self.steps])

    def epochs_to_settle(self, event: str) -> float:
        """Return after how many epochs the spread stays within what is wanted, until the next event."""
        begin = EVENTS[event]
        end = min([at for at in EVENTS.values() if at > begin], default=END)
        above = np.flatnonzero(self.spread()[begin:end] > WANTED_SPREAD)
        return float(above[-1] + 1) / EPOCH if len(above) else 0.0

    def copies(self) -> float:
        """Return how often a row is sent, on average, in the last epoch before the end."""
        return sum(step.rows_sent for step in self.steps[-EPOCH:]) / (EPOCH * 2 * self.rate)


def run(context: Context) -> Result:
    """Let every way run through the same events, for every load."""
    costs = measure_costs()
    courses: dict[tuple[str, str], _Course] = {}
    for load, b in LOADS.items():
        for way, settings in WAYS.items():
            context.progress.step(f"{load}, {way}")
            courses[load, way] = _run_course(costs, _probabilities(b, context.size(LEVELS, 14)), settings)
    return _report(courses)


def _probabilities(b: float | None, levels: int) -> Float64s:
    """Return the b-model's probabilities, or those of uniform keys with one that has half of all rows."""
    if b is not None:
        return b_model(b, levels)
    keys = np.full(1 << levels, 0.5 / (1 << levels))
    keys[0] += 0.5
    return keys


def _run_course(costs: Costs, probabilities: Float64s, settings: Settings | None) -> _Course:
    first = Cluster(CORES, costs, EPOCH, seed=SEED)
    keys = Keys.of(probabilities, first.generations[0])
    drifted = keys.drifted(12_345)
    rate = rate_for(costs, keys, EPOCH, OCCUPANCY * CORES)
    cluster = Cluster(CORES, costs, EPOCH, epoch=EPOCH, settings=settings, seed=SEED)
    steps = []
    for at in range(END):
        if at == EVENTS["lost executor"]:
            cluster.lose_executor(5)
        steps.append(cluster.step(Load(rate, keys if at < EVENTS["drift"] else drifted)))
    return _Course(steps, rate)


def _report(courses: dict[tuple[str, str], _Course]) -> Result:
    rows: list[tuple[Cell, ...]] = [
        (load, way, *(course.epochs_to_settle(event) for event in EVENTS), *_at_end(course))
        for (load, way), course in courses.items()
    ]
    moved = [step for step in courses["b = 0.8", OURS].steps if step.old_rows > 0]
    goals = [
        Goal(f"b = 0.8, {event}: epochs until largest over mean stays below 1.2", epochs, WANTED_EPOCHS, at_least=False)
        for event in EVENTS
        for epochs in [courses["b = 0.8", OURS].epochs_to_settle(event)]
    ]
    x = [at / EPOCH for at in range(END)]
    panels = [
        Panel(
            f"{load}: drift after {EVENTS['drift'] // EPOCH}, lost executor after {EVENTS['lost executor'] // EPOCH}",
            "reorganisation epochs",
            "largest over mean load",
            [Series(way, x, courses[load, way].spread().tolist()) for way in WAYS],
            x_log=False,
        )
        for load in ("b = 0.8", "one hot key")
    ]
    settled = ("epochs to 1.2: start", "drift", "lost executor")
    return Result(
        tables=[
            Table(
                f"{CORES} cores, keys by the b-model, an executor lost",
                ("load", "way", *settled, "spread at the end", "copies of a row", "rows in old places"),
                rows,
                "4: not settled before the next event; no stored row is ever moved",
            )
        ],
        figures=[Figure("skew", "Largest over mean load of 64 cores", panels)],
        goals=goals,
        notes=[
            "bytes of stored rows moved: 0 in all cases; rows in old places at the end are those of the last window",
            f"balanced, b = 0.8: rows lay in old places during {len(moved)} of {END} micro-batches",
        ],
        runs=[
            {"load": load, "way": way, "rate": course.rate, "spread": course.spread().tolist()}
            for (load, way), course in courses.items()
        ],
    )


def _at_end(course: _Course) -> tuple[Cell, ...]:
    return float(course.spread()[-EPOCH:].mean()), course.copies(), course.steps[-1].old_rows


EXPERIMENT: Final = Experiment(
    "skew",
    Description(
        purpose="how evenly 64 cores are loaded: skewed keys, an abrupt drift, a lost executor",
        seed=SEED,
        shape="a model: 4M keys by the b-model (or one key with half of all rows), window and epoch of 10"
        " micro-batches; costs per row and pair measured with the real windows",
        expected="largest over mean load at most 1.2 within 3 epochs of each event; no stored row moved",
    ),
    run,
)
