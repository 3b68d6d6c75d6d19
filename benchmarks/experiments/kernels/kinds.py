"""Outer, semi and anti joins against the inner one: what it costs to know which rows meet nobody.

One join of each kind is fed the same rows, turn by turn, large pushes and small ones. The windows are full and rotate;
in a push all is inside the clock but generating rows. A row meets about one other on each side of it in time, so one
in seven meets nobody.
The answers must agree: an outer join has the inner join's pairs, an anti join the left join's rows that met nobody, and
semi and anti joins have each left row once between them, when all have finished.
"""

from __future__ import annotations

from typing import Final, get_args

import pyarrow as pa

from benchmarks.experiment import Context, DisagreementError, Experiment, median
from benchmarks.feed import Feed, Timed
from benchmarks.report import Cell, Description, Goal, Result, Table
from watersmeet.spec.kinds import How

__all__ = ["EXPERIMENT"]

SEED: Final = 70
WINDOW: Final = 1 << 20
BATCH: Final = 1 << 15
SMALL_BATCH: Final = 256
SMALL_PUSHES: Final = 1 << 9
TURNS: Final = 7
GOALS: Final[dict[How, float]] = {"left": 0.8, "right": 0.8, "full": 0.8, "semi": 0.95, "anti": 0.8}
KINDS: Final[tuple[How, ...]] = get_args(How)


class _CountingFeed(Feed):
    """Counts its results, and those of them that met nobody."""

    results = 0
    pairs = 0

    def count(self, table: pa.Table) -> None:
        """Take note of results; a null timestamp stands in place of a row that is missing."""
        missing = [table[name].null_count for name in ("left_ts", "right_ts") if name in table.column_names]
        self.results += table.num_rows
        self.pairs += table.num_rows - sum(missing)

    def timed(self, pushes: int) -> Timed:
        """Push so many times, and count what comes."""
        timed = Timed()
        for _ in range(pushes):
            pushed = self.push()
            timed.each.append(pushed.seconds)
            timed.cpu_seconds += pushed.cpu_seconds
            self.count(pushed.pairs)
        return timed


def run(context: Context) -> Result:
    """Fill all windows, then let the kinds take turns."""
    window, batch = context.size(WINDOW), context.size(BATCH, BATCH // 16)
    feeds = {how: _CountingFeed(window, batch, SEED, topology="panjoin", how=how) for how in KINDS}
    for how, feed in feeds.items():
        context.progress.step(f"{how} fills windows of {window:,} rows")
        feed.timed(2 * feed.rotation * 2 + 2)
    sizes = {"large": (batch, max(1, feeds["inner"].rotation)), "small": (SMALL_BATCH, context.size(SMALL_PUSHES, 32))}
    taken: dict[str, dict[How, list[Timed]]] = {size: {how: [] for how in KINDS} for size in sizes}
    for turn in range(context.size(TURNS, 2) + 1):
        context.progress.step(f"turn {turn}" if turn else "warming up")
        for size, (rows, pushes) in sizes.items():
            for how in KINDS[:: -1 if turn % 2 else 1]:
                feeds[how].cut_into(rows)
                timed = feeds[how].timed(pushes)
                context.noted.append({"what": how, "size": size, "turn": turn, "seconds": timed.seconds})
                if turn:
                    taken[size][how].append(timed)
    for feed in feeds.values():
        feed.count(feed.join.finish())
    _check(feeds)
    return _report(taken, sizes, window)


def _check(feeds: dict[How, _CountingFeed]) -> None:
    """Raise unless what the kinds gave fits together."""
    pairs = {how: feeds[how].pairs for how in ("inner", "left", "right", "full")}
    if len(set(pairs.values())) > 1:
        raise DisagreementError(f"the numbers of pairs differ: {pairs}")
    alone = {how: feeds[how].results - feeds[how].pairs for how in ("left", "right", "full")}
    anti, semi = feeds["anti"].results, feeds["semi"].results
    came = feeds["semi"].join.metrics.left_rows
    if alone["left"] != anti or alone["full"] != alone["left"] + alone["right"] or semi + anti != came:
        raise DisagreementError(f"{alone} rows met nobody, anti gave {anti}, semi {semi}, and {came} left rows came")


def _report(taken: dict[str, dict[How, list[Timed]]], sizes: dict[str, tuple[int, int]], window: int) -> Result:
    result = Result()
    lines: list[tuple[Cell, ...]] = []
    for size, kinds in taken.items():
        rows, pushes = sizes[size]
        seconds = {how: median([timed.seconds for timed in some]) for how, some in kinds.items()}
        processor = {how: median([timed.cpu_seconds for timed in some]) for how, some in kinds.items()}
        for how, some in kinds.items():
            ratio = seconds["inner"] / seconds[how]
            rate = 2 * rows * pushes / seconds[how]
            lines.append((how, rows, rate, ratio, processor["inner"] / processor[how], GOALS.get(how)))
            if how in GOALS:
                goal = f"rate of {how} to inner, pushes of {rows:,} rows a side"
                result.goals.append(Goal(goal, ratio, GOALS[how], at_least=True))
            result.runs += [
                {"what": how, "rows": rows, "seconds": one.each, "cpu_seconds": one.cpu_seconds} for one in some
            ]
    turns = len(taken["large"]["inner"])
    result.tables.append(
        Table(
            f"pushes into windows of {window:,} rows a side, one thread",
            ("how", "rows a side", "rows/s", "rate to inner", "by processor time", "goal"),
            lines,
            f"medians of {turns} turns",
        )
    )
    return result


EXPERIMENT: Final = Experiment(
    "kinds",
    Description(
        purpose="rows a second of outer, semi and anti joins against the inner one in one run",
        seed=SEED,
        shape="window 1M rows a side, batches of 32K and of 256 rows a side; int64 keys uniform in 2^31, a timestamp"
        " per microsecond, 8 bytes of payload; results materialised",
        expected="about one pair per row; left, right, full and anti at least 0.8 of inner's rate, semi at least 0.95",
    ),
    run,
)
