"""What order costs: SplitJoin without stars, and with ever more of them, from relaxed outer to inner order (figure 19).

Two curves. *Ours* leaves out stars that have no result before them: there are at most as many as results, and the curve
ends where every result has its own. *Every star* sends all of them, as the paper does: one after so many stored
arrivals, matched or not. All are real: cores send them, mergers put them in order, and of one mark hand one on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from benchmarks.experiment import Context, Experiment
from benchmarks.report import Cell, Description, Figure, Panel, Result, Series, Table
from benchmarks.rig import Rig
from watersmeet.engine.row_numbers import numbers_of
from watersmeet.engine.topologies import splitjoin
from watersmeet.engine.topologies.punctuation import END, Run
from watersmeet.engine.topologies.splitjoin import JoinCore
from watersmeet.spec.ordering import Order, relaxed

__all__ = ["EXPERIMENT"]

SEED: Final = 63
WINDOW: Final = 1 << 14
ROWS: Final = 2048
BLOCK: Final = 64
VALUES: Final = 1000
ROWS_APART: Final = (1 << 10, 1 << 6, 1 << 3)
STORED_APART: Final = (1 << 14, 1 << 12, 1 << 10, 1 << 8, 1 << 6, 1 << 4, 1)
EVERY_STAR: Final = (1 << 14, 1 << 12, 1 << 10, 1 << 8, 1 << 6)
"""More stars than these are too many for a message."""
TURNS: Final = 3


class CountingCore(JoinCore):
    """Counts the stars it sends."""

    sent: Final[list[int]] = []

    def punctuated(self, *given: Any) -> Run:  # noqa: ANN401 -- passed on
        """Put stars between what a block found."""
        run = super().punctuated(*given)
        self.sent.append(len(run.ends))
        return run


class EveryStarCore(CountingCore):
    """Sends stars with no result before them too: after every row, and every so many stored arrivals of the window."""

    def punctuated(self, block: Any, *given: Any) -> Run:  # noqa: ANN401 -- passed on
        """Add the stars that were left out."""
        run = super().punctuated(block, *given)
        order = self._layout.order
        assert order is not None
        assert order.comparisons is not None
        length = self._layout.plan.length(block.batch.side)
        first = int(numbers_of(block.batch.rows)[0])
        marks = np.arange(max(0, first - 2 * length) // order.comparisons, first // order.comparisons + 1)
        inner = np.tile(np.append(marks, END), len(block.batch))
        outer = np.repeat(block.turn + np.arange(len(block.batch)), len(marks) + 1)
        keys, known = (_key(own, within, marks, block.turn) for own, within in ((outer, inner), (run.outer, run.inner)))
        ends = np.append(0, run.ends)[np.searchsorted(known, keys, "right")]
        self.sent[-1] = len(ends)
        return replace(run, ends=ends, outer=outer, inner=inner, of_left=np.full(len(ends), run.of_left[0]))


def _key(outer: Any, inner: Any, marks: Any, turn: int) -> Any:  # noqa: ANN401 -- arrays
    """Return marks as one number each."""
    within = np.where(inner == END, len(marks), np.minimum(inner, marks[-1]) - marks[0])
    return (outer - turn) * (len(marks) + 1) + np.maximum(within, 0)


def run(context: Context) -> Result:
    """Measure precision after precision."""
    cores = min(os.cpu_count() or 1, 16)
    window, rows = context.size(WINDOW, 1 << 12), context.size(ROWS, 256)
    orders: list[tuple[str, Order | None, type[CountingCore]]] = [("no stars", None, CountingCore)]
    orders += [(f"a star every {n:,} rows", relaxed(rows=n), CountingCore) for n in ROWS_APART]
    orders += [("outer order", "outer", CountingCore)]
    orders += [(_inner(n), relaxed(comparisons=n), CountingCore) for n in STORED_APART]
    orders += [(_inner(n) + EVERY, relaxed(comparisons=n), EveryStarCore) for n in EVERY_STAR]
    rates: dict[str, float] = {}
    sent: dict[str, float] = {}
    pairs: set[int] = set()
    for name, order, core in orders:
        context.progress.step(name)
        with patch.object(splitjoin, "JoinCore", core):
            rig = Rig("splitjoin", window, cores, BLOCK, SEED, order=order, values=VALUES)
        pairs.add(rig.feed(rows)[1])
        CountingCore.sent.clear()
        rates[name] = rig.rate(rows, context.size(TURNS, 1))
        sent[name] = sum(CountingCore.sent) / (2 * (context.size(TURNS, 1) * rows + BLOCK) * cores)
        rig.close()
    assert len(pairs) == 1, "order does not change which pairs there are"
    unordered = rates["no stars"]
    lines: list[tuple[Cell, ...]] = [(name, rate, rate / unordered, sent[name]) for name, rate in rates.items()]
    return Result(
        tables=[
            Table(
                f"splitjoin on {cores} cores, nested loops, windows of {window:,} rows a side",
                ("precision", "rows/s", "against no stars", "stars a row and core"),
                lines,
            )
        ],
        figures=[
            Figure(
                "ordering",
                "What order costs",
                [
                    Panel(
                        f"splitjoin, {cores} cores",
                        "stored rows between two stars",
                        "rows/s",
                        [
                            _series("stars that close something", STORED_APART, lambda n: rates[_inner(n)]),
                            _series("every star", EVERY_STAR, lambda n: rates[_inner(n) + EVERY]),
                            _series("outer order", STORED_APART, lambda _: rates["outer order"]),
                            _series("no stars", STORED_APART, lambda _: unordered),
                        ],
                        y_log=False,
                    )
                ],
            )
        ],
        runs=[{"what": name, "rate": rate, "stars": sent[name]} for name, rate in rates.items()],
    )


EVERY: Final = ", empty ones too"


def _inner(apart: int) -> str:
    return "inner order" if apart == 1 else f"a star every {apart:,} stored rows"


def _series(name: str, apart: tuple[int, ...], rate: Callable[[int], float]) -> Series:
    return Series(name, [float(n) for n in apart], [rate(n) for n in apart])


EXPERIMENT: Final = Experiment(
    "ordering",
    Description(
        purpose="what relaxed, outer and inner order cost SplitJoin",
        seed=SEED,
        shape="the papers' 2-D band, values to 1,000, windows of 16K rows a side, blocks of 64 rows",
        expected="outer order costs little; stars within a row's results cost by their number, which results bound",
    ),
    run,
)
