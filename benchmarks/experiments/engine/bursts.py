"""A burst in a time window: handshake join whose rows move on by number, as ours do, or by age (section 3.6).

By *age* a core holds the rows of one stretch of time: a row moves on when its timestamp has fallen behind its core's
stretch. Then a burst lies on one core at first, which puts most of its work off, and moves down the chain as a bubble:
later one core after the other has most of the work, whatever the others could do. By *number* each core holds an equal
share of the rows, so a burst and its work spread over all cores at once. Both find the same pairs, so what counts is
the whole, from the burst until its last row has left.

A core's work is counted: rows that probe times rows of the other stream that it holds. The rate is that of a machine
where every core is one: so many rows in the time in which the core with most work makes a million comparisons. Seconds
are those of this machine, on whose cores the threads take turns.
"""

from __future__ import annotations

import time
from typing import ClassVar, Final
from unittest.mock import patch

import numpy as np

from benchmarks.experiment import Context, DisagreementError, Experiment
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table
from benchmarks.rig import Rig, Sides
from watersmeet.engine.topologies import handshake
from watersmeet.engine.topologies.handshake import HandshakeCore
from watersmeet.spec.expression import StreamName
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.stream_window import Match

__all__ = ["EXPERIMENT"]

SEED: Final = 73
CORES: Final = 8
WINDOW: Final = 1 << 13
PUSHES: Final = 64
"""In one length of the window."""
BURST: Final = 8
"""Pushes of the burst."""
TIMES: Final = 10
"""How many times more rows a push of the burst has."""
BLOCK: Final = 32
VALUES: Final = 2000


class CountingCore(HandshakeCore):
    """Counts its comparisons."""

    work: ClassVar[dict[int, int]] = {}
    now: ClassVar[int] = 0
    """The newest timestamp that has entered."""
    cores: ClassVar[int] = 1

    def partners(self, batch: KeyedBatch, passed_over: int = 0) -> list[Match]:
        """Find pairs."""
        compared = len(batch) * self.stretches["left" if batch.side == "right" else "right"].rows
        self.work[self._number] = self.work.get(self._number, 0) + compared
        return super().partners(batch, passed_over)


class MovingByAge(CountingCore):
    """Holds the rows of a stretch of time."""

    def _move_on(self, side: StreamName, arriving: int = 0) -> None:
        place = self._number if side == "left" else self.cores - 1 - self._number
        oldest = self.now - self._layout.plan.length(side) * (place + 1) // self.cores
        unsent = list(self.stretches[side].blocks)[self._sent[side] :]
        self._share[side] = arriving + sum(len(block) for block in unsent if block.place().high >= oldest)
        super()._move_on(side, arriving)


WAYS: Final[dict[str, type[CountingCore]]] = {"by number": CountingCore, "by age": MovingByAge}


def run(context: Context) -> Result:
    """Feed the same burst to both."""
    window = context.size(WINDOW, 1 << 10)
    found = {}
    for name, core in WAYS.items():
        context.progress.step(name)
        with patch.object(handshake, "HandshakeCore", core):
            found[name] = _feed(window)
    if len({pairs for _, _, pairs in found.values()}) > 1:
        raise DisagreementError(f"numbers of pairs: { {name: pairs for name, (_, _, pairs) in found.items()} }")
    spans = {
        "before": slice(0, BURST),
        "burst": slice(BURST, 2 * BURST),
        "after": slice(2 * BURST, None),
        "both": slice(BURST, None),
    }
    rows = np.full(len(next(iter(found.values()))[0]), 2 * (window // PUSHES))
    rows[spans["burst"]] *= TIMES
    lines: list[tuple[Cell, ...]] = []
    rates: dict[tuple[str, str], float] = {}
    for span, some in spans.items():
        for name, (work, seconds, _) in found.items():
            by_core = work[some].sum(axis=0)
            rates[name, span] = float(1e6 * rows[some].sum() / work[some].max(axis=1).sum())
            lines.append(
                (
                    span,
                    name,
                    float(by_core.max() / by_core.mean()),
                    float((work[some].max(axis=1) / work[some].mean(axis=1)).max()),
                    rates[name, span],
                    float(rows[some].sum() / seconds[some].sum()),
                )
            )
    pushes = [float(push) for push in range(len(rows))]
    return Result(
        tables=[
            Table(
                f"a burst of {TIMES} times the rate, {BURST / PUSHES:.0%} of the window long, on {CORES} cores",
                (
                    "pushes",
                    "rows move",
                    "most work of a core, against the mean",
                    "the worst push",
                    "rows per million comparisons of the busiest core",
                    "rows/s on this machine",
                ),
                lines,
                "each push of the burst waits for the one before",
            )
        ],
        figures=[
            Figure(
                "bursts",
                "A burst in handshake join",
                [
                    Panel(
                        "the busiest core",
                        "push",
                        "its work against the mean",
                        [
                            Series(name, pushes, [*(work.max(axis=1) / work.mean(axis=1))])
                            for name, (work, _, _) in found.items()
                        ],
                        x_log=False,
                        y_log=False,
                    )
                ],
            )
        ],
        goals=[
            Goal(
                "burst and after: rate of rows that move by number against by age",
                rates["by number", "both"] / rates["by age", "both"],
                1.0,
                at_least=True,
            )
        ],
        notes=["the paper, section 3.6: a peak hits the first segment, and forms a bubble that travels down the chain"],
        runs=[
            {"what": name, "work": work.tolist(), "seconds": seconds.tolist()}
            for name, (work, seconds, _) in found.items()
        ],
    )


Work = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Seconds = np.ndarray[tuple[int], np.dtype[np.float64]]


def _feed(window: int) -> tuple[Work, Seconds, int]:
    """Feed some pushes, the burst, and a window's length of pushes; return work by push and core, seconds and pairs."""
    CountingCore.cores = CORES
    rig = _BurstRig("handshake", window, CORES, BLOCK, SEED, values=VALUES, apart=1.0)
    push = window // PUSHES
    work, seconds, pairs = [], [], 0
    for number in range(-PUSHES // 2, 2 * BURST + PUSHES):  # half a window first, until rows lie as they move
        rig.times = TIMES if BURST <= number < 2 * BURST else 1
        CountingCore.work.clear()
        CountingCore.now = rig.moment + push
        begin = time.perf_counter()
        pairs += rig.feed(push * rig.times)[1]
        if number >= 0:
            seconds.append(time.perf_counter() - begin)
            rig.engine.windows("left")  # waits until nothing moves
            work.append([CountingCore.work.get(core, 0) for core in range(CORES)])
    pairs += sum(table.num_rows for table in rig.engine.owed())
    rig.close()
    return np.array(work, float), np.array(seconds), pairs


class _BurstRig(Rig):
    """Feeds so many times more rows in the same span of time."""

    times = 1
    moment = 0
    """The timestamp from which the next rows come."""

    def _take(self, count: int) -> Sides:
        rows = super()._take(count)
        if not self.moment:
            self.moment = self.window
        moments = self.moment + np.arange(count) // self.times
        self.moment += count // self.times
        return {side: table.set_column(0, "ts", [moments.astype("datetime64[us]")]) for side, table in rows.items()}


EXPERIMENT: Final = Experiment(
    "bursts",
    Description(
        purpose="load of the cores and rate in a burst: rows that move on by number against rows that move by age",
        seed=SEED,
        shape="the papers' 2-D band, values to 2,000, a time window of 8K rows at the usual rate, 8 cores as threads",
        expected="by number all cores share the burst; by age one core after the other has most of its work",
    ),
    run,
)
