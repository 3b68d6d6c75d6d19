"""Market ticks: real ones, read from files, and generated ones where there are none."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from watersmeet.spec.errors import SpecificationError, explain_refusal

__all__ = ["Ticks", "generated_ticks", "read_ticks"]

Ticks = tuple[pa.Table, pa.Table]
"""Trades and quotes."""


def read_ticks(folder: Path, day: str) -> Ticks:
    """Return one day's trades and quotes of all symbols, in the order of time; quotes that changed the bid only."""
    trades, quotes = [], []
    for path in sorted((folder / "ticks").glob(f"*_{day}_*.zip")):
        symbol, _, kind = path.stem.split("_")
        table = _read_zip(path)
        if kind == "trade":
            trades.append(_ticks(symbol, table, "price"))
        else:
            quotes.append(_ticks(symbol, table.filter(np.asarray(table.column(1)) > 0), "bid"))
    if not trades or not quotes:
        raise SpecificationError(
            explain_refusal(
                f"{folder / 'ticks'} holds no trades and quotes of {day}",
                f"files such as ibm_{day}_trade.zip and ibm_{day}_quote.zip",
                "leave --data out to use generated ticks",
            )
        )
    return pa.concat_tables(trades).sort_by("ts"), pa.concat_tables(quotes).sort_by("ts")


def generated_ticks(trades: int, quotes: int, *, seconds: int, seed: int) -> Ticks:
    """Return trades and quotes of two symbols: bursty in time, prices as slow random walks."""
    rng = np.random.default_rng(seed)

    def side(n: int, value: str) -> pa.Table:
        burst = rng.integers(0, seconds * 1000, max(1, n // 20))
        moment = np.sort(rng.choice(burst, n) + rng.integers(0, 50, n))
        symbol = rng.integers(0, 2, n)
        walk = 100_000 + 1_000_000 * symbol + 20_000 * np.sin(moment / (3_600_000 * (1 + symbol)))
        price = (walk + rng.normal(0, 300, n)).astype(np.int64) // 100 * 100
        return pa.table(
            {
                "ts": pa.array(moment * 1000, pa.timestamp("us")),
                "symbol": pa.array(np.array(["aa", "bb"])[symbol]),
                value: price,
            }
        )

    return side(trades, "price"), side(quotes, "bid")


def _read_zip(path: Path) -> pa.Table:
    with zipfile.ZipFile(path) as archive:
        content = archive.read(archive.namelist()[0])
    return pa_csv.read_csv(io.BytesIO(content), pa_csv.ReadOptions(autogenerate_column_names=True))


def _ticks(symbol: str, table: pa.Table, value: str) -> pa.Table:
    """Return the columns that are joined: milliseconds of the day as ``ts``, and the price."""
    return pa.table(
        {
            "ts": pa.array(np.asarray(table.column(0)).astype(np.int64) * 1000, pa.timestamp("us")),
            "symbol": pa.array([symbol] * table.num_rows, pa.string()),
            value: np.asarray(table.column(1)).astype(np.int64),
        }
    )
