"""What the tests of topologies share: seeded streams, runs of a join over them, and threads that are disturbed."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest

import oracle
import watersmeet as wm
from watersmeet.engine import team, threads
from watersmeet.spec.options import TopologyName
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.window import Window

TOPOLOGIES = get_args(TopologyName)
WINDOWS = {
    "time": wm.time_window("8 seconds", ts="ts"),
    "time, two lengths, late rows": wm.time_window(left="3 seconds", right="9 seconds", ts="ts", lateness="4 seconds"),
    "count": wm.count_window(9),
    "count, two lengths, ordered": wm.count_window(left=5, right=12, order_by="ts"),
}
PREDICATES = {
    "band": "left.x BETWEEN right.x - 2 AND right.x + 1",
    "equality": "left.x = right.x",
    "equality and band": "left.k = right.k AND left.x BETWEEN right.x - 3 AND right.x + 3",
    "residual": "(left.x + right.x) % 3 = 0",
}
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us")), ("x", pa.int64()), ("k", pa.int64())])
Push = tuple[pa.Table | None, pa.Table | None]


@cache
def stream(seed: int, pushes: int = 6, most_rows: int = 12, values: int = 8) -> list[Push]:
    """Return pushes of up to so many rows a side: some sides missing, some values null, time a little jumbled."""
    rng = np.random.default_rng(seed)
    given: list[Push] = []
    now = 0
    for number in range(pushes):
        tables: list[pa.Table | None] = []
        for _ in range(2):
            count = int(rng.integers(0, most_rows + 1))
            moments = now + rng.integers(-1, 4, count) * 1_000_000
            table = pa.table(
                {
                    "id": 1000 * number + np.arange(count),
                    "ts": pa.array(moments, pa.timestamp("us")),
                    "x": pa.array(rng.integers(0, values, count), pa.int64(), mask=rng.random(count) < 0.05),
                    "k": rng.integers(0, 2, count),
                },
                schema=SCHEMA,
            )
            tables.append(None if count == 0 and rng.random() < 0.5 else table)
        now += int(rng.integers(1, 4)) * 1_000_000
        given.append((tables[0], tables[1]))
    return given


def join_of(on: str, window: Window, **options: Any) -> wm.StreamJoin:
    return wm.StreamJoin(left=SCHEMA, right=SCHEMA, on=on, window=window, **options)


def run(join: wm.StreamJoin, pushes: list[Push]) -> Counter[tuple[int, int]]:
    """Push everything and finish; return the pairs of ids."""
    found: Counter[tuple[int, int]] = Counter()
    for left, right in pushes:
        found.update(ids(join.push(left=left, right=right)))
    found.update(ids(join.finish()))
    return found


def ids(pairs: pa.Table) -> list[tuple[int, int]]:
    return list(zip(pairs["left_id"].to_pylist(), pairs["right_id"].to_pylist(), strict=True))


def ids_of_kind(results: pa.Table) -> list[tuple[Any, Any]]:
    """Return the ids of the results of a join of any kind; None where a side is missing."""
    if "id" in results.column_names:  # left rows alone
        return [(number, None) for number in results["id"].to_pylist()]
    return ids(results)


def expected(on: str, window: Window, pushes: list[Push]) -> Counter[tuple[int, int]]:
    """Return the oracle's pairs; it is asked once for tables of :func:`stream`, which are kept and so have one id."""
    known = (on, window, tuple((id(left), id(right)) for left, right in pushes))
    if known not in _expected:
        _expected[known] = oracle.pairs(parse_predicate(on), window, {"left": SCHEMA, "right": SCHEMA}, pushes)
    return _expected[known]


_expected: dict[object, Counter[tuple[int, int]]] = {}


@contextmanager
def small_windows() -> Iterator[None]:
    """Make chains of many segments, pieces, epochs and slices with a few rows already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("watersmeet.window.creation.SMALLEST_SEGMENT", 4)
        patch.setattr("watersmeet.engine.intake.ROWS_PER_SLICE", 8)
        patch.setattr("watersmeet.engine.topologies.panjoin.LEAST_PROBES", 2)
        patch.setattr("watersmeet.engine.topologies.panjoin.LEAST_STRETCH", 2)
        patch.setattr("watersmeet.engine.topologies.panjoin.LONG_SCAN", 8)
        patch.setattr("watersmeet.engine.team.LEAST_ROWS", 2)
        patch.setattr("watersmeet.engine.topologies.stretch.SMALLEST_WINDOW", 3)
        patch.setattr("watersmeet.engine.topologies.low_latency_handshake.EPOCH_BLOCKS", 2)
        yield


@contextmanager
def disturbed(seed: int, first_lane: int | None = None) -> Iterator[None]:
    """Delay threads at random before they take a message, and let them look into a random lane first, or always one."""
    dice, lock = random.Random(seed), threading.Lock()

    def disturb(lanes: int) -> int:
        with lock:
            pause, lane = dice.random(), dice.randrange(lanes) if first_lane is None else first_lane
        if pause < 0.5:
            time.sleep(pause / 500)
        return lane

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "disturbance", disturb)
        patch.setattr(team, "shaken", seed + 1)
        yield


def threads_left() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("watersmeet")]
