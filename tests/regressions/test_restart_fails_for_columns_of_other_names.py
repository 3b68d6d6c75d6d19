"""A restart in a new process looked for the other stream's column among a stream's own rows, and took the last one.

A run that is in no cache is sorted again. The window that was sampled for it as the opposite one was its own, where the
other stream's column has no place; "not found" was then read as the last column: ``TypeError: '>=' not supported`` for
text, ``AssertionError`` for a struct.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import watersmeet as wm
from stand_in import forget, pair_query

LAST = {
    "text": (pa.string(), ["one", "two"]),
    "struct": (pa.struct([("name", pa.string())]), [{"name": "one"}, {"name": "two"}]),
    "list": (pa.list_(pa.int64()), [[1], [2]]),
}
MOMENTS = pa.array([1_000_000, 2_000_000], pa.timestamp("us", "UTC"))


@pytest.mark.parametrize("last", LAST)
def test_the_restart_goes_on(last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    kind, values = LAST[last]
    left = pa.table({"ts": MOMENTS, "price": [100, 200], "symbol": ["a", "a"], "p": pa.array(values, kind)})
    right = pa.table({"ts": MOMENTS, "bid": [104, 190], "symbol": ["a", "a"], "q": pa.array(values, kind)})
    schemas = {"left": left.schema, "right": right.schema}
    on = "left.price BETWEEN right.bid - 5 AND right.bid + 5 AND left.symbol = right.symbol"
    window = wm.time_window("1 hour", ts="ts", lateness="1 hour")
    before = pair_query(schemas, on, window)
    assert before.run({"left": left, "right": right})["price"].to_pylist() == [100]
    forget(tmp_path)
    after = pair_query(schemas, on, window, checkpoint=before.checkpoint)
    assert after.run({"left": left})["bid"].to_pylist() == [104]
    assert after.run({"right": right})["bid"].to_pylist() == [104, 104]
