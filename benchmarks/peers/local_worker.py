"""Joins in this environment, micro-batch after micro-batch: ours, DuckDB and Polars.

``python -m benchmarks.peers.local_worker NAME TASK`` prints JSON, one object a line. A micro-batch is a Parquet file a
side, read by the engine itself; its pairs are a table in memory, which is then dropped. DuckDB and Polars hold the rows
of both windows as tables. A micro-batch is added, what is behind the window leaves, new left rows are joined with all
right rows, and right rows that are new with left ones that are not.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import watersmeet as wm
from benchmarks.contestant import Condition

if TYPE_CHECKING:  # by the peer alone
    import polars as pl

__all__ = ["LocalTask"]

SCHEMA: Final = pa.schema({"key": pa.int64(), "ts": pa.timestamp("us", "UTC"), "payload": pa.int64()})
MULTIPLIER: Final = 7
MODULUS: Final = 1_000_003


class LocalTask(TypedDict):
    """What the process is told; files are those of the left and of the right side, in order."""

    condition: Condition
    band: int
    window: int
    cores: int
    files: list[tuple[str, str]]
    filling: list[tuple[str, str]]
    small: list[tuple[str, str]]
    seconds: float
    """Of work, after which no more of ``files`` is begun, once ``least`` are done."""
    least: int


class _Engine(Protocol):
    def take(self, left: str, right: str) -> pa.Table:
        """Return the pairs of a micro-batch."""


class _Ours:
    def __init__(self, task: LocalTask) -> None:
        self._join = wm.StreamJoin(
            left=SCHEMA,
            right=SCHEMA,
            on=wm.equal("key") if task["condition"] == "equality" else wm.band("key", "key", task["band"]),
            window=wm.time_window(timedelta(microseconds=task["window"]), ts="ts"),
            topology="panjoin",
            cores=task["cores"],
        )

    def take(self, left: str, right: str) -> pa.Table:
        return self._join.push(left=pq.read_table(left), right=pq.read_table(right))


class _DuckDb:
    def __init__(self, task: LocalTask) -> None:
        import duckdb  # noqa: PLC0415 -- by the peer alone

        self._duckdb = duckdb.connect(config={"threads": task["cores"]})
        self._duckdb.execute("SET TimeZone = 'UTC'")
        for side in ("l", "r"):
            self._duckdb.execute(f"CREATE TABLE held_{side} (key BIGINT, ts BIGINT, payload BIGINT)")
        on = (
            "l.key = r.key"
            if task["condition"] == "equality"
            else f"l.key BETWEEN r.key - {task['band']} AND r.key + {task['band']}"
        )
        self._query = (
            "SELECT l.key AS left_key, l.ts AS left_ts, l.payload AS left_payload, r.key AS right_key,"  # noqa: S608
            " r.ts AS right_ts, r.payload AS right_payload FROM {} l JOIN {} r"
            f" ON {on} AND abs(l.ts - r.ts) <= {task['window']}"
        )
        self._window = task["window"]

    def take(self, left: str, right: str) -> pa.Table:
        run = self._duckdb.execute
        for side, file in (("l", left), ("r", right)):
            run(
                f"CREATE OR REPLACE TABLE new_{side} AS SELECT key, epoch_us(ts) AS ts, payload"  # noqa: S608
                f" FROM read_parquet('{file}')"
            )
        behind = f"(SELECT min(ts) - {self._window} FROM (FROM new_l UNION ALL FROM new_r))"  # noqa: S608
        for side in ("l", "r"):
            run(f"DELETE FROM held_{side} WHERE ts < {behind}")  # noqa: S608
        run("INSERT INTO held_r FROM new_r")
        pairs = run(self._query.format("new_l", "held_r") + " UNION ALL " + self._query.format("held_l", "new_r"))
        table = pairs.to_arrow_table()
        run("INSERT INTO held_l FROM new_l")
        return table


class _Polars:
    def __init__(self, task: LocalTask) -> None:
        import polars  # noqa: ICN001, PLC0415 -- by the peer alone

        self._pl, self._task = polars, task
        empty = polars.DataFrame(schema=dict.fromkeys(("key", "ts", "payload"), polars.Int64))
        self._held = {"left": empty, "right": empty}

    def take(self, left: str, right: str) -> pa.Table:
        pl = self._pl
        new = {
            side: pl.read_parquet(file).with_columns(pl.col("ts").dt.epoch("us"))
            for side, file in (("left", left), ("right", right))
        }
        behind = min(new[side]["ts"][0] for side in new) - self._task["window"]
        held = {side: some.filter(pl.col("ts") >= behind) for side, some in self._held.items()}
        self._held = {side: pl.concat([held[side], new[side]]) for side in new}
        pairs = [self._joined(new["left"], self._held["right"]), self._joined(held["left"], new["right"])]
        return pl.concat(pairs).to_arrow()

    def _joined(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
        pl, window, half = self._pl, self._task["window"], self._task["band"]
        left, right = left.select(pl.all().name.prefix("left_")), right.select(pl.all().name.prefix("right_"))
        near = (pl.col("left_ts") - pl.col("right_ts")).abs() <= window
        if self._task["condition"] == "equality":
            return (
                left.lazy()
                .join(right.lazy(), left_on="left_key", right_on="right_key", coalesce=False)
                .filter(near)
                .collect()
            )
        right = right.with_columns(low=pl.col("right_key") - half, high=pl.col("right_key") + half)
        found = left.join_where(right, pl.col("left_key") >= pl.col("low"), pl.col("left_key") <= pl.col("high"))
        return found.filter(near).drop("low", "high")


ENGINES: Final[dict[str, Callable[[LocalTask], _Engine]]] = {
    "in-process": _Ours,
    "DuckDB": _DuckDb,
    "Polars": _Polars,
}


def _checksum(pairs: pa.Table) -> int:
    left, right = (np.asarray(pairs.column(name)) for name in ("left_payload", "right_payload"))
    return int(((left * MULTIPLIER + right) % MODULUS).sum())


def _timed(engine: _Engine, files: tuple[str, str]) -> float:
    """Let an engine take a micro-batch; print what that took."""
    rows = sum(pq.read_metadata(file).num_rows for file in files)
    begin = time.perf_counter()
    pairs = engine.take(*files)
    seconds = time.perf_counter() - begin
    found = {"rows": rows, "pairs": pairs.num_rows, "checksum": _checksum(pairs), "seconds": seconds}
    print(json.dumps(found), flush=True)
    return seconds


def run(name: str, task: LocalTask) -> None:
    """Take the micro-batches of the rate, then, with windows filled anew, the small ones."""
    engine, spent = ENGINES[name](task), 0.0
    for number, files in enumerate(task["files"]):
        if number >= task["least"] and spent > task["seconds"]:
            break
        spent += _timed(engine, files)
    print(json.dumps(None), flush=True)
    engine = ENGINES[name](task)
    for files in task["filling"]:
        engine.take(*files)
    for files in task["small"]:
        _timed(engine, files)
    print(json.dumps(None), flush=True)


if __name__ == "__main__":
    run(sys.argv[1], json.loads(sys.argv[2]))
