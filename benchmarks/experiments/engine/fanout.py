"""How wide SplitJoin's trees should be: distributors and mergers that serve 2, 4, 8 ... others each.

A narrow tree has more threads and more messages in all, but each node hands fewer on, one after the other. All nodes
are threads: those of distribution always, those of gathering with an order. The paper has trees of two on 32 cores; on
a machine with fewer cores than threads the threads take turns, and what counts is the processor time that a row takes,
which says more than the rate where others use the machine.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final, Literal

from benchmarks.experiment import Context, Experiment, median
from benchmarks.report import Cell, Description, Figure, Panel, Result, Series, Table
from benchmarks.rig import Rig
from watersmeet.engine.topologies.contract import Layout
from watersmeet.engine.topologies.splitjoin import SplitJoin

__all__ = ["EXPERIMENT"]

SEED: Final = 70
WINDOW: Final = 1 << 14
CORES: Final = 16
FANOUTS: Final = (2, 4, 8, 16)
ROWS: Final = 2048
SMALL_PUSH: Final = 16
BLOCK: Final = 64
VALUES: Final = 2000
TURNS: Final = 5
ORDERS: Final[tuple[Literal["outer"] | None, ...]] = (None, "outer")


class Tree(SplitJoin):
    """SplitJoin that tells how many threads it has beside its cores."""

    @property
    def others(self) -> int:
        """Distributors and mergers."""
        return len(self._crew._threads) - len(self._cores)  # noqa: SLF001 -- only to be counted


def run(context: Context) -> Result:
    """Measure all trees turn by turn, with and without an order."""
    window, rows = context.size(WINDOW, 1 << 11), context.size(ROWS, 128)
    rigs = {}
    for order in ORDERS:
        for fanout in FANOUTS:

            def build(layout: Layout, fanout: int = fanout) -> Tree:
                return Tree(replace(layout, fanout=fanout))

            context.progress.step(f"filling windows, fanout {fanout}, {order or 'no order'}")
            rig = Rig("splitjoin", window, CORES, BLOCK, SEED, order=order, values=VALUES, build=build)
            rig.feed(BLOCK)
            rigs[order, fanout] = rig
    seconds: dict[tuple[str | None, int], list[float]] = {key: [] for key in rigs}
    processor: dict[tuple[str | None, int], list[float]] = {key: [] for key in rigs}
    small: dict[tuple[str | None, int], list[float]] = {key: [] for key in rigs}
    for turn in range(context.size(TURNS, 1)):
        for key, rig in rigs.items():
            context.progress.step(f"turn {turn + 1}")
            before = time.process_time()
            seconds[key].append(rig.feed(rows)[0])
            processor[key].append((time.process_time() - before) / (2 * rows))
            small[key] += [rig.feed(SMALL_PUSH)[0] for _ in range(context.size(10, 2))]
    lines: list[tuple[Cell, ...]] = []
    for (order, fanout), rig in rigs.items():
        tree = rig.engine
        assert isinstance(tree, Tree), "built above"
        against = median([wide / own for own, wide in zip(seconds[order, fanout], seconds[order, CORES], strict=True)])
        rate = 2 * rows / median(seconds[order, fanout])
        cells = (order or "none", fanout, tree.others, rate, against, 1e6 * median(processor[order, fanout]))
        lines.append((*cells, 1000 * median(small[order, fanout])))
        rig.close()
    return Result(
        tables=[
            Table(
                f"splitjoin on {CORES} cores, nested loops, windows of {window:,} rows a side",
                (
                    "order",
                    "fanout",
                    "distributors and mergers",
                    "rows/s",
                    "against the widest",
                    "processor microseconds a row",
                    f"a push of {SMALL_PUSH}, milliseconds",
                ),
                lines,
                "medians of turns",
            )
        ],
        figures=[
            Figure(
                "fanout",
                "SplitJoin's trees",
                [
                    Panel(
                        f"{CORES} cores",
                        "fanout",
                        "rows/s",
                        [
                            Series(
                                f"order: {order or 'none'}",
                                [float(fanout) for fanout in FANOUTS],
                                [2 * rows / median(seconds[order, fanout]) for fanout in FANOUTS],
                            )
                            for order in ORDERS
                        ],
                        y_log=False,
                    )
                ],
            )
        ],
        runs=[{"order": order, "fanout": fanout, "seconds": some} for (order, fanout), some in seconds.items()],
    )


EXPERIMENT: Final = Experiment(
    "fanout",
    Description(
        purpose="what the width of SplitJoin's distribution and gathering trees does to rate and latency",
        seed=SEED,
        shape="the papers' 2-D band, values to 2,000, windows of 16K rows, 16 cores as threads, blocks of 64 rows",
        expected="on fewer cores than threads: trees of two cost most where there is an order; else it matters little",
    ),
    run,
)
