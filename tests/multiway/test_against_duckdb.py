"""Joins of many streams on data that is too large for the oracle, against one SQL query of DuckDB."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm

OPTIONS: dict[str, dict[str, Any]] = {
    "circular": {"strategy": "circular"},
    "stashed": {"strategy": "stashed"},
    "small stash": {"strategy": "stashed", "stash_rows": 64},
    "auto on threads": {"strategy": "auto", "cores": 2},
    "stashed on threads": {"strategy": "stashed", "stash_rows": 4_096, "cores": 3},
}
JOINS = {
    "chain of 3, equality": (3, 2_000, "a.k = b.k AND b.k = c.k"),
    "chain of 4, band": (
        4,
        1_500,
        "a.x BETWEEN b.x - 1 AND b.x + 1 AND b.k = c.k AND c.x BETWEEN d.x - 0.5 AND d.x + 1.5",
    ),
    "star of 5, mixed": (5, 300, "a.g = b.g AND a.name = c.name AND a.x < d.x - 70 AND ABS(a.k - e.k) <= 1"),
    "cycle of 3, band and equality": (3, 2_000, "a.k = b.k AND b.x BETWEEN c.x - 9 AND c.x + 9 AND c.name = a.name"),
    "cycle of 6, equality": (
        6,
        250,
        "a.g = b.g AND b.g = c.g AND c.g = d.g AND d.g = e.g AND e.g = f.g AND f.name = a.name",
    ),
    "chain of 7, equality": (7, 250, " AND ".join(f"{a}.g = {b}.g" for a, b in pairwise("abcdefg"))),
    "star of 8, equality and band": (
        8,
        250,
        " AND ".join([*(f"a.g = {b}.g" for b in "bcdef"), "a.x BETWEEN g.x - 4 AND g.x + 4", "h.g = g.g"]),
    ),
    "residual": (3, 600, "a.k = b.k AND b.x > c.x + 70 AND (a.k + b.k + c.k) % 3 = 0 AND (a.k = c.k OR a.x < b.x)"),
    "every second pair": (3, 120, "a.k % 2 = b.k % 2 AND b.k % 2 = c.k % 2"),
}
SECONDS = {"a": 20, "b": 45, "c": 30, "d": 5, "e": 60, "f": 25, "g": 40, "h": 15}


def rows_of(seed: int, count: int) -> pa.Table:
    """Return rows over five minutes, some of their values null."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(count),
            "ts": pa.array(np.sort(random.integers(0, 300_000_000, count)), pa.timestamp("us")),
            "k": pa.array(random.integers(0, 300, count), pa.int64(), mask=random.random(count) < 0.02),
            "g": random.integers(0, 20, count),
            "x": pa.array(np.round(random.normal(0, 30, count), 2), pa.float64(), mask=random.random(count) < 0.02),
            "name": pa.array([f"customer {number}" for number in random.integers(0, 30, count)]),
        }
    )


def expected_results(streams: dict[str, pa.Table], condition: str) -> Counter[tuple[int, ...]]:
    latest = f"GREATEST({', '.join(f'epoch_us({name}.ts)' for name in streams)})"
    inside = [f"{latest} - epoch_us({name}.ts) <= {SECONDS[name]}000000" for name in streams]
    inside += [  # follows, and keeps DuckDB from putting together what is far apart
        f"abs(epoch_us({one}.ts) - epoch_us({other}.ts)) <= {max(SECONDS[one], SECONDS[other])}000000"
        for one, other in combinations(streams, 2)
    ]
    with duckdb.connect() as connection:
        for name, table in streams.items():
            connection.register(f"stream_{name}", table)
        query = (
            f"SELECT {', '.join(f'{name}.id' for name in streams)} "  # noqa: S608 -- the conditions above
            f"FROM {', '.join(f'stream_{name} AS {name}' for name in streams)} "
            f"WHERE {' AND '.join([condition, *inside])}"
        )
        return Counter(connection.sql(query).fetchall())


@pytest.mark.parametrize("name", JOINS)
def test_differential_many_streams_agree_with_duckdb(name: str) -> None:
    count, rows, condition = JOINS[name]
    streams = {stream: rows_of(seed, rows) for seed, stream in enumerate("abcdefgh"[:count])}
    expected = expected_results(streams, condition)
    assert expected.total() > 50
    window = wm.time_window(
        {stream: f"{SECONDS[stream]} seconds" for stream in streams}, ts="ts", lateness="10 minutes"
    )
    random = np.random.default_rng(11)
    cuts = {stream: sorted(random.integers(0, rows, 9).tolist()) for stream in streams}
    for strategy, options in OPTIONS.items():
        found: Counter[tuple[int, ...]] = Counter()
        with wm.MultiStreamJoin(
            streams={stream: table.schema for stream, table in streams.items()}, on=condition, window=window, **options
        ) as join:
            for push in zip(*(pairwise([0, *own, rows]) for own in cuts.values()), strict=True):
                results = join.push(
                    **{
                        stream: table.slice(begin, end - begin)
                        for (stream, table), (begin, end) in zip(streams.items(), push, strict=True)
                    }
                )
                found.update(zip(*(results[f"{stream}_id"].to_pylist() for stream in streams), strict=True))
            assert set(join.metrics.late.values()) == {0}
        assert found == expected, strategy
