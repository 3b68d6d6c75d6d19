"""What the choice of the probe order is worth: against all fixed orders of a star of four streams."""

from __future__ import annotations

from itertools import permutations
from typing import Final

from benchmarks.experiment import Context, DisagreementError, Experiment, median
from benchmarks.many import ManyStreams
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table
from watersmeet.engine.multiway.circular import Steps
from watersmeet.engine.multiway.stage import Step
from watersmeet.spec.expression import StreamName

__all__ = ["EXPERIMENT"]

SEED: Final = 73
WINDOW: Final = 20_000
BATCH: Final = 2_048
PUSHES: Final = 4
TURNS: Final = 5
ON: Final = "a.x = b.x AND a.y = c.y AND a.z = d.z"
MATCHES: Final = {"x": 20, "y": 0.05, "z": 2}
"""Rows that a row meets on each column."""
ADAPTIVE: Final = "adaptive"


def run(context: Context) -> Result:
    """Measure in turns: the adaptive order and the six fixed ones, on the same rows."""
    window, batch = context.size(WINDOW, 1_000), context.size(BATCH, 256)
    values = {column: max(1, round(window / matches)) for column, matches in MATCHES.items()}
    joins = {ADAPTIVE: ManyStreams(4, ON, window, values, SEED, strategy="circular")}
    for others in permutations("bcd"):
        join = ManyStreams(4, ON, window, values, SEED, strategy="circular")
        join.fix(_fixed(others))
        joins[", ".join(others)] = join
    rates: dict[str, list[float]] = {name: [] for name in joins}
    for join in joins.values():
        join.fill(batch)
    for turn in range(TURNS):
        context.progress.step(f"turn {turn + 1}")
        feeds = {name: join.feed(PUSHES, batch) for name, join in joins.items()}
        if len({feed.results for feed in feeds.values()}) > 1:
            raise DisagreementError("orders found different numbers of results")
        for name, feed in feeds.items():
            rates[name].append(feed.rate)
    typical = {name: median(own) for name, own in rates.items()}
    fixed = [rate for name, rate in typical.items() if name != ADAPTIVE]
    lines: list[tuple[Cell, ...]] = [(name, rate, rate / min(fixed)) for name, rate in typical.items()]
    bars = [Series(name, [0.0], [rate]) for name, rate in typical.items()]
    return Result(
        tables=[Table("orders of b, c, d", ("order", "rows/s", "against the worst"), lines)],
        figures=[Figure("multiway_order", "Probe orders", [Panel("a star of 4", "", "rows/s", bars, bars=True)])],
        goals=[
            Goal("adaptive against the worst fixed order", typical[ADAPTIVE] / min(fixed), 2, at_least=True),
            Goal("adaptive against the best fixed order", typical[ADAPTIVE] / max(fixed), 0.9, at_least=True),
        ],
        runs=[{"order": name, "rates": own} for name, own in rates.items()],
    )


def _fixed(others: tuple[StreamName, ...]) -> dict[StreamName, Steps]:
    """Return the steps of every stream when the centre's neighbours are visited in this order."""
    steps = {
        other: (Step(("a",), other), *(Step((name,), "a") for name in others if name != other)) for other in others
    }
    return {**steps, "a": tuple(Step((name,), "a") for name in others)}


EXPERIMENT: Final = Experiment(
    "order",
    Description(
        purpose="what choosing the probe order by measured selectivity is worth",
        seed=SEED,
        shape="a star of 4 streams: a row of the centre meets 20, 0.05 and 2 rows of the others; 20,000 rows a window",
        expected="at least twice the worst fixed order, and as good as the best",
    ),
    run,
)
