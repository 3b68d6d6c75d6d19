"""How the time of a push grows with the window. An index should pay for the logarithm, and for the caches."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from benchmarks.experiment import Context, Experiment, median
from benchmarks.feed import Feed
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table, short_number

__all__ = ["EXPERIMENT"]

SEED: Final = 50
WINDOWS: Final = (1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 23)
BATCH: Final = 1 << 15
REPETITIONS: Final = 5
LEAST_PUSHES: Final = 32
GOAL: Final = 2.5


def run(context: Context) -> Result:
    """Fill all windows, then take turns between them, so that a busy machine is busy for all alike."""
    result = Result()
    batch = context.size(BATCH, BATCH // 64)
    feeds = [Feed(context.size(window), batch, SEED) for window in WINDOWS]
    for feed in feeds:
        feed.prefill(context.progress.step)
    milliseconds: dict[int, list[float]] = {feed.window: [] for feed in feeds}
    for number in range(REPETITIONS):
        for feed in feeds:
            context.progress.step(f"repetition {number + 1} of {REPETITIONS}, window {short_number(feed.window)}")
            pushes = max(LEAST_PUSHES, feed.rotation)
            timed = feed.timed(pushes)
            milliseconds[feed.window].append(1000 * timed.seconds / pushes)
            result.runs.append({"window": feed.window, "pushes": pushes, **asdict(timed)})
    each = {window: median(figures) for window, figures in milliseconds.items()}
    smallest = next(iter(each.values()))
    lines: list[tuple[Cell, ...]] = [
        (window, time, time / smallest, min(milliseconds[window]), max(milliseconds[window]))
        for window, time in each.items()
    ]
    result.tables.append(
        Table(
            f"time of a push of 2 x {batch:,} rows by window",
            ("window rows a side", "ms a push", "ratio to smallest", "least", "most"),
            lines,
            f"median of {REPETITIONS} repetitions, each at least a rotation of subwindows; the windows take turns",
        )
    )
    x, y = [float(window) for window in each], list(each.values())
    panel = Panel("one match per row", "window (rows a side)", "ms per push", [Series("bi_sort", x, y)], y_log=False)
    result.figures.append(Figure("growth", f"Time of a push of 2 x {short_number(batch)} rows", [panel]))
    result.goals.append(Goal("largest window against smallest", y[-1] / smallest, GOAL, at_least=False))
    return result


EXPERIMENT: Final = Experiment(
    "growth",
    Description(
        purpose="how much slower a push becomes as the window grows from 64K to 8M rows a side",
        seed=SEED,
        shape="uniform int64 keys, batches of 32K rows a side, one row per microsecond, 8 bytes of payload; bi_sort",
        expected="about one pair per row at every size, so the output stays the same; at most 2.5 times slower",
    ),
    run,
)
