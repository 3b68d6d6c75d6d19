"""Runs that were mapped or read once more, to be merged or for the stages after that, showed in no metric."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from stand_in import Query, multi_query, pair_query
from watersmeet.spark import runs
from watersmeet.spark.multiway import processor as multiway
from watersmeet.spark.state import FAN_IN, RunStore

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])


@pytest.mark.parametrize("query_of", [pair_query, multi_query])
@pytest.mark.parametrize("forgets", [False, True])
def test_every_run_that_is_read_is_counted(
    query_of: Callable[..., Query], forgets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no cache; a worker that forgets has no room for two runs."""
    read = [0]
    from_state = RunStore.read

    def counted(store: RunStore, run: runs.Run) -> bytes:
        read[0] += 1
        return from_state(store, run)

    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr(RunStore, "read", counted)
    if forgets:
        monkeypatch.setattr("watersmeet.spark.remembered.REMEMBERED_BYTES", 0)
    runs._remembered.clear()
    multiway._remembered.clear()
    window = wm.time_window("1 hour", ts="ts")
    query = query_of(dict.fromkeys(("left", "right"), SCHEMA), "left.k = right.k", window, cores=1)
    for number in range(FAN_IN + 1):
        rows = pa.table([np.arange(5) + number * 1_000_000, np.arange(5)], SCHEMA)
        query.run({"left": rows, "right": rows})
        record = max(query.metrics[-1], key=lambda record: record["runs"])
        assert record["runs_read"] == read[0]
        if forgets:
            assert record["runs_remembered"] <= 1, "the last one is always kept, and a stream's may come first"
        else:
            assert record["runs_remembered"] == [2 * number, 2][number == FAN_IN]
        read[0] = 0
