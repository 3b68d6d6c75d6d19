"""``watersmeet demo --in-process``: pushes both streams a tenth of a second at a time, as fast as the join takes them.

DuckDB checks the result, or NumPy if DuckDB is not installed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet import StreamJoin
from watersmeet.cli.demo.market import (
    COUNT_PAIRS,
    MICROSECOND,
    ON,
    PRICE_BAND,
    QUESTION,
    ROWS_PER_SECOND,
    WINDOW,
    WINDOW_LENGTH,
    cut,
    describe,
    generate,
    moments,
)
from watersmeet.cli.demo.screen import SHOWN, LiveLine, judge, say, show_pairs, stage, status
from watersmeet.cli.extras import is_installed

__all__ = ["join_in_process", "warm_up"]

BATCH: Final = timedelta(milliseconds=100)
CELLS_AT_ONCE: Final = 1 << 22


@dataclass
class _Tally:
    """Rows, pairs and time so far."""

    rows: int = 0
    pairs: int = 0
    seconds: float = 0.0


def join_in_process(*, rows: int, seed: int) -> int:
    """Generate, join, show and check; return 0 when the check agrees."""
    with stage("kernels are loaded, and compiled where they never were"):
        warm_up()
    trades, quotes = generate(rows, seed)
    say(f"{describe(trades, quotes, seed)}, in batches of {BATCH // timedelta(milliseconds=1)} ms of their time")
    say(QUESTION)
    join = _build(trades, quotes)
    tally, first = _join(join, trades, quotes)
    show_pairs(first, tally.pairs)
    say(
        f"\njoined {tally.rows:,} rows into {tally.pairs:,} pairs in {tally.seconds:.2f} s:"
        f" {tally.rows / tally.seconds:,.0f} rows/s, {tally.pairs / tally.seconds:,.0f} pairs/s"
        "\n(time inside push() alone, on one core; generating rows, compiling and printing are not in it)\n"
    )
    say(join.explain())
    return _prove(trades, quotes, tally.pairs)


def _build(trades: pa.Table, quotes: pa.Table) -> StreamJoin:
    return StreamJoin(left=trades.schema, right=quotes.schema, on=ON, window=WINDOW)


def warm_up() -> None:
    """Compile what the join will use, on other rows, or load it from the cache of an earlier time."""
    trades, quotes = generate(2 * ROWS_PER_SECOND, seed=0)
    join = _build(trades, quotes)
    for left, right in cut(trades, quotes, BATCH):
        join.push(left=left, right=right)


def _join(join: StreamJoin, trades: pa.Table, quotes: pa.Table) -> tuple[_Tally, pa.Table]:
    """Push all batches and show the progress; return the totals and the first pairs."""
    tally = _Tally()
    first = join.schema.empty_table()
    batches = cut(trades, quotes, BATCH)
    with LiveLine(len(batches), "joining") as line:
        for number, (left, right) in enumerate(batches, 1):
            begin = time.perf_counter()
            pairs = join.push(left=left, right=right)
            tally.seconds += time.perf_counter() - begin
            tally.rows += left.num_rows + right.num_rows
            tally.pairs += pairs.num_rows
            if first.num_rows < SHOWN:
                first = pa.concat_tables([first, pairs.slice(0, SHOWN - first.num_rows)])
            line.show(number, _status(join, tally))
    join.finish()
    return tally, first


def _status(join: StreamJoin, tally: _Tally) -> str:
    metrics = join.metrics
    watermark = None
    if metrics.watermark is not None:
        watermark = datetime.fromtimestamp(0, UTC) + metrics.watermark * MICROSECOND
    window_rows = metrics.left_window_rows + metrics.right_window_rows
    return status(tally.rows / tally.seconds, tally.pairs / tally.seconds, window_rows, watermark)


def _prove(trades: pa.Table, quotes: pa.Table, pairs: int) -> int:
    """Compute the number of pairs in another way, and say whether it is the same."""
    by_duckdb = is_installed("duckdb")
    begin = time.perf_counter()
    say()
    with stage("checking"):
        expected = _count_with_duckdb(trades, quotes) if by_duckdb else _count_with_numpy(trades, quotes)
    how = "DuckDB, one batch join over all rows" if by_duckdb else "NumPy, comparing all rows of near price"
    return judge(how, expected, pairs, time.perf_counter() - begin)


def _count_with_duckdb(trades: pa.Table, quotes: pa.Table) -> int:
    import duckdb  # noqa: PLC0415 -- where it is installed

    connection = duckdb.connect()
    for name, table, price in (("trades", trades, "price"), ("quotes", quotes, "bid")):
        columns = {"symbol": table["symbol"], "moment": moments(table), price: table[price]}
        connection.register(name, pa.table(columns))
    ((count,),) = connection.execute(COUNT_PAIRS).fetchall()
    return int(count)


def _count_with_numpy(trades: pa.Table, quotes: pa.Table) -> int:
    """Count by comparing the time of every trade with that of all quotes of its symbol whose bid is near its price."""
    count = 0
    reach = WINDOW_LENGTH // MICROSECOND
    symbols = [np.asarray(table["symbol"]) for table in (trades, quotes)]
    prices = [np.asarray(trades["price"]), np.asarray(quotes["bid"])]
    traded, all_quoted = moments(trades), moments(quotes)
    for symbol in np.unique(symbols[0]):
        mine, theirs = (np.flatnonzero(column == symbol) for column in symbols)
        theirs = theirs[np.argsort(prices[1][theirs])]
        price, bid, quoted = prices[0][mine], prices[1][theirs], all_quoted[theirs]
        first = np.searchsorted(bid, price - PRICE_BAND, "left")
        last = np.searchsorted(bid, price + PRICE_BAND, "right")
        widest = int((last - first).max(initial=0))
        step = max(1, CELLS_AT_ONCE // max(1, widest))
        for begin in range(0, len(mine), step):
            some = slice(begin, begin + step)
            row = first[some, None] + np.arange(widest)
            near = np.abs(quoted[np.minimum(row, len(bid) - 1)] - traded[mine[some], None]) <= reach
            count += int(np.count_nonzero(near & (row < last[some, None])))
    return count
