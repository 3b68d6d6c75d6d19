"""A model, not a measurement: Circular-MJ in hardware, simulated cycle by cycle (figure 7, with its warm-up).

The circuit of :mod:`benchmarks.models.circular_pipeline` gets as many rows as it can take, first into empty windows.
How fast it takes them follows from nothing but its cycles: how evenly work comes to its stages, what waits in their
buffers, what has to be dropped, and how far windows have filled.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Final

import numpy as np

from benchmarks.experiment import Context, Experiment
from benchmarks.experiments.multiway.streams import STREAMS, VALUES
from benchmarks.models.circular_pipeline import CircularPipeline
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table

__all__ = ["EXPERIMENT"]

SEED: Final = 74
WINDOW: Final = 1 << 14
CLOCK: Final = 100e6
STEPS: Final = 16
"""Points of a curve while windows fill."""
AFTER: Final = 4
"""Points when they are full: what is called the rate."""
BUFFER: Final = 1 << 10
BUFFERS: Final = (4, 16, 64, 256, 1 << 10, 1 << 14)
UNEVEN: Final = 5
"""Streams of the uneven pipelines."""
SLOW: Final = 4
SHARE: Final = 0.5
"""Of all rows, that one stream gets in the uneven input."""


def run(context: Context) -> Result:
    """Simulate figure 7; then what a slow stage costs, and a small buffer."""
    window = context.size(WINDOW)
    result = Result()
    rates: dict[str, list[float]] = {probability: [] for probability in VALUES}
    panels = []
    for probability, values in VALUES.items():
        curves, ends = [], []
        for streams in STREAMS:
            context.progress.step(f"{streams} streams, {probability}")
            pipeline = _fed([window] * streams, [], values * window // WINDOW, window, shares=[1 / streams] * streams)
            curve = _curve(pipeline, window * streams // STEPS)
            rates[probability].append(_steady(pipeline, window * streams))
            curves.append(curve)
            ends.append(float(window * streams))
            run: dict[str, object] = {"streams": streams, "probability": probability, "rate": rates[probability][-1]}
            result.runs.append(run | {"dropped": pipeline.dropped, "fullest": pipeline.fullest, "jobs": pipeline.jobs})
        series = [Series(f"{streams} streams", *curve) for streams, curve in zip(STREAMS, curves, strict=True)]
        panels.append(
            Panel(f"match probability {probability}", "rows taken", "rows/s", series, x_log=False, marks=ends)
        )
    lines: list[tuple[Cell, ...]] = [
        (streams, *(own[number] for own in rates.values())) for number, streams in enumerate(STREAMS)
    ]
    title = (
        f"model: rows/s at {CLOCK / 1e6:.0f} MHz, one comparison a cycle and stage, windows of {window:,} rows, full"
    )
    result.tables.append(Table(title, ("streams", *(f"match probability {name}" for name in rates)), lines))
    result.tables.append(_uneven(context, window))
    result.tables.append(_buffers(context, window))
    result.figures.append(
        Figure("multiway_pipeline", "Figure 7: Circular-MJ in hardware, a model; dashed: the windows are full", panels)
    )
    few, *_, many = rates.values()
    linear = (few[-1] / few[0]) / (STREAMS[-1] / STREAMS[0])
    drops = [few[at] / many[at] for at in (0, -1)]
    result.goals += [
        Goal("few matches: rate of 8 streams against 3, as part of linear scaling", linear, 0.9, at_least=True),
        Goal("matches cost 8 streams more than 3", drops[1] / drops[0], 1, at_least=True),
    ]
    return result


def _fed(
    windows: list[int], widths: list[int], values: int, window: int, *, shares: list[float], buffer: int = BUFFER
) -> CircularPipeline:
    """Return a circuit that has taken rows until windows were full, and some more."""
    pipeline = CircularPipeline(windows, widths=widths, buffer=buffer)
    rows = len(windows) * window * (STEPS + AFTER) // STEPS
    pipeline.run(islice(_rows(max(1, values), shares), rows))
    return pipeline


def _rows(values: int, shares: list[float]) -> Iterator[tuple[int, int]]:
    """Yield rows for ever: a stream and a key each."""
    random = np.random.default_rng(SEED)
    while True:
        streams = random.choice(len(shares), BUFFER, p=shares)
        yield from zip(streams.tolist(), random.integers(0, values, BUFFER).tolist(), strict=True)


def _curve(pipeline: CircularPipeline, step: int) -> tuple[list[float], list[float]]:
    """Return after how many rows they were taken at which rate."""
    entered = pipeline.entered[::step]
    rates = [step * CLOCK / (end - begin) for begin, end in pairwise(entered)]
    return [float(step * (number + 1)) for number in range(len(rates))], rates


def _steady(pipeline: CircularPipeline, full_at: int) -> float:
    """Return the rate since the windows are full."""
    entered = pipeline.entered[full_at:]
    return (len(entered) - 1) * CLOCK / (entered[-1] - entered[0])


def _uneven(context: Context, window: int) -> Table:
    """Return what one slow stage, or a stream with most of the rows, makes of five streams without matches."""
    even = [1 / UNEVEN] * UNEVEN
    skewed = [SHARE, *([(1 - SHARE) / (UNEVEN - 1)] * (UNEVEN - 1))]
    cases = {
        "even": ([window] * UNEVEN, [SLOW] * UNEVEN, even),
        f"one window {SLOW} times as long": ([SLOW * window, *([window] * (UNEVEN - 1))], [SLOW] * UNEVEN, even),
        f"one stage {SLOW} times as slow": ([window] * UNEVEN, [1, *([SLOW] * (UNEVEN - 1))], even),
        f"one stream with {SHARE:.0%} of the rows": ([window] * UNEVEN, [SLOW] * UNEVEN, skewed),
    }
    lines: list[tuple[Cell, ...]] = []
    for name, (windows, widths, shares) in cases.items():
        context.progress.step(f"uneven: {name}")
        pipeline = _fed(windows, widths, VALUES["nearly 0"], max(windows), shares=shares)
        rate = _steady(pipeline, len(pipeline.entered) * STEPS // (STEPS + AFTER))
        load = max(shares[at - 1] * windows[at] / widths[at] for at in range(UNEVEN))
        idle = 1 - sum(stage.busy_cycles for stage in pipeline.stages) / (pipeline.cycles * UNEVEN)
        lines.append((name, rate, rate * load / CLOCK, idle))
    columns = ("5 streams", "rows/s", "of what the busiest stage can do", "idle, whole run")
    return Table(f"model: uneven stages, {SLOW} comparisons a cycle, few matches", columns, lines)


def _buffers(context: Context, window: int) -> Table:
    """Return what StageBuffers of some sizes drop where one row finds the most."""
    streams, (probability, values) = STREAMS[-1], list(VALUES.items())[-1]
    lines: list[tuple[Cell, ...]] = []
    for size in BUFFERS:
        context.progress.step(f"buffers of {size}")
        rows = max(1, window // STEPS)  # of every stream: a part of the warm-up with as many matches
        shares = [1 / streams] * streams
        pipeline = _fed([rows] * streams, [], max(1, values * rows // WINDOW), rows, shares=shares, buffer=size)
        found = pipeline.jobs - len(pipeline.entered) + pipeline.dropped + len(pipeline.results)
        lines.append(
            (size, _steady(pipeline, rows * streams), pipeline.fullest, pipeline.dropped / found, len(pipeline.results))
        )
    columns = ("room in a buffer", "rows/s", "most in one", "dropped, of all matches", "results")
    note = f"{streams} streams, match probability {probability}, windows and keys {STEPS} times fewer"
    return Table("model: what finite buffers drop", columns, lines, note)


EXPERIMENT: Final = Experiment(
    "pipeline",
    Description(
        purpose="a model of the paper's hardware, cycle by cycle: input rate by number of streams, with its warm-up",
        seed=SEED,
        shape="3 to 8 streams as in `streams`, windows of 16K rows, from empty; StageBuffers of 1,024 partial results",
        expected="the shape of figure 7: falling while windows fill, then linear while few rows match, at 0.01 % not",
    ),
    run,
)
