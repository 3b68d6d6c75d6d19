"""What is joined while it is killed, which pairs it has to give, and the killing itself.

Two topics of JSON are joined on a band and an equality over a time window. Whatever runs the join is killed ten times
and begun again from its checkpoint, at moments that follow from the seed, and by turns as soon as the sink has got
something that is not committed.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from broker import Record
from streams import Pairs
from topics import ROWS_AT_ONCE

ROWS: Final = 4_000
PARTITIONS: Final = 2
BATCHES: Final = ROWS // ROWS_AT_ONCE
SPACING: Final = 5_000
"""Microseconds between two rows of a stream: a micro-batch spans half a second."""
KILLS: Final = 10
SEEDS: Final = {"left": 31, "right": 32}
PATIENCE_SECONDS: Final = 120
ON: Final = "left.s = right.s AND left.k BETWEEN right.k - 60 AND right.k + 60"
WINDOW: Final[dict[str, str | int]] = {
    "left": "2 seconds",
    "right": "1500 milliseconds",
    "ts": "ts",
    "lateness": "2 seconds",
}
TRUTH: Final = """
    SELECT l.id, r.id FROM l JOIN r ON l.s = r.s AND l.k BETWEEN r.k - 60 AND r.k + 60
    AND l.ts - r.ts <= INTERVAL 1500 MILLISECONDS AND r.ts - l.ts <= INTERVAL 2 SECONDS
"""


Place = tuple[int, int]
"""A partition, and an offset in it."""


@dataclass(frozen=True)
class Running:
    """What runs the join."""

    has_ended: Callable[[], bool]
    kill: Callable[[], None]


@cache
def rows(side: str) -> pa.Table:
    """Return a stream's rows in the order in which they are written."""
    random = np.random.default_rng(SEEDS[side])
    times = np.arange(ROWS) * SPACING + random.integers(0, 20 * SPACING, ROWS)  # not in order
    return pa.table(
        {
            "id": np.arange(ROWS),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "k": random.integers(0, 1_000, ROWS),
            "s": pa.array(random.choice([f"s{n}" for n in range(5)], ROWS)),
        }
    )


def messages(side: str) -> list[str]:
    """Return the same as JSON."""
    return [json.dumps(row, default=str) for row in rows(side).to_pylist()]


@cache
def truth() -> Pairs:
    """Return the pairs by DuckDB's batch join, as ids."""
    duckdb.register("l", rows("left"))
    duckdb.register("r", rows("right"))
    pairs = duckdb.sql(TRUTH).to_arrow_table()  # type: ignore[union-attr]
    return Counter(zip(*(column.to_pylist() for column in pairs.columns), strict=True))


def numbers(home: Path, log: str) -> set[int]:
    """Return the micro-batches that a log of the checkpoint has: ``offsets`` those begun, ``commits`` those done."""
    folder = home / "checkpoint" / log
    return {int(file.name) for file in folder.glob("*") if file.name.isdecimal()} if folder.exists() else set()


def killed_again_and_again(
    home: Path, seed: int, begin: Callable[[], Running], written: Callable[[], int]
) -> Counter[int]:
    """Begin a join and kill it, ten times; return how often each micro-batch has to be begun anew.

    ``written`` says how much the sink has.
    """
    random = np.random.default_rng(seed)
    again: Counter[int] = Counter()
    for kill in range(KILLS):
        running = begin()
        _await_more(lambda: len(numbers(home, "commits")), int(random.integers(1, 3)), running)
        if kill % 2:
            _await_more(written, 1, running)
        else:
            time.sleep(random.uniform(0, 1.5))
        running.kill()
        again.update(numbers(home, "offsets") - numbers(home, "commits"))
    assert again, "no micro-batch is run again"
    return again


def _await_more(count: Callable[[], int], more: int, running: Running) -> None:
    """Wait until there are so many more of something."""
    enough, until = count() + more, time.monotonic() + PATIENCE_SECONDS
    while count() < enough:
        assert not running.has_ended(), "nothing is left to be killed"
        assert time.monotonic() < until, "nothing moves"
        time.sleep(0.01)


def check_topic(
    records: list[Record],
    places_of: Callable[[Record], Mapping[str, Place]],
    home: Path,
    again: Counter[int],
    pair_of: Callable[[Record], tuple[int, int]],
) -> Counter[tuple[int, int]]:
    """Check that a topic has each pair, and once more only if its micro-batch was run again; return how often each.

    ``places_of`` says of a record where both of its rows come from.
    """
    found = Counter(map(pair_of, records))
    assert found.keys() == truth().keys(), "lost pairs, or pairs that should not be"
    assert set(truth().values()) == {1}
    assert found.total() > len(found), "no kill came between what was written and the commit, so nothing is shown"
    read = ends(home)
    for record in records:
        copies = found[pair_of(record)]
        assert copies <= 1 + again[_batch(places_of(record), read)], f"{record} came {copies} times"
    return found


def ends(home: Path) -> list[dict[str, dict[str, int]]]:
    """Return for each micro-batch how far it reads: topics, partitions, the first offset that is not its own."""
    files = sorted((home / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    found: list[dict[str, dict[str, int]]] = []
    for file in files:
        lines: list[dict[str, Any]] = [json.loads(line) for line in file.read_text().splitlines() if line[:2] == '{"']
        found.append({topic: end for line in lines for topic, end in line.items() if topic in SEEDS})
    return found


def _batch(places: Mapping[str, Place], read: list[dict[str, dict[str, int]]]) -> int:
    """Return the micro-batch that gives a pair: that of the later of its rows."""
    return next(
        number
        for number, end in enumerate(read)
        if all(offset < end[side][str(partition)] for side, (partition, offset) in places.items())
    )
