"""Real streams: trades against quotes, and two streams that arrive out of order. DuckDB is the independent second."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

import oracle
import watersmeet as wm
from watersmeet.spec.sql import parse_predicate

Pushes = Iterable[tuple[pa.Table | None, pa.Table | None]]
DAYS = [("bac", "20131007"), ("bac", "20131008"), ("ibm", "20131007"), ("ibm", "20131008")]
ON_PRICE = wm.band("price", "bid", 500)
IN_A_SECOND = wm.time_window("1 second", ts="ts")
# A pair's seconds differ by -1, 0 or 1: spelt out as an equality, so that DuckDB need not compare all with all.
SQL_ON_PRICE = """
    SELECT l.id, r.id
    FROM (SELECT *, epoch_us(ts) // 1000000 AS second FROM lefts) l
    JOIN (SELECT *, epoch_us(ts) // 1000000 + unnest([-1, 0, 1]) AS second FROM rights) r ON l.second = r.second
    AND l.price BETWEEN r.bid - 500 AND r.bid + 500 AND epoch_us(l.ts) - epoch_us(r.ts) BETWEEN -1000000 AND 1000000
"""


def read_ticks(path: Path, columns: dict[int, str]) -> pa.Table:
    """Return a day of ticks with the named columns, ``ts`` as a timestamp and ``id`` counting rows."""
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        options = pyarrow.csv.ReadOptions(autogenerate_column_names=True)
        ticks = pyarrow.csv.read_csv(file, options)
    ticks = ticks.select([f"f{number}" for number in columns]).rename_columns(list(columns.values()))
    ticks = ticks.set_column(0, "ts", ticks["ts"].cast(pa.int64()).cast(pa.timestamp("ms")))
    return ticks.append_column("id", pa.array(np.arange(ticks.num_rows)))


def read_day(folder: Path, symbol: str, day: str) -> tuple[pa.Table, pa.Table]:
    trades = read_ticks(folder / "ticks" / f"{symbol}_{day}_trade.zip", {0: "ts", 1: "price", 2: "size"})
    quotes = read_ticks(folder / "ticks" / f"{symbol}_{day}_quote.zip", {0: "ts", 1: "bid", 2: "bid_size"})
    return trades, quotes.filter(pc.not_equal(quotes["bid"], 0))


def first_rows(trades: pa.Table, quotes: pa.Table, count: int) -> tuple[pa.Table, pa.Table]:
    """Return the first trades, and the quotes up to the last of them."""
    some = trades.slice(0, count)
    return some, quotes.filter(pc.less_equal(quotes["ts"], pc.max(some["ts"])))


def sorted_ids(left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return pairs as one sorted array: equal arrays are equal multisets."""
    return np.sort(left.astype(np.int64) << 32 | right.astype(np.int64))


def joined(join: wm.StreamJoin, pushes: Pushes) -> npt.NDArray[np.int64]:
    pieces = [join.push(left=left, right=right).select(["left_id", "right_id"]) for left, right in pushes]
    pairs = pa.concat_tables(pieces)
    assert join.metrics.pairs == pairs.num_rows
    return sorted_ids(pairs["left_id"].to_numpy(), pairs["right_id"].to_numpy())


def by_duckdb(query: str, lefts: pa.Table, rights: pa.Table) -> npt.NDArray[np.int64]:
    with duckdb.connect() as connection:
        connection.register("lefts", lefts)
        connection.register("rights", rights)
        found = connection.sql(query).fetchnumpy()
    left, right = found.values()
    return sorted_ids(np.asarray(left), np.asarray(right))


def tick_join(trades: pa.Table, quotes: pa.Table, structure: str = "auto") -> wm.StreamJoin:
    return wm.StreamJoin(left=trades.schema, right=quotes.schema, on=ON_PRICE, window=IN_A_SECOND, structure=structure)


def in_seconds(trades: pa.Table, quotes: pa.Table) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield the pushes of a stream that is read once a second."""
    seconds = [table["ts"].cast(pa.int64()).to_numpy() // 1000 for table in (trades, quotes)]
    for second in np.unique(np.concatenate(seconds)):
        bounds = [np.searchsorted(numbers, [second, second + 1]) for numbers in seconds]
        yield tuple(table.slice(a, b - a) for table, (a, b) in zip((trades, quotes), bounds, strict=True))


def in_splits(trades: pa.Table, quotes: pa.Table, seed: int) -> Iterator[tuple[pa.Table | None, pa.Table | None]]:
    """Yield rows in order of time, in pushes of random lengths, of which some have one side only."""
    random = np.random.default_rng(seed)
    times = [table["ts"].cast(pa.int64()).to_numpy() for table in (trades, quotes)]
    cuts = np.sort(random.choice(np.unique(np.concatenate(times)), 40, replace=False))
    ends = [[0, *np.searchsorted(time, cuts).tolist(), len(time)] for time in times]
    for number in range(len(cuts) + 1):
        left, right = (
            table.slice(end[number], end[number + 1] - end[number])
            for table, end in zip((trades, quotes), ends, strict=True)
        )
        if random.random() < 0.3:  # right rows first: the watermark waits for the left ones
            yield None, right
            yield left, None
        else:
            yield left, right


@pytest.mark.parametrize(("symbol", "day"), DAYS)
def test_differential_a_day_in_one_push_equals_duckdb(shared_data: Path, symbol: str, day: str) -> None:
    trades, quotes = first_rows(*read_day(shared_data, symbol, day), 8_000)
    expected = by_duckdb(SQL_ON_PRICE, trades, quotes)
    assert len(expected) > 10_000
    np.testing.assert_array_equal(joined(tick_join(trades, quotes), [(trades, quotes)]), expected)


@pytest.mark.long
@pytest.mark.parametrize(("symbol", "day"), DAYS)
def test_differential_a_whole_day_equals_duckdb(shared_data: Path, symbol: str, day: str) -> None:
    trades, quotes = read_day(shared_data, symbol, day)
    expected = by_duckdb(SQL_ON_PRICE, trades, quotes)
    np.testing.assert_array_equal(joined(tick_join(trades, quotes), [(trades, quotes)]), expected)


@pytest.mark.parametrize("symbol", ["bac", "ibm"])
def test_differential_second_by_second_equals_duckdb(shared_data: Path, symbol: str) -> None:
    trades, quotes = first_rows(*read_day(shared_data, symbol, "20131007"), 4_000)
    expected = by_duckdb(SQL_ON_PRICE, trades, quotes)
    join = tick_join(trades, quotes)
    np.testing.assert_array_equal(joined(join, in_seconds(trades, quotes)), expected)
    assert join.metrics.left_late == join.metrics.right_late == 0


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("structure", ["auto", "hash", "rap_table", "wib_tree"])
def test_differential_random_splits_equal_duckdb(shared_data: Path, structure: str, seed: int) -> None:
    trades, quotes = first_rows(*read_day(shared_data, "ibm", "20131008"), 5_000)
    expected = by_duckdb(SQL_ON_PRICE, trades, quotes)
    assert len(expected) > 10_000
    np.testing.assert_array_equal(
        joined(tick_join(trades, quotes, structure), in_splits(trades, quotes, seed)), expected
    )


def read_disorder(folder: Path, name: str) -> pa.Table:
    """Return a stream in its order of arrival; ``ts`` is when a row happened."""
    rows = pyarrow.csv.read_csv(folder / "disorder" / f"{name}_mid_delay.csv")
    rows = rows.append_column("id", pa.array(np.arange(rows.num_rows))).append_column(
        "ts", rows["eventTime"].cast(pa.int64()).cast(pa.timestamp("us"))
    )
    return rows.sort_by([("arrivalTime", "ascending"), ("id", "ascending")]).select(["id", "ts", "key", "arrivalTime"])


def in_arrival(left: pa.Table, right: pa.Table, batches: int) -> list[tuple[pa.Table, pa.Table]]:
    """Cut both streams at the same moments of arrival."""
    arrivals = [table["arrivalTime"].to_numpy() for table in (left, right)]
    cuts = np.quantile(np.concatenate(arrivals), np.linspace(0, 1, batches + 1)[1:-1])
    ends = [[0, *np.searchsorted(arrival, cuts).tolist(), len(arrival)] for arrival in arrivals]
    return [
        tuple(table.slice(end[i], end[i + 1] - end[i]) for table, end in zip((left, right), ends, strict=True))
        for i in range(batches)
    ]


def on_time(pushes: list[tuple[pa.Table, pa.Table]], lateness: int) -> tuple[pa.Table, pa.Table]:
    """Return the rows that the late rule keeps: the oracle's rule, on arrays."""
    kept: tuple[list[pa.Table], list[pa.Table]] = ([], [])
    largest, watermark = [-1, -1], -(10**9)
    for push in pushes:
        for i, table in enumerate(push):
            time = table["ts"].cast(pa.int64()).to_numpy()
            kept[i].append(table.filter(pa.array(time >= watermark)))
            largest[i] = max(largest[i], int(time.max(initial=-1)))
        if min(largest) >= 0:
            watermark = max(watermark, min(largest) - lateness)
    return pa.concat_tables(kept[0]), pa.concat_tables(kept[1])


@pytest.mark.parametrize("structure", ["auto", "hash", "wib_tree"])
@pytest.mark.parametrize(("lateness", "some_late"), [(50, True), (600, True), (1_000, False)])
def test_differential_disorder_equals_the_late_rule(
    shared_data: Path, structure: str, lateness: int, some_late: bool
) -> None:
    left, right = read_disorder(shared_data, "cj"), read_disorder(shared_data, "sb")
    pushes = in_arrival(left, right, 60)
    window = wm.time_window(timedelta(microseconds=10), ts="ts", lateness=timedelta(microseconds=lateness))
    join = wm.StreamJoin(left=left.schema, right=right.schema, on=wm.equal("key"), window=window, structure=structure)
    found = joined(join, pushes)
    kept = on_time(pushes, lateness)
    metrics = join.metrics
    assert (metrics.left_late, metrics.right_late) == (
        left.num_rows - kept[0].num_rows,
        right.num_rows - kept[1].num_rows,
    )
    assert (metrics.left_late > 1_000 and metrics.right_late > 1_000) == some_late
    query = """
        SELECT l.id, r.id FROM lefts l JOIN rights r
        ON l.key = r.key AND epoch_us(l.ts) - epoch_us(r.ts) BETWEEN -10 AND 10
    """
    expected = by_duckdb(query, *kept)
    assert len(expected) > 10_000
    np.testing.assert_array_equal(found, expected)


def test_oracle_disorder_every_120th_row(shared_data: Path) -> None:
    every = pa.array(np.arange(0, 60_000, 120))
    left, right = (read_disorder(shared_data, name).take(every) for name in ("cj", "sb"))
    pushes = in_arrival(left, right, 8)
    text = "left.key = right.key OR left.key BETWEEN right.key - 1000000 AND right.key + 1000000"
    window = wm.time_window(
        left=timedelta(microseconds=50),
        right=timedelta(microseconds=200),
        ts="ts",
        lateness=timedelta(microseconds=300),
    )
    schemas = {"left": left.schema, "right": right.schema}
    join = wm.StreamJoin(**schemas, on=text, window=window)
    expected = oracle.pairs(parse_predicate(text), window, schemas, pushes)
    assert join.metrics.left_rows == 0
    found = joined(join, pushes)
    pairs = np.array(sorted(expected.elements()), np.int64).reshape(-1, 2)
    assert expected.total() > 10
    np.testing.assert_array_equal(found, sorted_ids(pairs[:, 0], pairs[:, 1]))
    ts = {"left": window.left_ts, "right": window.right_ts}
    history = [(oracle.rows_of("left", a), oracle.rows_of("right", b)) for a, b in pushes]
    _, late = oracle.on_time(ts, window, history)
    assert late == {"left": join.metrics.left_late, "right": join.metrics.right_late}
    assert late.total() > 0
