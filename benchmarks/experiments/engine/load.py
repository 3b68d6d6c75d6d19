"""Latency under load: at shares of the highest rate, with and without outer order, for several sizes of windows.

The highest rate of a topology is what it takes when pushes follow each other at once, submitted; beside it stands the
processor time of a row, which depends less on who else uses the machine. Then rows are submitted at a steady pace for
two lengths of the window, while the caller polls. What order costs shows in the processor time, and in when the caller
has the pairs. In handshake join they wait half a window for it, and without it meet in about a quarter.

*Count against time windows* (SplitJoin, section 7.4): the same rows, in windows that hold as many of them.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Final, Literal, TypeVar

import numpy as np

from benchmarks.experiment import Context, Experiment, median, seconds_of
from benchmarks.experiments.engine.steady import Meetings, feed_steadily
from benchmarks.report import Cell, Description, Figure, Panel, Result, Series, Table
from benchmarks.rig import Rig
from watersmeet.spec.options import TopologyName

__all__ = ["EXPERIMENT"]

SEED: Final = 69
WINDOWS: Final = (1 << 8, 1 << 10, 1 << 12)
PUSH: Final = 64
BLOCK: Final = 32
VALUES: Final = 2000
SHARES: Final = (0.25, 0.5, 0.8)
TRIAL: Final = 1024
TURNS: Final = 7
MOST_PUSHES: Final = 128
"""In a length of the window; where more would fit, they are larger."""
NAMES: Final[tuple[TopologyName, ...]] = ("splitjoin", "low_latency_handshake", "handshake")
ORDERS: Final[tuple[Literal["outer"] | None, ...]] = (None, "outer")
WINDOW_KINDS: Final[dict[str, float | None]] = {"count": None, "time": 10.0}


def run(context: Context) -> Result:
    """Measure every topology and window, with and without an order."""
    cores = min(os.cpu_count() or 1, 16)
    windows = WINDOWS[:1] if context.quick else WINDOWS
    lines: list[tuple[Cell, ...]] = []
    end_to_end: dict[str, dict[int, float]] = {}
    for window in windows:
        for name in NAMES:
            context.progress.step(f"{name}, window of {window:,} rows: rates")
            rigs: dict[str | None, partial[Rig]] = {
                order: partial(Rig, name, window, cores, BLOCK, SEED, order=order, values=VALUES) for order in ORDERS
            }
            rates = _rates({order: rig() for order, rig in rigs.items()}, context)
            for order, rig in rigs.items():
                context.progress.step(f"{name}, window of {window:,} rows, {order or 'no order'}")
                highest = rates[order][0]
                shares = SHARES[:1] if context.quick else SHARES
                found = [_at(rig, window, highest, share) for share in shares]
                lines.append(
                    (name, window, order or "none", *rates[order], *(figure for two in found for figure in two))
                )
                if order is not None:
                    end_to_end.setdefault(name, {})[window] = found[-1][1]
    shares_shown = SHARES[: 1 if context.quick else None]
    columns = [f"{what} at {share:.0%}" for share in shares_shown for what in ("visiting", "end to end")]
    kinds = _count_against_time(cores, context)
    return Result(
        tables=[
            Table(
                f"{cores} cores, nested loops: highest rates, and milliseconds at shares of them, means",
                ("topology", "window", "order", "rows/s", "processor µs a row", "against none", *columns),
                lines,
                f"blocks of {BLOCK} rows, two lengths of the window; pairs not given at the end count as given then",
            ),
            Table(
                "splitjoin in outer order, windows by count and by time that hold as many rows",
                ("window", "by count, rows/s", "by time, rows/s", "processor time by time against by count"),
                kinds,
                "the paper: about 20% more by count, as its time windows ask the system for the time",
            ),
        ],
        figures=[
            Figure(
                "load",
                f"In outer order at {shares_shown[-1]:.0%} of the highest rate",
                [
                    Panel(
                        f"{cores} cores",
                        "rows of the window",
                        "milliseconds until the caller has a pair, mean",
                        [Series(name, [*map(float, by)], [*by.values()]) for name, by in end_to_end.items()],
                    )
                ],
            )
        ],
        notes=[
            "the papers' default is outer order; SplitJoin's section 7.6 finds its cost negligible",
        ],
        runs=[{"what": "load", "lines": lines}, {"what": "count against time", "lines": kinds}],
    )


Key = TypeVar("Key")


def _rates(rigs: dict[Key, Rig], context: Context) -> dict[Key, tuple[float, float, float]]:
    """Feed rigs turn by turn, and close them.

    Return for each the rows of both streams that it takes in a second, the processor microseconds of a row, and those
    against the first one's.
    """
    rows = context.size(TRIAL, 128)
    seconds: dict[Key, list[float]] = {key: [] for key in rigs}
    processor: dict[Key, list[float]] = {key: [] for key in rigs}
    for rig in rigs.values():
        rig.feed(BLOCK)
    for _ in range(context.size(TURNS, 1)):
        for key, rig in rigs.items():
            before = time.process_time()
            seconds[key].append(seconds_of(partial(_flow, rig, rows)))
            processor[key].append(1e6 * (time.process_time() - before) / (2 * rows))
    for rig in rigs.values():
        rig.close()
    first = next(iter(rigs))
    against = {
        key: median([one / other for one, other in zip(some, processor[first], strict=True)])
        for key, some in processor.items()
    }
    return {key: (2 * rows / median(seconds[key]), median(processor[key]), against[key]) for key in rigs}


def _flow(rig: Rig, rows: int) -> None:
    """Let rows in as fast as they are taken, in pushes as they come later, and wait for the last ones."""
    for _ in range(rows // PUSH):
        rig.submit(PUSH)
        rig.engine.poll()
    rig.engine.settle()
    rig.engine.poll()


def _at(rig: partial[Rig], window: int, highest: float, share: float) -> tuple[float, float]:
    """Return the mean visiting and end-to-end milliseconds at a share of the highest rate, over two windows."""
    rate = share * highest / 2  # of each stream
    push = PUSH
    while window // push > MOST_PUSHES:
        push *= 2
    meetings = Meetings(push)
    feed_steadily(rig(observe=meetings.observe), push, 2 * window // push, push / rate, meetings)
    return float(np.mean(meetings.visiting())), float(np.mean(meetings.end_to_end()))


def _count_against_time(cores: int, context: Context) -> list[tuple[Cell, ...]]:
    """Return rates by count and by time, and the processor time of a row by time against by count."""
    lines: list[tuple[Cell, ...]] = []
    for window in WINDOWS[:1] if context.quick else WINDOWS:
        context.progress.step(f"count against time, window of {window:,} rows")
        rates = _rates(
            {
                kind: Rig("splitjoin", window, cores, BLOCK, SEED, order="outer", values=VALUES, apart=apart)
                for kind, apart in WINDOW_KINDS.items()
            },
            context,
        )
        lines.append((window, *(rates[kind][0] for kind in rates), rates["time"][2]))
    return lines


EXPERIMENT: Final = Experiment(
    "load",
    Description(
        purpose="latency at shares of the highest rate, with outer order and without; count against time windows",
        seed=SEED,
        shape="the papers' 2-D band, values to 2,000, windows of 256 to 4K rows, two lengths of them at a steady pace",
        expected="order costs splitjoin little; handshake's pairs come a part of the window late, more so in order",
    ),
    run,
)
