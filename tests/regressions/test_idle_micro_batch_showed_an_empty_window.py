"""In a micro-batch without input ``window_rows`` was 0 although rows were held, and none of them went."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from stand_in import forget, multi_query, pair_query

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])


def _rows(*seconds: int) -> pa.Table:
    return pa.table({"ts": [second * 1_000_000 for second in seconds], "k": [7] * len(seconds)}, schema=SCHEMA)


@pytest.mark.parametrize("query_of", [pair_query, multi_query])
@pytest.mark.parametrize("is_cold", [True, False])
def test_what_is_held_is_shown_and_what_has_expired_goes(
    query_of: Callable[..., Any], is_cold: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the first and second 1 go when the watermark says 30; the idle micro-batch is the first that knows."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    window = wm.time_window("10 seconds", ts="ts")
    query = query_of(dict.fromkeys(("left", "right"), SCHEMA), "left.k = right.k", window, cores=1)
    query.run({"left": _rows(1), "right": _rows(1)})
    query.run({"left": _rows(30), "right": _rows(30)})
    if is_cold:
        forget(tmp_path)
    assert query.run({}).num_rows == 0
    assert [sum(record["window_rows"] for record in records) for records in query.metrics] == [2, 4, 2]
    assert query.metrics[-1][0]["runs"] == 2
    assert query.run({"left": _rows(31)}).num_rows == 1
    assert query.run({"right": _rows(32)}).num_rows == 2
