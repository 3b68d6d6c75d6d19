"""A worker of several cores read runs from the state again and again where the cache had no room for them.

Each core's turn made the worker forget the runs of its other cores that had no file. And a run that was read from the
state never came into the cache again, so every other worker read it too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from stand_in import Handle, Query, multi_query, pair_query
from watersmeet.spark import runs
from watersmeet.spark.multiway import processor as multiway
from watersmeet.spark.run_cache import RunCache
from watersmeet.spark.state import RunStore

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])
STREAMS = dict.fromkeys(("left", "right"), SCHEMA)
WINDOW = wm.time_window("1 hour", ts="ts")
KINDS = pytest.mark.parametrize("query_of", [pair_query, multi_query])


def _rows(number: int) -> pa.Table:
    return pa.table([np.arange(40) + number * 1_000_000, np.arange(40)], SCHEMA)


def _query(
    query_of: Callable[..., Query], folder: Path, cache_bytes: int, monkeypatch: pytest.MonkeyPatch, cores: int = 2
) -> Query:
    monkeypatch.setattr(RunCache, "of_executor", classmethod(lambda cls, _: cls(folder, cache_bytes)))
    _forget()
    return query_of(STREAMS, "left.k = right.k", WINDOW, cores=cores)


def _forget() -> None:
    runs._remembered.clear()
    multiway._remembered.clear()


def _run(query: Query, number: int) -> dict[str, int]:
    assert query.run({"left": _rows(number), "right": _rows(number)}).num_rows == 40 * (2 * number + 1)
    found = query.metrics[-1]
    return {name: sum(record[f"runs_{name}"] for record in found) for name in ("remembered", "mapped", "read")}


@KINDS
def test_a_worker_remembers_the_runs_of_all_its_cores(
    query_of: Callable[..., Query], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = _query(query_of, tmp_path, 0, monkeypatch)
    _run(query, 0)
    assert _run(query, 1) == {"remembered": 4, "mapped": 0, "read": 0}
    assert _run(query, 2) == {"remembered": 8, "mapped": 0, "read": 0}


@KINDS
def test_a_run_that_was_read_is_mapped_by_the_next_worker(
    query_of: Callable[..., Query], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = _query(query_of, tmp_path, 1 << 28, monkeypatch)
    _run(query, 0)
    _forget()
    for file in tmp_path.iterdir():
        file.unlink()
    assert _run(query, 1) == {"remembered": 0, "mapped": 0, "read": 4}
    _forget()
    assert _run(query, 2) == {"remembered": 0, "mapped": 8, "read": 0}


@pytest.mark.parametrize("is_mapped", [False, True])
def test_runs_without_a_file_are_forgotten_with_their_core(
    is_mapped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker has runs of two cores, has one core's turns alone from then on, and another worker removes the files."""
    query = _query(pair_query, tmp_path, 1 << 28, monkeypatch)
    _run(query, 0)
    if is_mapped:
        _forget()
        assert _run(query, 1)["mapped"] == 4
    for file in tmp_path.iterdir():
        file.unlink()
    known = runs._remembered._kept
    mine, _ = sorted({run.owner for run, _ in known.values()})
    core = query.core().open(RunStore(Handle({}, {})), RunCache(tmp_path, 1 << 28))
    core.begin(mine, {})
    assert sum(run.owner == mine for run, _ in known.values()) == 0
    assert len(known) == 2, "those in this worker's own memory"
    assert not any(run.holds_file for run, _ in known.values())
    core.begin(mine, {})
    core.begin(mine, {})
    assert not known
