"""What a stash is worth where it is hit, and what it costs where it is not."""

from __future__ import annotations

from typing import Final

from benchmarks.experiment import Context, DisagreementError, Experiment, median
from benchmarks.many import ManyStreams
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table
from watersmeet.engine.multiway.stashed import Stashed

__all__ = ["EXPERIMENT"]

SEED: Final = 72
WINDOW: Final = 50_000
BATCH: Final = 4_096
PUSHES: Final = 6
TURNS: Final = 5
ON: Final = "a.x = b.x AND a.y BETWEEN c.y - {reach} AND c.y + {reach}"
REACHES: Final = (1, 4, 16, 64)
"""A row of the third stream meets 2 * reach + 1 rows of the first; few of these have a match in the second."""
MOST_COST: Final = 1.1


def run(context: Context) -> Result:
    """Measure in turns, each strategy on the same rows: more and more matches with the third, a useless stash."""
    window, batch = context.size(WINDOW, 2_000), context.size(BATCH, 512)
    lines: list[tuple[Cell, ...]] = []
    gains = []
    result = Result()
    for reach in REACHES:
        context.progress.step(f"reach {reach}")
        feeds = _measured(
            ON.format(reach=reach), window, batch, {"x": 20 * window, "y": window}, ("circular", "stashed")
        )
        gains.append(feeds["stashed"][0] / feeds["circular"][0])
        lines.append((2 * reach + 1, feeds["circular"][0], feeds["stashed"][0], gains[-1], feeds["stashed"][1]))
        result.runs.append({"reach": reach, "circular": feeds["circular"][0], "stashed": feeds["stashed"][0]})
    columns = ("matches with c", "circular, rows/s", "stashed, rows/s", "stashed against circular", "hits a row of c")
    result.tables.append(Table(f"a stash that is hit: windows of {window:,} rows", columns, lines))
    context.progress.step("a stash without hits")
    feeds = _measured("a.x = b.x AND b.x = c.x", window, batch, {"x": window}, ("circular", "stashed:256"))
    cost = feeds["circular"][0] / feeds["stashed:256"][0]
    result.tables.append(
        Table(
            "a stash that holds too little to be hit: 256 pairs",
            ("circular, rows/s", "stashed, rows/s", "time against circular", "hits a row of c"),
            [(feeds["circular"][0], feeds["stashed:256"][0], cost, feeds["stashed:256"][1])],
        )
    )
    result.goals += [
        Goal("a stash that is hit, against circular", max(gains), 1, at_least=True),
        Goal("a stash without hits, time against circular", cost, MOST_COST, at_least=False),
    ]
    matches = [2.0 * reach + 1 for reach in REACHES]
    panel = Panel(
        "stashed", "matches of a row of c with a", "rate against circular", [Series("stashed", matches, gains)]
    )
    result.figures.append(Figure("multiway_stash", "What a stash is worth", [panel]))
    return result


def _measured(
    on: str, window: int, batch: int, values: dict[str, int], strategies: tuple[str, ...]
) -> dict[str, tuple[float, float]]:
    """Return the median rate of each strategy, and its hits per row of the third stream."""
    joins = {name: ManyStreams(3, on, window, values, SEED, strategy=name) for name in strategies}
    for join in joins.values():
        join.fill(batch)
    before = {name: _hits(join) for name, join in joins.items()}
    rates: dict[str, list[float]] = {name: [] for name in strategies}
    for _ in range(TURNS):
        feeds = {name: join.feed(PUSHES, batch) for name, join in joins.items()}
        if len({feed.results for feed in feeds.values()}) > 1:
            raise DisagreementError(f"{on}: strategies found { {name: feed.results for name, feed in feeds.items()} }")
        for name, feed in feeds.items():
            rates[name].append(feed.rate)
    rows = TURNS * PUSHES * batch
    return {name: (median(rates[name]), (_hits(join) - before[name]) / rows) for name, join in joins.items()}


def _hits(join: ManyStreams) -> int:
    return join.strategy.hits if isinstance(join.strategy, Stashed) else 0


EXPERIMENT: Final = Experiment(
    "stash",
    Description(
        purpose="what a stash is worth where it is hit, and what it costs where it is not",
        seed=SEED,
        shape="a and b match rarely, a row of c meets 3 to 129 rows of a; and 3 streams whose matches do not fit",
        expected="worth more the more rows look for a match in vain without it; costs next to nothing otherwise",
    ),
    run,
)
