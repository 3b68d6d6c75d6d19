"""How long two rows take to meet, and where the time goes.

*Visiting latency* (SplitJoin, section 6): from the arrival of the later row of a pair to the moment its core finds the
pair. Rows come in small pushes at a steady pace that every topology can keep. In handshake join a row meets its
partners as the window moves, so its latency is a part of the window's length; the other two differ in how many hops a
row takes to its partners. *Stages* (figures 15 and 18) are SplitJoin's: until a core takes a block, while it works on
it, and until the merged result is there.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Final
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from benchmarks.experiment import Context, Experiment
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
TOPOLOGIES: Final[tuple[TopologyName, ...]] = ("splitjoin", "low_latency_handshake", "handshake")


class Meetings:
    """When rows were pushed, and how long pairs took to be found."""

    def __init__(self) -> None:
        self.pushed: dict[int, float] = {}
        self._found: list[tuple[float, pa.Table]] = []

    def observe(self, pairs: pa.Table) -> None:
        """Take note of pairs that are found now."""
        self._found.append((time.perf_counter(), pairs.select(["id", "number"])))

    def latencies(self) -> list[float]:
        """Return the latency of every pair, in milliseconds."""
        return [
            1000 * (moment - self.pushed[later // PUSH])
            for moment, pairs in self._found
            for later in np.maximum(np.asarray(pairs.column("id")), np.asarray(pairs.column("number"))).tolist()
            if later // PUSH in self.pushed
        ]


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
    window, pushes = context.size(WINDOW, 1 << 10), context.size(WINDOW // PUSH, 20)
    visiting: dict[str, dict[int, float]] = {}
    lines: list[tuple[Cell, ...]] = []
    stages: list[tuple[Cell, ...]] = []
    for cores in CORES:
        for topology in TOPOLOGIES:
            context.progress.step(f"{topology}, {cores} cores")
            meetings = Meetings()
            rig = Rig(topology, window, cores, BLOCK, SEED, values=VALUES, observe=meetings.observe)
            _feed(rig, pushes, meetings)
            each = meetings.latencies()
            visiting.setdefault(topology, {})[cores] = float(np.mean(each))
            lines.append(
                (
                    topology,
                    cores,
                    *(float(figure) for figure in (np.mean(each), *np.quantile(each, [0.5, 0.99]))),
                    len(each),
                )
            )
        stages.append((cores, *_stages(window, cores, context.size(200, 10))))
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
                ("topology", "cores", "mean", "median", "99th percentile", "pairs"),
                lines,
            ),
            Table(
                "splitjoin's stages, milliseconds, means",
                ("cores", "distribution", "execution", "gathering", "whole push"),
                stages,
                "in outer order; a push is 4 blocks of each stream",
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


def _feed(rig: Rig, pushes: int, meetings: Meetings) -> None:
    rig.feed(PUSH)  # starts the threads
    begin = time.perf_counter()
    for number in range(pushes):
        time.sleep(max(0.0, begin + number * PACE - time.perf_counter()))
        meetings.pushed[rig.fed // PUSH] = time.perf_counter()
        rig.feed(PUSH)
    rig.close()


def _stages(window: int, cores: int, pushes: int) -> list[float]:
    """Return the mean milliseconds of distribution, execution, gathering and the whole."""
    rig = Rig("splitjoin", window, cores, BLOCK, SEED, order="outer", values=VALUES, build=TimedSplitJoin)
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
        shape="the papers' 2-D band, values to 2,000, windows of 4K rows, 64 rows a side every 100 ms in blocks of 16",
        expected="splitjoin below low_latency_handshake below handshake at 4 and more cores",
    ),
    run,
)
