"""Joins that make a window fall back to looking at nearly every row, if its order is chosen badly.

- *equality on few keys, and a band*: the equality alone lets an eighth of the window through;
- *band, and a short time window*: the band alone lets a sixteenth of the batch through;
- *a day in one push*: the batch spans many thousand windows.

The first two give as many pairs as a plain band does, so their times are held against its time. The day in one push is
held against the same day in pushes of one second, and must give the same pairs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.experiment import Context, Experiment, median
from benchmarks.report import Cell, Description, Result, Table
from benchmarks.ticks import Ticks, generated_ticks, read_ticks
from watersmeet import StreamJoin, band, equal, time_window
from watersmeet.spec.expression import Predicate

__all__ = ["EXPERIMENT"]

SEED: Final = 80
DAY: Final = "20131007"
PRICE_BAND: Final = 500
WINDOW: Final = 1 << 20
BATCH: Final = 1 << 15
SHORT_WINDOW: Final = 16
KINDS: Final = 8
KEY_RANGE: Final = 1 << 31
REPETITIONS: Final = 5
PUSHES: Final = 20
SECOND: Final = 1_000_000
QUICK_SECONDS: Final = 300
OPENING, NOON, CLOSE = 34_200, 43_200, 57_600
"""Market hours and noon, in seconds since midnight."""


@dataclass
class _Case:
    """A join that is fed batch after batch."""

    name: str
    on: Predicate
    window: int
    batch: int

    def __post_init__(self) -> None:
        self.number = 0
        schema = self._rows("left").schema
        length = timedelta(microseconds=self.window)
        self.join = StreamJoin(left=schema, right=schema, on=self.on, window=time_window(length, ts="ts"))

    def _rows(self, side: str) -> pa.Table:
        rng = np.random.default_rng((SEED, side == "right", self.number))
        first = self.number * self.batch
        return pa.table(
            {
                "key": rng.integers(0, KEY_RANGE, self.batch),
                "kind": rng.integers(0, KINDS, self.batch),
                "ts": pa.array(np.arange(first, first + self.batch), pa.timestamp("us")),
            }
        )

    def push(self, pushes: int) -> tuple[float, int]:
        """Push so many times; return seconds and pairs."""
        seconds, pairs = 0.0, 0
        for _ in range(pushes):
            left, right = self._rows("left"), self._rows("right")
            begin = time.perf_counter()
            pairs += self.join.push(left=left, right=right).num_rows
            seconds += time.perf_counter() - begin
            self.number += 1
        return seconds, pairs


def run(context: Context) -> Result:
    """Measure the batch-wise cases, then the day."""
    result = Result()
    _cases(context, result)
    _day(context, result)
    return result


def _cases(context: Context, result: Result) -> None:
    window, batch = context.size(WINDOW), context.size(BATCH, BATCH // 16)
    one_match = KEY_RANGE // (2 * window)
    cases = [
        _Case("band alone", band("key", "key", one_match), window, batch),
        _Case(f"equality on {KINDS} keys, band", equal("kind") & band("key", "key", KINDS * one_match), window, batch),
        _Case("wide band, short window", band("key", "key", KEY_RANGE // 2 // SHORT_WINDOW), SHORT_WINDOW, batch),
    ]
    for case in cases:
        context.progress.step(f"filling: {case.name}")
        case.push(2 * window // batch)
    milliseconds: dict[str, list[float]] = {case.name: [] for case in cases}
    pairs = dict.fromkeys(milliseconds, 0)
    for number in range(REPETITIONS):
        for case in cases:
            context.progress.step(f"repetition {number + 1} of {REPETITIONS}: {case.name}")
            seconds, pairs[case.name] = case.push(PUSHES)
            milliseconds[case.name].append(1000 * seconds / PUSHES)
            result.runs.append({"case": case.name, "pushes": PUSHES, "seconds": seconds, "pairs": pairs[case.name]})
    reference = median(milliseconds[cases[0].name])
    lines: list[tuple[Cell, ...]] = [
        (name, pairs[name] / (2 * batch * PUSHES), median(each), median(each) / reference)
        for name, each in milliseconds.items()
    ]
    result.tables.append(
        Table(
            f"time of a push of 2 x {batch:,} rows, window {window:,} rows ({SHORT_WINDOW} rows in the last case)",
            ("join", "pairs a row", "ms a push", "ratio to band alone"),
            lines,
        )
    )
    result.notes += [f"{case.name}: {_order(case.join)}" for case in cases]


def _day(context: Context, result: Result) -> None:
    """Push a day of trades and quotes at once, then second by second."""
    (trades, quotes), source = _ticks(context)
    seconds, pairs = {}, {}
    joins: dict[str, StreamJoin] = {}
    _push_at_once(
        _price_join((trades.slice(0, 1000), quotes.slice(0, 1000))), trades.slice(0, 1000), quotes.slice(0, 1000)
    )
    for name, push in (("one push", _push_at_once), ("pushes of one second", _push_by_second)):
        context.progress.step(f"a day of ticks: {name}")
        join = joins[name] = _price_join((trades, quotes))
        begin = time.perf_counter()
        pairs[name] = push(join, trades, quotes)
        seconds[name] = time.perf_counter() - begin
        result.runs.append({"case": f"day, {name}", "seconds": seconds[name], "pairs": pairs[name]})
    rows = trades.num_rows + quotes.num_rows
    lines: list[tuple[Cell, ...]] = [
        (name, pairs[name], taken, rows / taken, taken / seconds["one push"]) for name, taken in seconds.items()
    ]
    result.tables.append(
        Table(
            f"a day of {source}: {trades.num_rows:,} trades and {quotes.num_rows:,} quotes,"
            f" band {PRICE_BAND} on price, equality on symbol, window 1 second",
            ("pushed as", "pairs", "seconds", "rows/s", "ratio to one push"),
            lines,
        )
    )
    if len(set(pairs.values())) > 1:
        result.notes.append(f"WRONG: the two ways give different pairs: {pairs}")
    result.notes += [f"day, {name}: {_order(join)}" for name, join in joins.items()]


def _ticks(context: Context) -> tuple[Ticks, str]:
    if context.data is None:
        count, seconds = context.size(100_000), context.size(CLOSE - OPENING, QUICK_SECONDS)
        return generated_ticks(count, 6 * count, seconds=seconds, seed=SEED), "generated ticks"
    start, stop = (NOON, NOON + QUICK_SECONDS) if context.quick else (OPENING, CLOSE)
    trades, quotes = (_between(ticks, start, stop) for ticks in read_ticks(context.data, DAY))
    return (trades, quotes), f"market ticks ({DAY})"


def _between(ticks: pa.Table, start: int, stop: int) -> pa.Table:
    first, last = np.searchsorted(_moments(ticks), [SECOND * start, SECOND * stop])
    return ticks.slice(first, last - first)


def _moments(ticks: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(ticks.column("ts")).astype(np.int64)


def _price_join(ticks: Ticks) -> StreamJoin:
    return StreamJoin(
        left=ticks[0].schema,
        right=ticks[1].schema,
        on=band("price", "bid", PRICE_BAND) & equal("symbol"),
        window=time_window("1 second", ts="ts"),
    )


def _push_at_once(join: StreamJoin, trades: pa.Table, quotes: pa.Table) -> int:
    return int(join.push(left=trades, right=quotes).num_rows)


def _push_by_second(join: StreamJoin, trades: pa.Table, quotes: pa.Table) -> int:
    moments = [_moments(ticks) for ticks in (trades, quotes)]
    begin = min(int(moment[0]) for moment in moments)
    end = max(int(moment[-1]) for moment in moments)
    borders = np.arange(begin, end + 2 * SECOND, SECOND)
    cuts = [np.searchsorted(moment, borders).tolist() for moment in moments]
    pairs = 0
    for at in range(len(borders) - 1):
        left, right = (
            ticks.slice(cut[at], cut[at + 1] - cut[at]) for ticks, cut in zip((trades, quotes), cuts, strict=True)
        )
        if left.num_rows or right.num_rows:
            pairs += join.push(left=left, right=right).num_rows
    return pairs


def _order(join: StreamJoin) -> str:
    """Return what ``explain`` says of the newest subwindow's order."""
    lines = [line.partition(":")[2].strip() for line in join.explain().splitlines() if "newest subwindow" in line]
    return lines[0] if lines else "no rows are left in the windows"


EXPERIMENT: Final = Experiment(
    "cliffs",
    Description(
        purpose="joins that turn into scans if the window's order is chosen badly",
        seed=SEED,
        shape="uniform keys, window 1M rows, batches of 32K rows a side; and a day of trades and quotes",
        expected="one pair per row in the first three; the same pairs of the day however it is pushed; ratios near 1",
    ),
    run,
)
