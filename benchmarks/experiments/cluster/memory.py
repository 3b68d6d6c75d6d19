"""How evenly memory is used where all cores have the same work, but some hold far more rows.

Some groups have many rows that meet nobody, the others few rows that meet many: the same work, not the same bytes. At
first the former all lie on a few cores; later, all at once, others become such. A balancer that looks at work alone has
no reason to act. Ours lets a core yield groups that is to hold half as much again as the mean, or more than a limit; a
window later it does not hold them any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.experiment import Context, Experiment
from benchmarks.models.cluster import ROW_BYTES, Cluster, Step
from benchmarks.models.costs import Costs, measure_costs
from benchmarks.models.keys import Keys, Load
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table
from watersmeet.arrays import Float64s
from watersmeet.balance.balancer import Settings
from watersmeet.balance.generation import Generation, groups_for

__all__ = ["EXPERIMENT"]

SEED: Final = 84
CORES: Final = 64
EPOCH: Final = 10
"""Micro-batches in a reorganisation epoch, and in a window."""
END: Final = 8 * EPOCH
DRIFT: Final = 4 * EPOCH
FULL_CORES: Final = 8
MANY_ROWS: Final = 8_000.0
FEW_ROWS: Final = 2_000.0
"""Rows of each stream per group and micro-batch."""
LIMIT: Final = 1.3
"""Limit of a core's bytes, over the mean; without one, what is allowed is in the balancer's settings."""
ALLOWED: Final = Settings().uneven
WANTED_SPREAD: Final = 1.2
WANTED_EPOCHS: Final = 3.0


@dataclass(frozen=True)
class _Course:
    steps: list[Step]

    def bytes_spread(self) -> Float64s:
        """Return largest over mean bytes."""
        return np.array([step.held.max() / step.held.mean() for step in self.steps])

    def work_spread(self) -> Float64s:
        return np.array([step.spread for step in self.steps])

    def epochs_to_settle(self, begin: int, end: int, most: float) -> float:
        """Return after how many epochs the bytes stay as even as they are to be; the window is full after one."""
        above = np.flatnonzero(self.bytes_spread()[begin:end] > most)
        return float(above[-1] + 1) / EPOCH if len(above) else 0.0


def run(context: Context) -> Result:
    """Let every way run through the same events."""
    costs = measure_costs()
    mean = ROW_BYTES * EPOCH * 2 * _rows(0, groups_for(CORES)).sum() / CORES
    ways = {
        "work alone": (Settings(decluster=False, uneven=np.inf), np.inf),
        "bytes too": (Settings(decluster=False), ALLOWED),
        "bytes, limited": (Settings(decluster=False, core_bytes=int(LIMIT * mean)), LIMIT),
    }
    courses = {}
    for way, (settings, _) in ways.items():
        context.progress.step(way)
        courses[way] = _run_course(costs, settings)
    return _report(courses, {way: min(most, ALLOWED) for way, (_, most) in ways.items()})


def _rows(first: int, groups: int) -> Float64s:
    """Return the rows of every group: many for those that lie, to begin with, on some cores from ``first`` on."""
    core = np.arange(groups) % CORES
    return np.where((core >= first) & (core < first + FULL_CORES), MANY_ROWS, FEW_ROWS)


def _keys(costs: Costs, generation: Generation, first: int) -> Keys:
    """Return keys by which all groups have the same work: few rows meet so many as make up for it."""
    rows = _rows(first, generation.groups)
    row = costs.probe + costs.store + costs.sent
    meeting = row * (MANY_ROWS - FEW_ROWS) / (costs.pair * FEW_ROWS**2 * EPOCH)
    nowhere = np.empty(0, np.int64)
    return Keys(rows / rows.sum(), np.where(rows == FEW_ROWS, meeting, 0.0), np.empty(0), nowhere)


def _run_course(costs: Costs, settings: Settings) -> _Course:
    cluster = Cluster(CORES, costs, EPOCH, epoch=EPOCH, settings=settings, seed=SEED)
    generation = cluster.generations[0]
    rate = float(_rows(0, generation.groups).sum())
    keys = [_keys(costs, generation, first) for first in (0, CORES // 2)]
    return _Course([cluster.step(Load(rate, keys[at >= DRIFT])) for at in range(END)])


def _report(courses: dict[str, _Course], allowed: dict[str, float]) -> Result:
    settled = {
        way: [course.epochs_to_settle(*some, allowed[way]) for some in ((0, DRIFT), (DRIFT, END))]
        for way, course in courses.items()
    }
    at_end = {
        way: [float(some[-EPOCH:].max()) for some in (course.bytes_spread(), course.work_spread())]
        for way, course in courses.items()
    }
    rows: list[tuple[Cell, ...]] = [(way, *settled[way], *at_end[way]) for way in courses]
    goals = []
    for way in list(courses)[1:]:
        within = f"{way}: epochs until the fullest core stays within {allowed[way]} times the mean"
        goals.append(Goal(within, max(settled[way]), WANTED_EPOCHS, at_least=False))
        goals.append(Goal(f"{way}: largest over mean work at the end", at_end[way][1], WANTED_SPREAD, at_least=False))
    x = [at / EPOCH for at in range(END)]
    panels = [
        Panel(
            f"drift after {DRIFT // EPOCH}",
            "reorganisation epochs",
            f"largest over mean {what}",
            [Series(way, x, of(course).tolist()) for way, course in courses.items()],
            x_log=False,
            y_log=False,
        )
        for what, of in (("bytes", _Course.bytes_spread), ("work", _Course.work_spread))
    ]
    return Result(
        tables=[
            Table(
                f"{CORES} cores with the same work, {FULL_CORES} of which get four times as many rows",
                ("way", "epochs to settle: start", "drift", "bytes at the end", "work at the end"),
                rows,
                "bytes and work: largest over mean; 4: not settled; no stored row is ever moved",
            )
        ],
        figures=[Figure("memory", "Bytes and work of 64 cores, largest over mean", panels)],
        goals=goals,
        runs=[
            {"way": way, "bytes": course.bytes_spread().tolist(), "work": course.work_spread().tolist()}
            for way, course in courses.items()
        ],
    )


EXPERIMENT: Final = Experiment(
    "memory",
    Description(
        purpose="how evenly 64 cores use memory where work is even, but rows are not",
        seed=SEED,
        shape="a model: groups of 8 cores have four times the rows and no pairs, the others so many pairs that all have"
        " the same work; other groups after a drift; window and epoch of 10 micro-batches",
        expected="the fullest core within what is allowed within 3 epochs of each event, and work still even",
    ),
    run,
)
