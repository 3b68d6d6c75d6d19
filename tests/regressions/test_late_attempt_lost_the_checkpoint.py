"""A late attempt of a micro-batch overwrote the files of the one that counted, and the checkpoint was lost.

Both had given their runs random names. The executor of the first went on, so the state on disk was put together from
what both had written: a manifest that named runs which were not there.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import watersmeet as wm
from stand_in import forget, pair_query, replayed

SCHEMAS = dict.fromkeys(("left", "right"), pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())]))


def _rows(second: int) -> pa.Table:
    return pa.table({"ts": [second * 1_000_000], "k": [7]}, schema=SCHEMAS["left"])


def test_the_query_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    window = wm.time_window("1 hour", ts="ts")
    first, late = (pair_query(SCHEMAS, "left.k = right.k", window) for _ in range(2))
    for attempt in (first, late):
        attempt.run({"left": _rows(1)})
    goes_on = pair_query(SCHEMAS, "left.k = right.k", window, checkpoint=first.checkpoint)
    goes_on.run({"left": _rows(2)})
    files = replayed(late.checkpoint, first.checkpoint, goes_on.checkpoint)
    forget(tmp_path)
    restarted = pair_query(SCHEMAS, "left.k = right.k", window, checkpoint=files)
    assert restarted.run({"right": _rows(3)}).num_rows == 2
