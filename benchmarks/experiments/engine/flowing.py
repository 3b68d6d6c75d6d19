"""What order costs handshake join: how late a pair comes, in rows, and at which rate.

Punctuations flow with the rows, so a row's pairs are released when those behind it have met: with windows of ``a``
and ``b`` rows, after about ``ab / (a + b)`` rows of each stream, half a window where both are equal. This does not
depend on the machine, as rows move by number. Rates are taken turn by turn, with and without an order.
"""

from __future__ import annotations

from typing import Final

import numpy as np

import watersmeet as wm
from benchmarks.experiment import Context, Experiment, median, seconds_of
from benchmarks.report import Cell, Description, Figure, Panel, Result, Series, Table
from benchmarks.rig import ON, Rig, band_rows
from watersmeet.spec.ordering import Order

__all__ = ["EXPERIMENT"]

SEED: Final = 71
WINDOWS: Final = ((4096, 4096), (4096, 12_288), (1024, 7168))
"""Rows of the left and of the right window."""
PUSH: Final = 64
BLOCK: Final = 16
CORES: Final = (2, 4, 8)
VALUES: Final = 500
RATE_WINDOW: Final = 1 << 13
RATE_BLOCK: Final = 64
TURNS: Final = 5


def run(context: Context) -> Result:
    """Count delays, then take rates."""
    lines: list[tuple[Cell, ...]] = []
    for left, right in WINDOWS[: context.size(len(WINDOWS), 1)]:
        for cores in CORES[: context.size(len(CORES), 1)]:
            context.progress.step(f"windows of {left:,} and {right:,} rows, {cores} cores")
            mean, most = _delay(left, right, cores)
            theory = left * right / (left + right)
            lines.append((left, right, cores, theory, mean, most, mean / theory))
    rates = _rates(context)
    return Result(
        tables=[
            Table(
                f"rows of each stream until a pair in outer order is released, pushes of {PUSH} rows",
                ("left window", "right window", "cores", "ab / (a + b)", "mean", "most", "mean against theory"),
                lines,
                "of rows that come when both windows are full",
            ),
            Table(
                f"handshake, nested loops, windows of {RATE_WINDOW:,} rows, blocks of {RATE_BLOCK}",
                ("cores", "no order, rows/s", "outer order, rows/s", "outer against none"),
                rates,
                "medians of turns",
            ),
        ],
        figures=[
            Figure(
                "flowing",
                "Handshake join in outer order",
                [
                    Panel(
                        f"{left:,} and {right:,} rows",
                        "cores",
                        "rows until a pair is released",
                        [
                            Series("measured, mean", *_curve(lines, left, right, 4)),
                            Series("ab / (a + b)", *_curve(lines, left, right, 3)),
                        ],
                        y_log=False,
                    )
                    for left, right in sorted({(int(line[0] or 0), int(line[1] or 0)) for line in lines})
                ],
            )
        ],
        runs=[{"what": "delays", "lines": lines}, {"what": "rates", "lines": rates}],
    )


def _curve(lines: list[tuple[Cell, ...]], left: int, right: int, column: int) -> tuple[list[float], list[float]]:
    some = [line for line in lines if line[:2] == (left, right)]
    return [float(line[2] or 0) for line in some], [float(line[column] or 0) for line in some]


def _delay(left: int, right: int, cores: int) -> tuple[float, int]:
    """Return after how many rows of each stream a pair is released, the mean and the most."""
    schemas = {side: table.schema for side, table in band_rows(0, 0, seed=SEED).items()}
    window = wm.count_window(left=left, right=right)
    late: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    full, end = max(left, right), 2 * max(left, right)
    with wm.StreamJoin(
        left=schemas["left"],
        right=schemas["right"],
        on=ON,
        window=window,
        topology="handshake",
        cores=cores,
        order="outer",
        block_rows=BLOCK,
    ) as join:
        for first in range(0, end, PUSH):
            rows = band_rows(first, PUSH, seed=SEED, values=VALUES)
            pairs = join.push(rows["left"], rows["right"])
            later = np.maximum(np.asarray(pairs["id"]), np.asarray(pairs["number"]))
            late.append(first - later[later >= full] // PUSH * PUSH)
    together = np.concatenate(late)
    return float(together.mean()), int(together.max())


def _rates(context: Context) -> list[tuple[Cell, ...]]:
    rows = context.size(4096, 256)
    lines: list[tuple[Cell, ...]] = []
    orders: tuple[Order | None, ...] = (None, "outer")
    for cores in (1, 2):
        context.progress.step(f"rates, {cores} cores")
        rigs = [
            Rig("handshake", context.size(RATE_WINDOW, 1 << 10), cores, RATE_BLOCK, SEED, order=order, values=2000)
            for order in orders
        ]
        for rig in rigs:
            rig.feed(RATE_BLOCK)
        seconds = [[seconds_of(lambda rig=rig: rig.feed(rows)) for rig in rigs] for _ in range(context.size(TURNS, 1))]  # type: ignore[misc] # each its own
        for rig in rigs:
            rig.close()
        plain, ordered = (2 * rows / median([turn[at] for turn in seconds]) for at in range(2))
        lines.append((cores, plain, ordered, median([turn[0] / turn[1] for turn in seconds])))
    return lines


EXPERIMENT: Final = Experiment(
    "flowing",
    Description(
        purpose="how late handshake join gives pairs in order, and at which rate",
        seed=SEED,
        shape="the papers' 2-D band, count windows of equal and unequal length, pushes of 64 rows a side",
        expected="ab / (a + b) rows of each stream; the rate falls a little",
    ),
    run,
)
