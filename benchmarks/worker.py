"""Work that needs a process of its own: peers on one thread, and memory that nothing else has touched.

``python -m benchmarks.worker TASK '{"option": 1}'`` prints JSON, one object a line. A peer prints one when
it is ready, and one more for each line that it reads, after joining once: so ours and the peers can take turns on a
machine that others use too.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Final, TypedDict, cast

import numpy as np
import pyarrow as pa

from benchmarks.data import stream_rows
from benchmarks.feed import KEY_RANGE, Feed, band_width
from benchmarks.machine import resident_bytes
from benchmarks.process import Worker

__all__ = ["Memory", "Task", "Turn", "start", "take_turn"]

ONE_THREAD: Final = dict.fromkeys(
    ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)


class Task(TypedDict):
    """What a worker is told."""

    window: int
    batch: int
    number: int
    """The left batch that is joined with the right rows before it."""
    seed: int


class Turn(TypedDict):
    """One join of a peer."""

    seconds: float
    cpu_seconds: float
    window_pairs: int


class Memory(TypedDict):
    """What windows held."""

    most_bytes: int
    least_bytes: int
    raw_bytes: int
    resident_growth: int


def start(name: str, task: Task) -> Worker:
    """Start a task in a fresh process with one thread."""
    return Worker(__spec__.name, name, task, ONE_THREAD)


def take_turn(peer: Worker) -> Turn:
    """Let a peer join once and return what it took."""
    peer.ask()
    return cast("Turn", peer.answer())


def _rows(task: Task) -> tuple[pa.Table, pa.Table]:
    """Return the left batch and the right window's rows before it."""
    batch, number = task["batch"], task["number"]

    def rows(side: str, at: int) -> pa.Table:
        return stream_rows("left" if side == "left" else "right", at, batch, seed=task["seed"], key_range=KEY_RANGE)

    window = pa.concat_tables([rows("right", at) for at in range(number - task["window"] // batch, number)])
    return rows("left", number), window.combine_chunks()


def _in_window(pairs: pa.Table, window: int) -> int:
    """Return how many pairs lie within the time window; the peers' join has only the band."""
    left, right = (np.asarray(pairs.column(name)).astype(np.int64) for name in ("ts", "window_ts"))
    return int(np.count_nonzero(left - right <= window))


def _take_turns(task: Task, join: Callable[[], pa.Table]) -> None:
    """Say that the window is in memory; then join once for each line read, leaving all pairs as one table."""
    print(json.dumps("ready"), flush=True)
    for _ in sys.stdin:
        begin, cpu = time.perf_counter(), time.process_time()
        pairs = join()
        turn = {"seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - cpu}
        print(json.dumps({**turn, "window_pairs": _in_window(pairs, task["window"])}), flush=True)


def _duckdb(task: Task) -> None:
    left, right = _rows(task)
    import duckdb  # noqa: PLC0415 -- by the peer alone

    connection = duckdb.connect(config={"threads": 1})
    connection.register("given", right)
    connection.execute("CREATE TABLE held AS SELECT key, ts, payload FROM given")
    connection.unregister("given")
    connection.register("batch", left)
    width = band_width(task["window"])
    query = (
        "SELECT batch.key, batch.ts, batch.payload, held.key AS window_key, held.ts AS window_ts,"  # noqa: S608 -- numbers only
        " held.payload AS window_payload FROM batch JOIN held"
        f" ON batch.key BETWEEN held.key - {width} AND held.key + {width}"
    )
    _take_turns(task, lambda: connection.execute(query).to_arrow_table())


def _polars(task: Task) -> None:
    left, right = _rows(task)
    import polars as pl  # noqa: PLC0415 -- by the peer alone

    assert pl.thread_pool_size() == 1, "POLARS_MAX_THREADS must be set before polars is loaded"
    width = band_width(task["window"])
    held = pl.DataFrame(right).select(
        pl.all().name.prefix("window_"), low=pl.col("key") - width, high=pl.col("key") + width
    )
    batch = pl.DataFrame(left)
    key = pl.col("key")

    def join() -> pa.Table:
        found = batch.join_where(held, key >= pl.col("low"), key <= pl.col("high"))
        return found.drop("low", "high").to_arrow()

    _take_turns(task, join)


def _memory(task: Task) -> None:
    warm = Feed(1 << 14, 1 << 10, task["seed"])
    warm.timed(64)  # compiles, and lets libraries allocate what they keep
    del warm
    gc.collect()
    before = resident_bytes()
    feed = Feed(task["window"], task["batch"], task["seed"])
    feed.prefill(lambda _: None)
    sizes = []
    for _ in range(2 * feed.rotation):
        feed.push()
        sizes.append(feed.join.metrics.window_bytes)
    gc.collect()
    after = resident_bytes()
    row_bytes = sum(field.type.bit_width // 8 for field in feed.join.schema)
    found: Memory = {
        "most_bytes": max(sizes),
        "least_bytes": min(sizes),
        "raw_bytes": task["window"] * row_bytes,
        "resident_growth": after - before,
    }
    print(json.dumps(found), flush=True)


TASKS: Final[dict[str, Callable[[Task], None]]] = {"duckdb": _duckdb, "polars": _polars, "memory": _memory}

if __name__ == "__main__":
    TASKS[sys.argv[1]](json.loads(sys.argv[2]))
