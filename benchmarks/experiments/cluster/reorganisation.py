"""Moving state against waiting for it, over the number of reorganisation epochs in a window.

The paper on shared-nothing clusters hands the stored rows of a group over to its new owner, 30 times a window. Ours
never moves a stored row: new rows look for them where they lie, so relief is complete one window later. Here keys drift
all at once, on cores that are busy most of the time, and five clusters get the same rows: one whose routing table never
changes; our balancer, which waits; the same with rows handed over; and the balancer of the paper to the letter, handing
over and waiting. In one load a row meets few others, so most work follows the new rows at once; in the other a row
meets many, and most work stays with the stored ones.

*Relief* is how near the window after the drift comes to the mean: largest over mean work. What a user sees of it is the
production delay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.experiment import Context, Experiment
from benchmarks.models.cluster import Cluster, Step
from benchmarks.models.costs import Costs, measure_costs
from benchmarks.models.keys import Keys, Load, b_model, rate_for
from benchmarks.models.paper_balance import Paper
from benchmarks.report import Cell, Description, Figure, Panel, Result, Series, Table
from watersmeet.balance.balancer import Settings

__all__ = ["EXPERIMENT"]

SEED: Final = 85
CORES: Final = 16
B: Final = 0.7
LEVELS: Final = 18
WINDOW: Final = 300
"""Micro-batches of two seconds: the paper's ten minutes."""
SECONDS: Final = 2.0
DRIFT: Final = WINDOW + WINDOW // 2
END: Final = 3 * WINDOW
EPOCHS: Final = (1, 2, 3, 6, 10, 30, 60)
"""Reorganisation epochs in a window."""
PAPERS: Final = 30
BUSY: Final = (0.5, 0.8, 0.95)
"""How busy the cores are on average."""
USUAL: Final = 0.8
LOADS: Final = {"many matches": 1.0, "few matches": 1_000.0}
"""For how many keys each of the 2^18 stands: with more keys a row meets fewer others."""
OFF, WAITING, HANDING = "off", "ours, waiting", "ours, handing over"
OURS: Final = Settings(decluster=False)
WAYS: Final[dict[str, tuple[Settings | Paper | None, bool]]] = {
    OFF: (None, False),
    WAITING: (OURS, False),
    HANDING: (OURS, True),
    "the paper's": (Paper(), True),
    "the paper's, waiting": (Paper(), False),
}


@dataclass(frozen=True)
class _Course:
    steps: list[Step]

    @property
    def after(self) -> list[Step]:
        """The window after the drift."""
        return self.steps[DRIFT : DRIFT + WINDOW]

    @property
    def spread(self) -> float:
        return float(np.mean([step.spread for step in self.after]))

    @property
    def delay(self) -> float:
        return float(np.mean([step.delay for step in self.after]))

    @property
    def worst(self) -> float:
        return max(step.delay for step in self.after)

    @property
    def moved(self) -> float:
        """Megabytes handed over."""
        return sum(step.handed_over for step in self.steps) / 1e6

    @property
    def live(self) -> int:
        return max(step.live for step in self.steps)


Courses = dict[tuple[str, str, int, float], _Course]
"""By load, way, epochs in a window, and how busy cores are."""


def run(context: Context) -> Result:
    """Let every way run through the drift: over epochs, and with the paper's number of them over how busy cores are."""
    costs = measure_costs()
    epochs = EPOCHS if not context.quick else (3, PAPERS)
    courses: Courses = {}
    for load in LOADS:
        for way in WAYS:
            for count, busy in [*((count, USUAL) for count in epochs), *((PAPERS, busy) for busy in BUSY)]:
                if (load, way, count, busy) not in courses:
                    context.progress.step(f"{load}, {way}, {count} epochs a window, busy {busy:.0%}")
                    courses[load, way, count, busy] = _run_course(costs, load, way, count, busy)
    return _report(courses, epochs)


def _run_course(costs: Costs, load: str, way: str, epochs: int, busy: float) -> _Course:
    settings, hands_over = WAYS[way]
    cluster = Cluster(
        CORES,
        costs,
        WINDOW,
        seconds=SECONDS,
        epoch=WINDOW // epochs,
        settings=settings,
        hands_over=hands_over,
        seed=SEED,
    )
    keys = Keys.of(b_model(B, LEVELS), cluster.generations[0]).thinned(LOADS[load])
    drifted = keys.drifted(12_345)
    rate = rate_for(costs, keys, WINDOW * SECONDS, busy * CORES)
    return _Course([cluster.step(Load(rate, keys if at < DRIFT else drifted)) for at in range(END)])


def _report(courses: Courses, epochs: tuple[int, ...]) -> Result:
    over_epochs: list[tuple[Cell, ...]] = [
        (load, way, count, *_figures(courses[load, way, count, USUAL]))
        for load in LOADS
        for way in WAYS
        for count in epochs
    ]
    over_busy: list[tuple[Cell, ...]] = [
        (load, f"{busy:.0%}", way, *_figures(courses[load, way, PAPERS, busy]))
        for load in LOADS
        for busy in BUSY
        for way in WAYS
    ]
    figures = ("largest over mean", "mean delay (s)", "worst delay (s)", "MB handed over", "live generations")
    x = [float(count) for count in epochs]
    minutes = [at * SECONDS / 60 for at in range(DRIFT - WINDOW // 4, END)]
    spreads = [
        Panel(
            load,
            "reorganisation epochs in a window",
            "largest over mean work, window after the drift",
            [Series(way, x, [courses[load, way, count, USUAL].spread for count in epochs]) for way in WAYS],
            y_log=False,
        )
        for load in LOADS
    ]
    delays = [
        Panel(
            f"{load}, busy {busy:.0%}",
            "minutes",
            "production delay (s)",
            [
                Series(
                    way,
                    minutes,
                    [step.delay for step in courses[load, way, PAPERS, busy].steps[DRIFT - WINDOW // 4 :]],
                )
                for way in WAYS
            ],
            x_log=False,
        )
        for load in LOADS
        for busy in (USUAL, max(BUSY))
    ]
    return Result(
        tables=[
            Table(f"cores busy {USUAL:.0%}", ("load", "way", "epochs a window", *figures), over_epochs),
            Table(f"{PAPERS} epochs a window", ("load", "busy", "way", *figures), over_busy),
        ],
        figures=[
            Figure("reorganisation", "Largest over mean work after a drift, over epochs", spreads),
            Figure("reorganisation_delay", f"Production delay over time, {PAPERS} epochs a window", delays),
        ],
        notes=[
            "spread and delay are those of the window after the drift; bytes are those of the whole run",
            "a hand-over costs what cutting out, sending and storing rows costs; state store and network come on top",
        ],
        runs=[
            {"load": load, "way": way, "epochs": count, "busy": busy, "spread": course.spread, "delay": course.delay}
            for (load, way, count, busy), course in courses.items()
        ],
    )


def _figures(course: _Course) -> tuple[Cell, ...]:
    return course.spread, course.delay, course.worst, course.moved, course.live


EXPERIMENT: Final = Experiment(
    "reorganisation",
    Description(
        purpose="what handing stored rows over brings against waiting until they expire",
        seed=SEED,
        shape="a model: 16 cores, 2^18 keys by the b-model with b = 0.7 that all drift at once, window of 300"
        " micro-batches of 2 s; costs measured",
        expected="with 30 epochs a window, waiting is within 0.15 of handing over in largest over mean work, and the"
        " same in delay until cores are all but full",
    ),
    run,
)
