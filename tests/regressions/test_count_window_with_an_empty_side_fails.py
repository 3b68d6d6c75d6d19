"""A micro-batch in which one stream had no row that can match failed in a count window that is routed by broadcast.

The sequencer handed Spark a frame without rows, whose column of lists has no type that pandas could tell.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from stand_in import multi_query, pair_query
from watersmeet import count_window

ROWS = pa.table({"k": pa.array([1, 2, 3], pa.int64())})
NONE = {"no rows": ROWS.slice(0, 0), "nulls alone": pa.table({"k": pa.nulls(3, pa.int64())})}


@pytest.mark.parametrize("none", NONE)
@pytest.mark.parametrize("routing", ["hash", "bucket", "broadcast"])
def test_two_streams(routing: str, none: str) -> None:
    on = {
        "hash": "left.k = right.k",
        "bucket": "left.k BETWEEN right.k - 1 AND right.k + 1",
        "broadcast": "left.k < right.k",
    }
    query = pair_query({"left": ROWS.schema, "right": ROWS.schema}, on[routing], count_window(5), routing=routing)
    assert query.run({"left": ROWS, "right": NONE[none]}).num_rows == 0
    assert query.run({"left": NONE[none], "right": ROWS}).num_rows > 0


@pytest.mark.parametrize("none", NONE)
def test_many_streams(none: str) -> None:
    schemas = dict.fromkeys("abc", ROWS.schema)
    query = multi_query(schemas, "a.k <= b.k AND b.k <= c.k", count_window(5))
    assert query.run({"a": ROWS, "b": ROWS, "c": NONE[none]}).num_rows == 0
    assert query.run({"a": NONE[none], "b": ROWS, "c": ROWS}).num_rows > 0
