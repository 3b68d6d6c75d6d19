"""How long two rows take to meet, and where the time goes.

*Visiting latency* (SplitJoin, section 6): from the arrival of the later row of a pair to the moment its core finds the
pair. Rows come in small pushes at a steady pace that every topology can keep. In handshake join a row meets its
partners as the window moves, so its latency is a part of the window's length; the other two differ in how many hops a
row takes to its partners. Pairs that have not met after the last push count as met then. *End to end* is when the
caller gets a pair: beside each topology without an order stands the same in outer order, SplitJoin's default, where
pairs wait for those before them. *Stages* (figures 15 and 18) are SplitJoin's: until a core takes a block, while it
works on it, and until the merged result is there.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Final, Literal
from unittest.mock import patch

import numpy as np

from benchmarks.experiment import Context, Experiment
from benchmarks.experiments.engine.steady import Meetings, feed_steadily
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table
from benchmarks.rig import Rig
from watersmeet.engine.topologies import splitjoin
from watersmeet.engine.topologies.contract import Layout
from watersmeet.engine.topologies.splitjoin import JoinCore, SplitJoin
from watersmeet.spec.options import TopologyName

__all__ = ["EXPERIMENT"]

SEED: Final = 62
WINDOW: Final = 1 << 12
PUSH: Final = 64
BLOCK: Final = 16
PACE: Final = 0.1
VALUES: Final = 2000
CORES: Final = (2, 4, 8)
ORDERS: Final[tuple[Literal["outer"] | None, ...]] = (None, "outer")
WINDOW_KINDS: Final = {"count": None, "time": 1.0}
"""How far apart rows come, in microseconds, in a window of a fixed time."""
TOPOLOGIES: Final[tuple[TopologyName, ...]] = ("splitjoin", "low_latency_handshake", "handshake")


class TimedCore(JoinCore):
    """Takes down when it begins and ends with a block."""

    spans: Final[list[tuple[float, float]]] = []

    def handle(self, lane: int, block: object) -> None:
        """Process a block."""
        begin = time.perf_counter()
        super().handle(lane, block)  # type: ignore[arg-type] # passed on
        self.spans.append((begin, time.perf_counter()))


class TimedSplitJoin(SplitJoin):
    """SplitJoin whose cores take times."""

    def __init__(self, layout: Layout) -> None:
        with patch.object(splitjoin, "JoinCore", TimedCore):
            super().__init__(layout)


def run(context: Context) -> Result:
    """Measure each topology on several cores."""
    window, pushes = context.size(WINDOW, 1 << 10), context.size(2 * WINDOW // PUSH, 10)
    visiting: dict[str, dict[int, float]] = {}
    lines: list[tuple[Cell, ...]] = []
    stages: dict[str, list[tuple[Cell, ...]]] = {kind: [] for kind in WINDOW_KINDS}
    for cores in CORES:
        for topology in TOPOLOGIES:
            for order in ORDERS:
                context.progress.step(f"{topology}, {cores} cores, {order or 'no order'}")
                meetings = Meetings(PUSH)
                rig = Rig(topology, window, cores, BLOCK, SEED, order=order, values=VALUES, observe=meetings.observe)
                _, at_the_end = feed_steadily(rig, PUSH, pushes, PACE, meetings)
                each, whole = meetings.visiting(), meetings.end_to_end()
                if order is None:
                    visiting.setdefault(topology, {})[cores] = float(np.mean(each))
                figures = (np.mean(each), *np.quantile(each, [0.5, 0.99]), np.mean(whole))
                lines.append((topology, cores, order or "none", *map(float, figures), len(each), at_the_end))
        for kind, apart in WINDOW_KINDS.items():
            stages[kind].append((cores, *_stages(window, cores, context.size(200, 10), apart)))
    goals = [
        Goal(
            f"{cores} cores: visiting latency of {slower} against {faster}",
            visiting[slower][cores] / visiting[faster][cores],
            1.0,
            at_least=True,
        )
        for cores in CORES
        if cores >= 4  # noqa: PLR2004 -- as the papers say
        for faster, slower in pairwise(TOPOLOGIES)
    ]
    return Result(
        tables=[
            Table(
                f"visiting latency, milliseconds: windows of {window:,} rows, {PUSH} a side every {1000 * PACE:.0f} ms",
                (
                    "topology",
                    "cores",
                    "order",
                    "mean",
                    "median",
                    "99th percentile",
                    "end to end, mean",
                    "pairs",
                    "of them not given before the end",
                ),
                lines,
            ),
            *(
                Table(
                    f"splitjoin's stages, windows by {kind}, milliseconds, means",
                    ("cores", "distribution", "execution", "gathering", "whole push"),
                    of_kind,
                    "in outer order; a push is 4 blocks of each stream",
                )
                for kind, of_kind in stages.items()
            ),
        ],
        figures=[
            Figure(
                "latency",
                "Visiting latency",
                [
                    Panel(
                        f"windows of {window:,} rows",
                        "cores",
                        "milliseconds, mean",
                        [
                            Series(name, [float(cores) for cores in by], list(by.values()))
                            for name, by in visiting.items()
                        ],
                    )
                ],
            )
        ],
        goals=goals,
        runs=[{"what": name, "mean_milliseconds": by} for name, by in visiting.items()],
    )


def _stages(window: int, cores: int, pushes: int, apart: float | None) -> list[float]:
    """Return the mean milliseconds of distribution, execution, gathering and the whole."""
    rig = Rig("splitjoin", window, cores, BLOCK, SEED, apart=apart, order="outer", values=VALUES, build=TimedSplitJoin)
    rig.feed(PUSH)
    found = []
    for _ in range(pushes):
        TimedCore.spans.clear()
        begin = time.perf_counter()
        rig.feed(PUSH)
        end = time.perf_counter()
        starts, ends = np.array(TimedCore.spans).T
        found.append((np.mean(starts) - begin, np.mean(ends - starts), end - np.max(ends), end - begin))
    rig.close()
    return [float(stage) for stage in 1000 * np.mean(found, axis=0)]


EXPERIMENT: Final = Experiment(
    "latency",
    Description(
        purpose="how long rows take to meet in SplitJoin and in both handshake joins, and SplitJoin's stages",
        seed=SEED,
        shape="the papers' 2-D band, values to 2,000, windows of 4K rows, 64 rows a side every 100 ms, two windows",
        expected="splitjoin below low_latency_handshake below handshake at 4 and more cores",
    ),
    run,
)
