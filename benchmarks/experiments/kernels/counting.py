"""Matches as ranges: what counting costs when a row meets one, or sixteen thousand.

The window is held as a chain would hold it, two sealed BI-Sort subwindows. The clock includes sorting the batch,
computing its bounds and finding the ranges; nothing is written out.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from benchmarks.experiment import Context, Experiment, median, seconds_of
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table, short_number
from benchmarks.structures import fill, make
from watersmeet.arrays import Int64s
from watersmeet.kernels.sorted_keys import sort_keys
from watersmeet.subwindow.contract import Probes, Subwindow, count_matches

__all__ = ["EXPERIMENT"]

SEED: Final = 60
WINDOW: Final = 8 << 20
SUBWINDOWS: Final = 2
BATCH: Final = 1 << 15
KEY_RANGE: Final = 1 << 31
SELECTIVITIES: Final = (1, 16, 256, 1 << 12, 1 << 14)
REPETITIONS: Final = 5
BATCHES: Final = 20
GOAL: Final = 1.3


def run(context: Context) -> Result:
    """Measure all selectivities in turns."""
    window, batch = context.size(WINDOW), context.size(BATCH, BATCH // 8)
    rng = np.random.default_rng(SEED)
    context.progress.step("filling the window")
    rows = window // SUBWINDOWS
    held = [fill(make("bi_sort", rows), rng.integers(0, KEY_RANGE, rows), seal=True) for _ in range(SUBWINDOWS)]
    batches = [rng.integers(0, KEY_RANGE, batch) for _ in range(BATCHES)]
    widths = {s: max(1, KEY_RANGE * s // (2 * window)) for s in SELECTIVITIES}
    _count(held, batches[0], 1)
    result = Result()
    milliseconds: dict[int, list[float]] = {s: [] for s in SELECTIVITIES}
    found = dict.fromkeys(SELECTIVITIES, 0)
    for number in range(REPETITIONS):
        for s, half in widths.items():
            context.progress.step(f"repetition {number + 1} of {REPETITIONS}, {short_number(s)} matches a row")
            found[s] = 0

            def count_all(s: int = s, half: int = half) -> None:
                for keys in batches:
                    found[s] += _count(held, keys, half)

            seconds = seconds_of(count_all)
            milliseconds[s].append(1000 * seconds / BATCHES)
            result.runs.append({"selectivity": s, "batches": BATCHES, "seconds": seconds, "pairs": found[s]})
    each = {s: median(figures) for s, figures in milliseconds.items()}
    lines: list[tuple[Cell, ...]] = [
        (s, found[s] / (BATCHES * batch), time, time / each[1], min(milliseconds[s]), max(milliseconds[s]))
        for s, time in each.items()
    ]
    result.tables.append(
        Table(
            f"time to count the matches of {batch:,} rows in a window of {window:,}",
            ("matches a row", "counted", "ms a batch", "ratio to 1 match", "least", "most"),
            lines,
            f"median of {REPETITIONS} repetitions of {BATCHES} batches; the selectivities take turns",
        )
    )
    series = Series("bi_sort", [float(s) for s in each], list(each.values()))
    panel = Panel(f"window {short_number(window)} rows", "matches per row", "ms per batch", [series], y_log=False)
    result.figures.append(Figure("counting", f"Counting the matches of {short_number(batch)} rows", [panel]))
    worst = max(each.values()) / each[1]
    result.goals.append(Goal("slowest selectivity against one match a row", worst, GOAL, at_least=False))
    return result


def _count(held: list[Subwindow], keys: Int64s, half: int) -> int:
    order = sort_keys(keys, np.arange(len(keys), dtype=np.int32))
    key = keys[order]
    probes = Probes(key - half, key + half, order)
    return sum(count_matches(subwindow.probe(probes)) for subwindow in held)


EXPERIMENT: Final = Experiment(
    "counting",
    Description(
        purpose="what it costs to know how many rows match, as the number of matches grows",
        seed=SEED,
        shape="two sealed BI-Sort subwindows of 4M uniform int64 keys; batches of 32K probing rows",
        expected="1 to 16K matches a row, never written out; at most 1.3 times the time of one match a row",
    ),
    run,
)
