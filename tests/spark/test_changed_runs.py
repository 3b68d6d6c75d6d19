"""A file of the cache that somebody changes while a micro-batch reads it: the micro-batch fails, and is run again."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from stand_in import Query, pair_query
from watersmeet.spark import runs
from watersmeet.spark.run_cache import MappedRun, RunCache

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])
WINDOW = wm.time_window("1 hour", ts="ts")


def _rows(number: int) -> pa.Table:
    random = np.random.default_rng(number)
    moments = number * 1_000_000 + np.arange(20)
    return pa.table([np.arange(20), pa.array(moments, pa.timestamp("us", "UTC")), random.integers(0, 9, 20)], SCHEMA)


@pytest.fixture
def query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Query:
    monkeypatch.setattr(RunCache, "of_executor", classmethod(lambda cls, limit: cls(tmp_path, limit)))
    runs._remembered.clear()
    query = pair_query({"left": SCHEMA, "right": SCHEMA}, "left.k = right.k", WINDOW, cores=1)
    query.run({"left": _rows(0), "right": _rows(1)})
    return query


def _mapped(query: Query) -> None:
    """Have the worker know its runs from their files, as one that has not made them does."""
    runs._remembered.clear()
    query.run({"left": _rows(2), "right": _rows(3)})


@pytest.mark.parametrize("is_remembered", [False, True], ids=["opened in this micro-batch", "opened before"])
@pytest.mark.parametrize("change", [b"damaged!", b""], ids=["overwritten", "touched"])
def test_a_run_that_changes_during_a_micro_batch_fails_it(
    query: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: bytes, is_remembered: bool
) -> None:
    runs._remembered.clear()
    if is_remembered:
        _mapped(query)
    files = sorted(tmp_path.glob("*.run"))
    oldest = min(files, key=lambda file: file.stat().st_mtime_ns)
    check = runs.DecodedRuns.check

    def changed(self: runs.DecodedRuns[object]) -> None:
        if self._used:  # not another key's turn
            with oldest.open("r+b") as file:
                file.seek(40)
                file.write(change)
            os.utime(oldest)
        check(self)

    monkeypatch.setattr(runs.DecodedRuns, "check", changed)
    with pytest.raises(wm.SnapshotError, match="changed while it was read"):
        query.run({"left": _rows(4), "right": _rows(5)})


def test_a_micro_batch_checks_the_files_that_it_has_read(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is intact any more when the micro-batch ends, and none is read after the check."""
    runs._remembered.clear()
    found = RunCache.get
    read: list[MappedRun] = []

    def noted(self: RunCache, name: str) -> MappedRun | None:
        mapped = found(self, name)
        if mapped is not None:
            read.append(mapped)
        return mapped

    monkeypatch.setattr(RunCache, "get", noted)
    monkeypatch.setattr(MappedRun, "is_intact", property(lambda run: run not in read))
    with pytest.raises(wm.SnapshotError, match="changed while it was read"):
        query.run({"left": _rows(2), "right": _rows(3)})
    assert read, "the runs were read from their files"
