"""A query that was started again with another structure went on with the old one for all runs that were decoded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from stand_in import Query, multi_query, pair_query
from watersmeet.spark import runs
from watersmeet.spark.multiway import processor as multiway
from watersmeet.spark.multiway.stage_runs import StageRun
from watersmeet.spark.run_cache import RunCache

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])


def _rows(number: int) -> pa.Table:
    return pa.table([np.arange(40) + number * 1_000_000, np.arange(40)], SCHEMA)


def _structures() -> set[str]:
    """Return the structures of all runs that this worker remembers."""
    known = [run.decoded for run, _ in runs._remembered._kept.values()]
    segments = [own for run in known for own in (run.indexed.segments.values() if isinstance(run, StageRun) else [run])]
    return {segment.choice.structure for segment in segments}


@pytest.mark.parametrize("query_of", [pair_query, multi_query])
@pytest.mark.parametrize("is_mapped", [False, True], ids=["remembered", "mapped"])
@pytest.mark.parametrize("structure", ["hash", "auto"])
def test_a_restart_with_another_structure_has_it_for_all_runs(
    query_of: Callable[..., Query], is_mapped: bool, structure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunCache, "of_executor", classmethod(lambda cls, limit: cls(tmp_path, limit)))
    runs._remembered.clear()
    multiway._remembered.clear()
    streams = dict.fromkeys(("left", "right"), SCHEMA)
    join = {"on": "left.k = right.k AND left.ts <= right.ts", "window": wm.time_window("1 hour", ts="ts"), "cores": 1}
    query = query_of(streams, **join, structure="rap_table")
    for number in range(2):
        query.run({"left": _rows(number), "right": _rows(number)})
    assert _structures() == {"rap_table"}
    if is_mapped:
        runs._remembered.clear()
    query = query_of(streams, **join, structure=structure, checkpoint=query.checkpoint)
    assert query.run({"left": _rows(2), "right": _rows(2)}).num_rows == 40 * 3
    assert _structures() == {"hash" if structure == "hash" else "bi_sort"}
    assert sum(record["runs_read"] for record in query.metrics[-1]) == 0
    runs._remembered.clear()
    query.run({"left": _rows(3), "right": _rows(3)})
    assert max(record["runs_mapped"] for record in query.metrics[-1]) == 6, "the cache has them anew"
    assert "rap_table" not in _structures()
