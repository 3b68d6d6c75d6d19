"""A model, not a measurement: Circular-MJ in hardware, one join core per stage (figure 7).

A stage compares one stored row per cycle, so whatever passes through it, a new row or an intermediate result, takes as
many cycles as its window has rows. All stages work at once, and the distribution chain keeps them busy. So the input
rate is the clock times the number of stages, divided by the comparisons that a new row causes. How many partial results
pass through stages is counted by the same code that joins; neither warm-up nor full buffers are modelled.
"""

from __future__ import annotations

from typing import Final

from benchmarks.experiment import Context, Experiment
from benchmarks.experiments.multiway.streams import STREAMS, VALUES
from benchmarks.many import Counted, ManyStreams, chain
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table

__all__ = ["EXPERIMENT"]

SEED: Final = 74
WINDOW: Final = 1 << 14
BATCH: Final = 1 << 11
PUSHES: Final = 4
CLOCK: Final = 100e6


def run(context: Context) -> Result:
    """Count what passes through the stages, and turn it into cycles."""
    window, batch = context.size(WINDOW), context.size(BATCH)
    rates: dict[str, list[float]] = {probability: [] for probability in VALUES}
    for probability, values in VALUES.items():
        for streams in STREAMS:
            context.progress.step(f"{streams} streams, {probability}")
            many = ManyStreams(
                streams, chain(streams), window, {"x": values * window // WINDOW}, SEED, strategy="circular"
            )
            assert isinstance(many.strategy, Counted)
            many.fill(batch)
            before = many.strategy.probing
            feed = many.feed(PUSHES, batch)
            comparisons = (many.strategy.probing - before) * window / feed.rows
            rates[probability].append(CLOCK * streams / comparisons)
    lines: list[tuple[Cell, ...]] = [
        (streams, *(own[number] for own in rates.values())) for number, streams in enumerate(STREAMS)
    ]
    counts = [float(streams) for streams in STREAMS]
    few, *_, many_matches = rates.values()
    linear = (few[-1] / few[0]) / (STREAMS[-1] / STREAMS[0])
    drops = [few[at] / many_matches[at] for at in (0, -1)]
    return Result(
        tables=[
            Table(
                f"model: rows/s at {CLOCK / 1e6:.0f} MHz, one comparison a cycle and stage, windows of {window:,} rows",
                ("streams", *(f"match probability {name}" for name in rates)),
                lines,
            )
        ],
        figures=[
            Figure(
                "multiway_pipeline",
                "Circular-MJ in hardware: a model",
                [
                    Panel(
                        "figure 7",
                        "streams",
                        "rows/s",
                        [Series(name, counts, own) for name, own in rates.items()],
                        x_log=False,
                    )
                ],
            )
        ],
        goals=[
            Goal("few matches: rate of 8 streams against 3, as part of linear scaling", linear, 0.9, at_least=True),
            Goal("matches cost 8 streams more than 3", drops[1] / drops[0], 1, at_least=True),
        ],
        runs=[{"probability": name, "rates": own} for name, own in rates.items()],
    )


EXPERIMENT: Final = Experiment(
    "pipeline",
    Description(
        purpose="a model of the paper's hardware: input rate by number of streams",
        seed=SEED,
        shape="3 to 8 streams as in `streams`, windows of 16K rows; cycles follow from the partial results counted",
        expected="the shape of figure 7: linear while few rows match, falling with more streams at 0.01 %",
    ),
    run,
)
