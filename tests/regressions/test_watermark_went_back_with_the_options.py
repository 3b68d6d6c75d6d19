"""A join's own watermark went back when idle was left out, or lateness raised: rows came twice, matched and unmatched.

Both may change from one start to the next. What was decided by the watermark has to stay decided.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from stand_in import Checkpoint, pair_query

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("k", pa.int64())])
BEHIND = 10_000


def table(rows: list[tuple[int, int, int]]) -> pa.Table:
    ids, seconds, keys = zip(*rows, strict=True)
    moments = [(1_700_000_000 + second) * 1_000_000 for second in seconds]
    return pa.table([pa.array(ids), pa.array(moments, pa.timestamp("us", "UTC")), pa.array(keys)], schema=SCHEMA)


@pytest.mark.parametrize(
    ("first", "behind_first", "then", "behind_then"),
    [
        ({"idle": "1 hour"}, BEHIND, {}, BEHIND),
        ({"idle": "1 hour"}, BEHIND, {"idle": "1 hour", "lateness": "30 seconds"}, BEHIND),
        ({}, BEHIND, {}, 0),
        ({}, BEHIND, {"idle": "1 second"}, BEHIND),
    ],
)
@pytest.mark.parametrize("how", ["left", "anti", "full"])
def test_what_was_decided_stays_decided(
    how: Any,
    first: dict[str, Any],
    behind_first: int,
    then: dict[str, Any],
    behind_then: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    checkpoint, found = Checkpoint(), Counter[Any]()

    def run(options: dict[str, Any], behind: int, left: pa.Table, right: pa.Table) -> None:
        nonlocal checkpoint
        window = wm.time_window("10 seconds", ts="ts", **options)
        schemas = {"left": SCHEMA, "right": SCHEMA}
        query = pair_query(schemas, "left.k = right.k", window, how=how, behind=behind, checkpoint=checkpoint, cores=1)
        found.update(tuple(row.values()) for row in query.run({"left": left, "right": right}).to_pylist())
        checkpoint = query.checkpoint

    run(first, behind_first, table([(1, 0, 1), (2, 87, 2), (3, 100, 3)]), table([(11, 98, 99)]))
    run(first, behind_first, table([(4, 101, 4)]), table([(12, 99, 99)]))
    run(first, behind_first, table([(5, 102, 5)]), table([(13, 99, 99)]))
    run(then, behind_then, table([(6, 103, 6), (7, 60, 7)]), table([(21, 90, 2)]))
    for step in range(3):
        run(then, behind_then, table([(8 + step, 400 + 100 * step, -8)]), table([(30 + step, 400 + 100 * step, 99)]))
    assert max(found.values()) == 1, "each result once"
    lefts = Counter(row[0] for row in found if row[0] is not None)
    assert max(lefts.values()) == 1, "no left row is both matched and unmatched; none has two matches here"
    assert {1, 2, 3, 4, 5, 6} <= lefts.keys()
