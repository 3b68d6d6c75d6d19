"""What the choice of the probe order is worth: against all fixed orders of a star, and with equalities that follow."""

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
CHAIN: Final = "a.x = b.x AND b.x = c.x"
MANY: Final = 20
"""Rows of b with a key of a; c has hardly any."""


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
    closed, given = _with_derived(context, window, batch)
    typical = {name: median(own) for name, own in rates.items()}
    fixed = [rate for name, rate in typical.items() if name != ADAPTIVE]
    lines: list[tuple[Cell, ...]] = [(name, rate, rate / min(fixed)) for name, rate in typical.items()]
    bars = [Series(name, [0.0], [rate]) for name, rate in typical.items()]
    return Result(
        tables=[
            Table("orders of b, c, d", ("order", "rows/s", "against the worst"), lines),
            Table(
                f"{CHAIN}: a row of a meets {MANY} of b, hardly one of c",
                ("equalities", "rows/s"),
                [("as given", given), ("with a.x = c.x, which follows", closed)],
            ),
        ],
        figures=[Figure("multiway_order", "Probe orders", [Panel("a star of 4", "", "rows/s", bars, bars=True)])],
        goals=[
            Goal("adaptive against the worst fixed order", typical[ADAPTIVE] / min(fixed), 2, at_least=True),
            Goal("adaptive against the best fixed order", typical[ADAPTIVE] / max(fixed), 0.9, at_least=True),
            Goal("with the equality that follows, against without", closed / given, 1, at_least=True),
        ],
        runs=[{"order": name, "rates": own} for name, own in rates.items()],
    )


def _with_derived(context: Context, window: int, batch: int) -> tuple[float, float]:
    """Return the rates of a chain of equal keys with and without the equality of its ends."""
    values = {"x": window // MANY, "c.x": MANY * window}
    joins = [
        ManyStreams(3, CHAIN, window, values, SEED, strategy="circular", closes=closes) for closes in (True, False)
    ]
    for join in joins:
        join.fill(batch)
    rates: list[list[float]] = [[], []]
    for turn in range(TURNS):
        context.progress.step(f"equalities that follow, turn {turn + 1}")
        feeds = [join.feed(PUSHES, batch) for join in joins]
        if len({feed.results for feed in feeds}) > 1:
            raise DisagreementError(f"{CHAIN}: with and without a.x = c.x found {[feed.results for feed in feeds]}")
        for own, feed in zip(rates, feeds, strict=True):
            own.append(feed.rate)
    closed, given = map(median, rates)
    return closed, given


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
