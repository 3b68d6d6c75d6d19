"""3 to 8 streams against one query of DuckDB over all their rows: it has no windows to keep, nothing expires."""

from __future__ import annotations

import time
from datetime import timedelta
from functools import partial
from itertools import combinations
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

import watersmeet as wm
from benchmarks.experiment import Context, DisagreementError, Experiment
from benchmarks.many import chain, names_of
from benchmarks.report import Cell, Description, Figure, Panel, Result, Series, Table
from watersmeet.spec.expression import StreamName

__all__ = ["EXPERIMENT"]

SEED: Final = 75
WINDOW: Final = 1 << 14
WINDOWS: Final = 4
"""Rows of a stream, in windows."""
BATCH: Final = 1 << 11
STREAMS: Final = (3, 4, 5, 6, 7, 8)
FEWER: Final = 2
"""Keys, in rows of a window: a row meets half a row of the next stream."""


def run(context: Context) -> Result:
    """Join the same rows push by push and in one query, and compare the numbers of results."""
    window, batch = context.size(WINDOW, 256), context.size(BATCH, 64)
    lines: list[tuple[Cell, ...]] = []
    result = Result()
    rates: dict[str, list[float]] = {"watersmeet": [], "DuckDB": []}
    for streams in STREAMS:
        context.progress.step(f"{streams} streams")
        tables = _tables(streams, window)
        found: dict[str, int] = {}
        seconds: dict[str, float] = {}
        for name, joined in (("watersmeet", partial(_pushed, batch=batch)), ("DuckDB", _queried)):
            begin = time.perf_counter()
            found[name] = joined(tables, window)
            seconds[name] = time.perf_counter() - begin
        if len(set(found.values())) > 1:
            raise DisagreementError(f"{streams} streams: results found {found}")
        rows = streams * window * WINDOWS
        for name, own in rates.items():
            own.append(rows / seconds[name])
        ours, theirs = (own[-1] for own in rates.values())
        lines.append((streams, ours, theirs, ours / theirs, found["DuckDB"]))
        result.runs.append({"streams": streams, "results": found["DuckDB"], **seconds})
    columns = ("streams", "watersmeet, rows/s", "DuckDB, rows/s", "watersmeet against DuckDB", "results")
    note = f"pushes of {batch:,} rows a stream; DuckDB on one thread, one query over all rows"
    result.tables.append(Table(f"windows of {window:,} rows, {WINDOWS} of them", columns, lines, note))
    counts = [float(streams) for streams in STREAMS]
    panel = Panel(
        "one core", "streams", "rows/s", [Series(name, counts, own) for name, own in rates.items()], x_log=False
    )
    result.figures.append(Figure("multiway_query", "Many streams against one query", [panel]))
    return result


def _tables(streams: int, window: int) -> dict[StreamName, pa.Table]:
    """Return each stream's rows, one a microsecond."""
    random = np.random.default_rng(SEED)
    rows = window * WINDOWS
    moments = pa.array(np.arange(rows), pa.timestamp("us"))
    return {
        name: pa.table({"ts": moments, "x": random.integers(0, FEWER * window, rows)}) for name in names_of(streams)
    }


def _pushed(tables: dict[StreamName, pa.Table], window: int, batch: int) -> int:
    join = wm.MultiStreamJoin(
        streams={name: table.schema for name, table in tables.items()},
        on=chain(len(tables)),
        window=wm.time_window(timedelta(microseconds=window), ts="ts"),
    )
    rows = next(iter(tables.values())).num_rows
    return sum(
        join.push(**{name: table.slice(begin, batch) for name, table in tables.items()}).num_rows
        for begin in range(0, rows, batch)
    )


def _queried(tables: dict[StreamName, pa.Table], window: int) -> int:
    near = [f"abs(epoch_us({a}.ts) - epoch_us({b}.ts)) <= {window}" for a, b in combinations(tables, 2)]
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, table in tables.items():
            connection.register(f"stream_{name}", table)
        query = (
            f"SELECT {', '.join(f'{name}.*' for name in tables)} "  # noqa: S608 -- the names above
            f"FROM {', '.join(f'stream_{name} AS {name}' for name in tables)} "
            f"WHERE {' AND '.join([chain(len(tables)), *near])}"
        )
        return int(connection.sql(query).arrow().read_all().num_rows)


EXPERIMENT: Final = Experiment(
    "query",
    Description(
        purpose="what joining 3 to 8 streams as they come costs against one query over all that came",
        seed=SEED,
        shape="neighbours have equal keys, half a match each; time windows of 16K rows, four of them",
        expected="the same results; the query has all rows at once, the join a window of them and every push's answer",
    ),
    run,
)
