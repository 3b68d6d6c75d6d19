"""However many results a micro-batch has, a core puts a bounded part of them together at once. Without a JVM."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import watersmeet as wm
from stand_in import Query, forget, multi_query, pair_query
from strategies import STRUCTURES
from watersmeet.engine import result
from watersmeet.spark import core
from watersmeet.spark.hand_over import leave_pairs, take_pairs
from watersmeet.spark.output import Report, report_rows
from watersmeet.subwindow import contract

WINDOW = wm.time_window("1 hour", ts="ts")
RESIDUAL = "left.k = right.k AND (left.id + right.id) % 3 != 1"
LIMIT = 20_000


def rows(count: int, width: int = 8) -> pa.Table:
    """Return rows of one key, with ``width`` bytes of text each."""
    return pa.table(
        {
            "id": np.arange(count),
            "ts": pa.array(np.arange(count), pa.timestamp("us", "UTC")),
            "k": np.ones(count, np.int64),
            "note": ["x" * width] * count,
        }
    )


def handed_over(query: Query, tables: dict[str, pa.Table], take: Callable[[pa.Table], None]) -> None:
    """Run a micro-batch and take its results one by one as the core hands them over, in files."""

    def taken(results: pa.Table) -> pd.DataFrame:
        name = leave_pairs(results)
        assert name is not None
        take(take_pairs(name).read_all())
        return report_rows(Report())

    with patch.object(core, "result_rows", taken):
        query.run(tables)


@pytest.fixture
def limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(result, "BYTES_AT_ONCE", LIMIT)
    monkeypatch.setattr(contract, "PAIRS_AT_ONCE", 100)
    yield
    forget(tmp_path)


@pytest.mark.parametrize("on", ["left.k = right.k", RESIDUAL, "left.id <= right.id"])
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.usefixtures("limited")
def test_pairs_come_in_portions(structure: str, on: str) -> None:
    """One row that meets all others, and all that meet all, whatever finds them."""
    tables = {"left": rows(70, 300), "right": rows(90, 10)}
    query = pair_query({side: table.schema for side, table in tables.items()}, on, WINDOW, structure=structure)
    found: list[pa.Table] = []
    handed_over(query, tables, found.append)
    handed_over(query, {"left": rows(1), "right": rows(0)}, found.append)
    assert max(pairs.num_rows for pairs in found) <= 100
    assert max(pairs.nbytes for pairs in found) <= LIMIT
    together = pa.concat_tables(found)
    ids = Counter(zip(together["left_id"].to_pylist(), together["right_id"].to_pylist(), strict=True))
    assert ids == Counter(
        (left, right)
        for left in [*range(70), 0]
        for right in range(90)
        if {"left.k = right.k": True, RESIDUAL: (left + right) % 3 != 1}.get(on, left <= right)
    )


@pytest.mark.usefixtures("limited")
def test_results_of_many_streams_come_in_portions() -> None:
    tables = {"a": rows(12, 300), "b": rows(15), "c": rows(20)}
    schemas = {stream: table.schema for stream, table in tables.items()}
    found: list[pa.Table] = []
    handed_over(multi_query(schemas, "a.k = b.k AND b.k = c.k", WINDOW), tables, found.append)
    assert max(some.nbytes for some in found) <= LIMIT
    together = pa.concat_tables(found)
    ids = zip(*(together[f"{stream}_id"].to_pylist() for stream in "abc"), strict=True)
    assert Counter(ids) == Counter((a, b, c) for a in range(12) for b in range(15) for c in range(20))


@pytest.mark.long
@pytest.mark.parametrize("case", ["wide", "narrow", "residual", "many"])
def test_the_measured_peak(case: str, tmp_path: Path) -> None:
    """Gigabytes of results, in a process of its own: at no time does it hold as much as 512 MB above its rows."""
    given = os.environ | {"PYTHONPATH": ":".join(filter(None, sys.path)), "SPARK_LOCAL_DIRS": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, __file__, case], env=given, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    results, megabytes = map(int, done.stdout.split())
    assert results >= 1_000_000
    assert megabytes < 512


CASES: dict[str, tuple[str, int, int, str]] = {
    "wide": ("left.k = right.k", 1_200, 1_000, "auto"),
    "narrow": ("left.k = right.k", 6_000, 8, "auto"),
    "residual": (RESIDUAL, 6_000, 8, "hash"),
    "many": ("a.k = b.k", 1_200, 1_000, "auto"),
}


def main(case: str) -> None:
    """Print how many results a join has, and by how many megabytes the process grew while it found them."""
    import resource

    on, count, width, structure = CASES[case]
    make: Any = multi_query if case == "many" else pair_query
    names = ("a", "b") if case == "many" else ("left", "right")

    def run(count: int) -> int:
        table = rows(count, width)
        query = make(dict.fromkeys(names, table.schema), on, WINDOW, structure=structure, cores=1)
        counts: list[int] = []
        handed_over(query, dict.fromkeys(names, table), lambda results: counts.append(results.num_rows))
        return sum(counts)

    run(50)  # compiles
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    results = run(count)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(results, (after - before) // 1024)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
