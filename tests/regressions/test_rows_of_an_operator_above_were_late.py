"""Rows that a join gave because they met nobody were late in the next join of the query, which lost them in silence.

An operator gives such rows in the micro-batch whose watermark decides them, so they lie behind it. They are in time for
what follows, which has let nothing go by that watermark yet:

    query's watermark     … 10 | 15 |          in the micro-batch that moves it from 10 to 15,
    anti join gives               11  14       rows that it has just decided,
    the next join has kept  10 … and all that these can meet
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import watersmeet as wm
from stand_in import pair_query

WINDOW = wm.time_window("4 seconds", ts="ts")


def rows(seconds: range, modulus: int) -> pa.Table:
    """Return a row a second; its k is the second, or what is left of it."""
    numbers = pa.array(seconds, pa.int64())
    moments = pa.array([(1_700_000_000 + second) * 1_000_000 for second in seconds], pa.timestamp("us", "UTC"))
    return pa.table({"id": numbers, "ts": moments, "k": pa.array([second % modulus for second in seconds], pa.int64())})


@pytest.mark.parametrize(("follows", "found"), [(False, []), (True, [3])])
def test_in_time_is_what_the_watermark_before_did_not_pass(
    follows: bool,
    found: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    one = rows(range(1), 1)
    query = pair_query({"left": one.schema, "right": one.schema}, "left.id = right.id", WINDOW, follows=follows)
    query.run({"left": rows(range(3), 1), "right": rows(range(4), 1)})
    query.run({"left": rows(range(9, 10), 1), "right": rows(range(9, 10), 1)})
    assert query.run({"left": rows(range(3, 4), 1), "right": None})["left_id"].to_pylist() == found
    assert query.run({"left": rows(range(3, 4), 1), "right": None}).num_rows == 0, (
        "now the watermark before has passed it"
    )
