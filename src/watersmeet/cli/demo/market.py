"""The streams of the demonstration, which are generated from a seed, and the query over them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet import band, equal, time_window
from watersmeet.arrays import Int64s

__all__ = [
    "COUNT_PAIRS",
    "DEFAULT_ROWS",
    "MICROSECOND",
    "ON",
    "PRICE_BAND",
    "QUESTION",
    "ROWS_PER_SECOND",
    "WINDOW",
    "WINDOW_LENGTH",
    "cut",
    "describe",
    "generate",
    "moments",
]


DEFAULT_ROWS: Final = 5_000_000
SYMBOLS: Final = 100
QUOTES_PER_TRADE: Final = 4
ROWS_PER_SECOND: Final = 100_000
"""Rows of both streams per second of their own time."""
PRICE_BAND: Final = 25
"""Prices are in hundredths of a cent, as exchanges give them."""
SCATTER: Final = 2_000
WINDOW_LENGTH: Final = timedelta(seconds=1)
MICROSECOND: Final = timedelta(microseconds=1)
OPENING: Final = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)

ON: Final = band("price", "bid", PRICE_BAND) & equal("symbol")
WINDOW: Final = time_window(WINDOW_LENGTH, ts="ts")

QUESTION: Final = f"""
a trade meets the quotes of its symbol, at most a second apart, with a bid at most {PRICE_BAND / 10_000} from its price:
  on {ON}
  {WINDOW}
"""

BUCKET: Final = 2 * PRICE_BAND
REACH: Final = WINDOW_LENGTH // MICROSECOND
COUNT_PAIRS: Final = f"""
    SELECT count(*)
    FROM (SELECT trades.*, price - price % {BUCKET} + up AS bucket, moment - moment % {REACH} + later AS stretch
          FROM trades CROSS JOIN (VALUES (-{BUCKET}), (0), ({BUCKET})) AS prices(up)
          CROSS JOIN (VALUES (-{REACH}), (0), ({REACH})) AS times(later)) AS t
    JOIN (SELECT *, bid - bid % {BUCKET} AS bucket, moment - moment % {REACH} AS stretch FROM quotes) AS q
    ON t.symbol = q.symbol AND t.bucket = q.bucket AND t.stretch = q.stretch
    AND t.price BETWEEN q.bid - {PRICE_BAND} AND q.bid + {PRICE_BAND} AND abs(t.moment - q.moment) <= {REACH}
"""  # noqa: S608 -- made of our own numbers
"""The query in SQL, over ``trades(symbol, moment, price)`` and ``quotes(symbol, moment, bid)``, moments in µs.

Each trade is put into the three buckets of prices and the three stretches of time in which a quote may meet it: so
there are equalities to hash by.
"""


def generate(rows: int, seed: int) -> tuple[pa.Table, pa.Table]:
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


def describe(trades: pa.Table, quotes: pa.Table, seed: int) -> str:
    """Return a line on what was generated."""
    return f"{trades.num_rows:,} trades and {quotes.num_rows:,} quotes of {SYMBOLS} symbols (seed {seed})"


def cut(
    trades: pa.Table, quotes: pa.Table, step: timedelta, first: timedelta | None = None
) -> list[tuple[pa.Table, pa.Table]]:
    """Return both streams cut at the same moments: every ``step`` of their own time, after ``first`` if it is given."""
    of_table = [moments(table) for table in (trades, quotes)]
    begin = min(int(moment[0]) for moment in of_table)
    end = max(int(moment[-1]) for moment in of_table)
    steady = begin + (first or step) // MICROSECOND
    borders = np.append(begin, np.arange(steady, max(end + 1, steady) + step // MICROSECOND, step // MICROSECOND))
    cuts = [np.searchsorted(moment, borders).tolist() for moment in of_table]
    left, right = (
        [table.slice(at[number], at[number + 1] - at[number]) for number in range(len(borders) - 1)]
        for table, at in zip((trades, quotes), cuts, strict=True)
    )
    return list(zip(left, right, strict=True))


def moments(table: pa.Table) -> Int64s:
    """Return the timestamps in microseconds."""
    return np.asarray(table.column("ts")).astype(np.int64)
