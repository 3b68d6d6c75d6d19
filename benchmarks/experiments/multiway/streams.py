"""Input rates of 3 to 8 streams, at the match probabilities of the paper's figure 7, by strategy."""

from __future__ import annotations

import os
from typing import Final

from benchmarks.experiment import Context, DisagreementError, Experiment
from benchmarks.many import ManyStreams, chain
from benchmarks.report import Cell, Description, Figure, Panel, Result, Series, Table

__all__ = ["EXPERIMENT"]

SEED: Final = 71
WINDOW: Final = 1 << 14
BATCH: Final = 1 << 11
PUSHES: Final = 8
STREAMS: Final = (3, 4, 5, 6, 7, 8)
VALUES: Final = {"nearly 0": 1_000_000_000, "0.001 %": 100_000, "0.01 %": 10_000}
"""Match probability, and the number of values that gives it."""
STRATEGIES: Final = ("circular", "stashed", "auto")


def run(context: Context) -> Result:
    """Measure every number of streams with every strategy, at one match probability after the other."""
    cores = min(os.cpu_count() or 1, max(STREAMS))
    window, batch = context.size(WINDOW, 256), context.size(BATCH, 128)
    result = Result()
    panels = []
    for probability, values in VALUES.items():
        lines: list[tuple[Cell, ...]] = []
        rates: dict[str, list[float]] = {name: [] for name in (*STRATEGIES, f"circular on {cores} threads")}
        for streams in STREAMS:
            found = set()
            for name, own in rates.items():
                context.progress.step(f"{streams} streams, {probability}, {name}")
                strategy, on_threads = (name, 1) if name in STRATEGIES else ("circular", cores)
                many = ManyStreams(
                    streams, chain(streams), window, {"x": values}, SEED, strategy=strategy, cores=on_threads
                )
                many.fill(batch)
                feed = many.feed(PUSHES, batch)
                many.close()
                own.append(feed.rate)
                found.add(feed.results)
                result.runs.append(
                    {"streams": streams, "probability": probability, "strategy": name, "rate": feed.rate}
                )
            if len(found) > 1:
                raise DisagreementError(f"{streams} streams, {probability}: strategies found {sorted(found)} results")
            lines.append((streams, *(own[-1] for own in rates.values()), found.pop() / (PUSHES * batch * streams)))
        title = f"rows/s of all streams, windows of {window:,} rows, match probability {probability}"
        result.tables.append(Table(title, ("streams", *rates, "results a row"), lines))
        counts = [float(streams) for streams in STREAMS]
        series = [Series(name, counts, own) for name, own in rates.items()]
        panels.append(Panel(f"match probability {probability}", "streams", "rows/s", series, x_log=False))
    result.figures.append(Figure("multiway_streams", "Input rate by number of streams", panels))
    return result


EXPERIMENT: Final = Experiment(
    "streams",
    Description(
        purpose="what more streams cost, at the match probabilities of figure 7",
        seed=SEED,
        shape="3 to 8 streams of one int64 key, neighbours have equal keys, count windows of 16K rows",
        expected="rates fall little with more streams while few rows match, and steeply at 0.01 %",
    ),
    run,
)
