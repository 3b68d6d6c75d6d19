"""``watersmeet demo``: trades meet the quotes of the last second, in micro-batches, and the result is proved.

Two streams are generated from a seed and pushed a tenth of a second at a time, as fast as the join takes them. At the
end the number of pairs is computed once more, from all rows at once and without anything of ours: by DuckDB where it
is installed, else by NumPy.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet import StreamJoin, band, equal, time_window
from watersmeet.cli.bench.report import Table, format_table
from watersmeet.cli.extras import is_installed, load

__all__ = ["DEFAULT_ROWS", "run_demo"]

Int64s = npt.NDArray[np.int64]

DEFAULT_ROWS: Final = 1_500_000
SYMBOLS: Final = 100
QUOTES_PER_TRADE: Final = 4
ROWS_PER_SECOND: Final = 100_000
"""Rows of both streams per second of their own time."""
PRICE_BAND: Final = 25
"""Prices are in hundredths of a cent, as exchanges give them."""
SCATTER: Final = 2_000
WINDOW: Final = timedelta(seconds=1)
BATCH: Final = timedelta(milliseconds=100)
MICROSECOND: Final = timedelta(microseconds=1)
OPENING: Final = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
SHOWN: Final = 8
LIVE_SECONDS: Final = 0.1
PLAIN_LINES: Final = 5
CELLS_AT_ONCE: Final = 1 << 22


@dataclass
class _Tally:
    """What has been measured so far."""

    rows: int = 0
    pairs: int = 0
    seconds: float = 0.0


def run_demo(*, rows: int, seed: int) -> int:
    """Generate, join, show and check; return 0 when the check agrees."""
    trades, quotes = _generate(rows, seed)
    print(
        f"{trades.num_rows:,} trades and {quotes.num_rows:,} quotes of {SYMBOLS} symbols (seed {seed}), in batches of"
        f" {BATCH // timedelta(milliseconds=1)} ms of their time"
    )
    print("compiling on first use ...", flush=True)
    begin = time.perf_counter()
    _warm_up()
    print(f"compiled and warmed up in {time.perf_counter() - begin:.1f} s; the clock for the rates starts now\n")
    join = _build(trades, quotes)
    tally, first = _join(join, trades, quotes)
    _show(join, tally, first)
    return _prove(trades, quotes, tally.pairs)


def _generate(rows: int, seed: int) -> tuple[pa.Table, pa.Table]:
    """Return trades and quotes in the order of time: prices scattered around a slow walk of each symbol."""
    rng = np.random.default_rng(seed)
    names = np.array([f"S{number:02d}" for number in range(SYMBOLS)])
    base = rng.integers(100_000, 2_000_000, SYMBOLS)
    opening = int(OPENING.timestamp() * 1_000_000)
    span = max(1, rows * 1_000_000 // ROWS_PER_SECOND)
    trades = max(1, rows // (1 + QUOTES_PER_TRADE))

    def stream(count: int, price: str, extra: str) -> pa.Table:
        moment = np.sort(rng.integers(0, span, count))
        symbol = rng.integers(0, SYMBOLS, count)
        walk = SCATTER * np.sin(moment / 3_000_000 + symbol)
        value = (base[symbol] + walk + rng.normal(0, SCATTER, count)).astype(np.int64)
        return pa.table(
            {
                "ts": pa.array(opening + moment, pa.timestamp("us", "UTC")),
                "symbol": pa.array(names).take(pa.array(symbol)),
                price: value,
                extra: 100 * rng.integers(1, 20, count),
            }
        )

    return stream(trades, "price", "size"), stream(max(1, rows - trades), "bid", "bid_size")


def _build(trades: pa.Table, quotes: pa.Table) -> StreamJoin:
    return StreamJoin(
        left=trades.schema,
        right=quotes.schema,
        on=band("price", "bid", PRICE_BAND) & equal("symbol"),
        window=time_window(WINDOW, ts="ts"),
    )


def _warm_up() -> None:
    """Compile what the join will use, on other rows."""
    trades, quotes = _generate(2 * ROWS_PER_SECOND, seed=0)
    join = _build(trades, quotes)
    for left, right in _batches(trades, quotes):
        join.push(left=left, right=right)


def _batches(trades: pa.Table, quotes: pa.Table) -> list[tuple[pa.Table, pa.Table]]:
    """Return both streams cut at the same moments."""
    moments = [_moments(table) for table in (trades, quotes)]
    begin = min(int(moment[0]) for moment in moments)
    end = max(int(moment[-1]) for moment in moments)
    borders = np.arange(begin, end + 1 + BATCH // MICROSECOND, BATCH // MICROSECOND)
    cuts = [np.searchsorted(moment, borders).tolist() for moment in moments]
    left, right = (
        [table.slice(cut[at], cut[at + 1] - cut[at]) for at in range(len(borders) - 1)]
        for table, cut in zip((trades, quotes), cuts, strict=True)
    )
    return list(zip(left, right, strict=True))


def _moments(table: pa.Table) -> Int64s:
    return np.asarray(table.column("ts")).astype(np.int64)


def _join(join: StreamJoin, trades: pa.Table, quotes: pa.Table) -> tuple[_Tally, pa.Table]:
    """Push all batches, showing how it goes; return the totals and the first pairs."""
    live = sys.stdout.isatty()
    tally = _Tally()
    first = join.schema.empty_table()
    batches = _batches(trades, quotes)
    shown = time.perf_counter()
    for number, (left, right) in enumerate(batches, 1):
        begin = time.perf_counter()
        pairs = join.push(left=left, right=right)
        tally.seconds += time.perf_counter() - begin
        tally.rows += left.num_rows + right.num_rows
        tally.pairs += pairs.num_rows
        if first.num_rows < SHOWN:
            first = pa.concat_tables([first, pairs.slice(0, SHOWN - first.num_rows)])
        if live and (time.perf_counter() - shown >= LIVE_SECONDS or number == len(batches)):
            shown = time.perf_counter()
            print(f"\r\x1b[2K{_status(join, tally)}", end="", flush=True)
        elif not live and number * PLAIN_LINES // len(batches) != (number - 1) * PLAIN_LINES // len(batches):
            print(_status(join, tally), flush=True)
    join.finish()
    if live:
        print()
    return tally, first


def _status(join: StreamJoin, tally: _Tally) -> str:
    metrics = join.metrics
    watermark = "-"
    if metrics.watermark is not None:
        watermark = (datetime.fromtimestamp(0, UTC) + metrics.watermark * MICROSECOND).strftime("%H:%M:%S.%f")[:-3]
    return (
        f"{tally.rows / tally.seconds / 1e6:6.2f} M rows/s  {tally.pairs / tally.seconds / 1e6:6.2f} M pairs/s  "
        f"window {metrics.left_window_rows:>7,} + {metrics.right_window_rows:>7,} rows  watermark {watermark}"
    )


def _show(join: StreamJoin, tally: _Tally, first: pa.Table) -> None:
    """Print the first pairs, the totals and the join in words."""
    rows = [
        (
            pair["symbol"],
            f"{pair['left_ts']:%H:%M:%S.%f}",
            f"{pair['price'] / 10_000:.4f}",
            f"{pair['right_ts']:%H:%M:%S.%f}",
            f"{pair['bid'] / 10_000:.4f}",
        )
        for pair in first.rename_columns([_plain(name) for name in first.column_names]).to_pylist()
    ]
    title = f"\nthe first {len(rows)} of {tally.pairs:,} pairs"
    print(format_table(Table(title, ("symbol", "trade at", "price", "quote at", "bid"), list(rows))))
    print(
        f"\njoined {tally.rows:,} rows into {tally.pairs:,} pairs in {tally.seconds:.2f} s:"
        f" {tally.rows / tally.seconds:,.0f} rows/s, {tally.pairs / tally.seconds:,.0f} pairs/s"
        "\n(time inside push() alone, on one core; generating rows, compiling and printing are not in it)\n"
    )
    print(join.explain())


def _plain(name: str) -> str:
    return "symbol" if name == "left_symbol" else name


def _prove(trades: pa.Table, quotes: pa.Table, pairs: int) -> int:
    """Compute the number of pairs in another way, and say whether it is the same."""
    by_duckdb = is_installed("duckdb")
    print("\nchecking ...", flush=True)
    begin = time.perf_counter()
    expected = _count_with_duckdb(trades, quotes) if by_duckdb else _count_with_numpy(trades, quotes)
    how = "DuckDB, one batch join over all rows" if by_duckdb else "NumPy, comparing all rows of near price"
    seconds = time.perf_counter() - begin
    if expected == pairs:
        print(f"proof: {how}, counts {expected:,} pairs too ({seconds:.1f} s)")
        return 0
    print(f"THE COUNTS DIFFER: {how}, counts {expected:,} pairs, the join gave {pairs:,}", file=sys.stderr)
    return 1


def _count_with_duckdb(trades: pa.Table, quotes: pa.Table) -> int:
    """Count in SQL. Each quote is put into the three seconds in which a trade may meet it, so that DuckDB can hash."""
    duckdb = load("duckdb", needed_for="the check")
    connection = duckdb.connect()
    for name, table, price in (("trades", trades, "price"), ("quotes", quotes, "bid")):
        columns = {"symbol": table["symbol"], "moment": _moments(table), "price": table[price]}
        connection.register(name, pa.table(columns))
    (count,) = connection.execute(
        """
        SELECT count(*) FROM (SELECT *, moment // $second AS bucket FROM trades) AS t
        JOIN (SELECT *, unnest([moment // $second + step FOR step IN [-1, 0, 1]]) AS bucket FROM quotes) AS q
        ON t.symbol = q.symbol AND t.bucket = q.bucket
        AND t.price BETWEEN q.price - $band AND q.price + $band
        AND t.moment BETWEEN q.moment - $second AND q.moment + $second
        """,
        {"second": WINDOW // MICROSECOND, "band": PRICE_BAND},
    ).fetchone()
    return int(count)


def _count_with_numpy(trades: pa.Table, quotes: pa.Table) -> int:
    """Count by comparing the time of every trade with that of all quotes of its symbol whose bid is near its price."""
    count = 0
    reach = WINDOW // MICROSECOND
    symbols = [np.asarray(table["symbol"]) for table in (trades, quotes)]
    prices = [np.asarray(trades["price"]), np.asarray(quotes["bid"])]
    moments = [_moments(trades), _moments(quotes)]
    for symbol in np.unique(symbols[0]):
        mine, theirs = (np.flatnonzero(column == symbol) for column in symbols)
        theirs = theirs[np.argsort(prices[1][theirs])]
        price, bid, quoted = prices[0][mine], prices[1][theirs], moments[1][theirs]
        first = np.searchsorted(bid, price - PRICE_BAND, "left")
        last = np.searchsorted(bid, price + PRICE_BAND, "right")
        widest = int((last - first).max(initial=0))
        step = max(1, CELLS_AT_ONCE // max(1, widest))
        for begin in range(0, len(mine), step):
            some = slice(begin, begin + step)
            row = first[some, None] + np.arange(widest)
            near = np.abs(quoted[np.minimum(row, len(bid) - 1)] - moments[0][mine[some], None]) <= reach
            count += int(np.count_nonzero(near & (row < last[some, None])))
    return count
