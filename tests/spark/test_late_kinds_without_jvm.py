"""Kinds of joins of streams that pause, on the processor without a JVM: in each micro-batch just what has to be there.

A micro-batch goes by the watermark after the one before it. A core hears how far both streams are in every micro-batch
with input. In one without, which Spark runs when the query's own watermark has moved, it goes by what it has heard.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import watersmeet as wm
from dressed import UTC
from pausing_streams import ON, SIDES, WINDOWS, late_rows, pausing_streams, timetable, watermarks
from stand_in import forget, pair_query
from topologies import SCHEMA
from watersmeet.spec.kinds import How, returns_left_rows

SPARKS = pa.schema([field.with_type(UTC) if field.name == "ts" else field for field in SCHEMA])
ROUTINGS = {"equality": ("hash", "broadcast"), "band": ("bucket", "broadcast"), "equality and band": ("hash", "bucket")}


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture])
@given(
    pushes=pausing_streams(),
    how=st.sampled_from(get_args(How)),
    on=st.sampled_from(sorted(ON)),
    window=st.sampled_from(sorted(WINDOWS)),
    cores=st.integers(1, 3),
    is_behind=st.booleans(),
    data=st.data(),
)
def test_oracle_each_result_comes_when_it_is_due_and_late_rows_apart(
    pushes: list[Any],
    how: How,
    on: str,
    window: str,
    cores: int,
    is_behind: bool,
    data: st.DataObject,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "scratch"))
    monkeypatch.setattr("watersmeet.spark.state.FAN_IN", 2)
    monkeypatch.setattr("watersmeet.spark.marks.PIECE_ROWS", 3)
    known, length = (ON[on], WINDOWS[window], pushes), max(WINDOWS[window].left, WINDOWS[window].right)
    behind = length // timedelta(milliseconds=1) if is_behind else 0
    late = "drop" if returns_left_rows(how) else "keep"
    options = {"cores": cores, "routing": data.draw(st.sampled_from(ROUTINGS[on])), "behind": behind, "late": late}
    make = partial(pair_query, dict.fromkeys(SIDES, SPARKS), *known[:2], how=how, **options)
    forget(tmp_path / "scratch")
    query, random = make(), np.random.default_rng(3)
    came, kept = dict[Any, int](), Counter[Any]()
    batches = [dict(zip(SIDES, (table.cast(SPARKS) for table in push), strict=True)) for push in pushes]
    for number, batch in enumerate([*batches, {}]):
        if data.draw(st.booleans(), label="restart"):
            forget(tmp_path / "scratch")
            query = make(checkpoint=query.checkpoint)
        for result, stream in _results(query.run(batch, random, random)):
            if stream is not None:
                kept[stream, result[SIDES.index(stream)]] += 1
                continue
            assert result not in came, "each result once"
            came[result] = number
    due = timetable(how, *known, [None, *watermarks(*known[1:])])
    assert came == {result: number for result, number in due.items() if number <= len(pushes)}
    assert kept == (late_rows(*known[1:]) if late == "keep" else Counter())


def _results(found: pa.Table) -> list[tuple[tuple[Any, Any], str | None]]:
    """Return the ids of results, and of late rows, which name their stream."""
    if "id" in found.column_names:
        return [((number, None), None) for number in found["id"].to_pylist()]
    streams = found["late"].to_pylist() if "late" in found.column_names else [None] * found.num_rows
    return [
        ((left, right), stream)
        for left, right, stream in zip(
            found["left_id"].to_pylist(), found["right_id"].to_pylist(), streams, strict=True
        )
    ]


@pytest.mark.parametrize("last", ["late", "null"])
def test_what_only_the_slower_streams_last_rows_decide_waits_for_any_row(
    last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``idle`` the query's watermark goes by the newest row of all, and without input cores hear nothing.

    micro-batch         0       1       2      3       4
    left             1 at 100  2 at 160
    right            1 at 100         2 at 158     3 is late, or has no time
    join's own after   100     100     158    158     158     from 158 on nobody can meet the left row 1
    query's after       38      98      98     98      98     it does not move: Spark runs nothing without input
    """
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "scratch"))

    def rows(number: int, second: int | None, x: int) -> pa.Table:
        columns = {"id": [number], "ts": [None if second is None else second * 10**6], "x": [x], "k": [0]}
        return pa.table(columns, SCHEMA).cast(SPARKS)

    window = wm.time_window("2 seconds", ts="ts", idle="1 minute")
    query = pair_query(dict.fromkeys(SIDES, SPARKS), "left.x = right.x", window, how="left", late="keep", behind=2000)
    batches = [
        {"left": rows(1, 100, 5), "right": rows(1, 100, 6)},
        {"left": rows(2, 160, 7)},
        {"right": rows(2, 158, 7)},
        {},
        {"right": rows(3, 1 if last == "late" else None, 5)},
    ]
    given = [_results(query.run(batch)) for batch in batches]
    kept = [((None, 3), "right")] if last == "late" else []
    assert given == [[], [], [((2, 2), None)], [], [*kept, ((1, None), None)]]
