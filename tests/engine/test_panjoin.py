"""panjoin gathers pairs while other commands insert rows: what a probe has found stays as it was found."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.engine.result import gather_stored
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.plan import plan_join
from watersmeet.window.stream_window import StreamWindow

FIRST = 100
PAYLOADS: dict[str, tuple[pa.DataType, Any]] = {
    "plain": (pa.int64(), int),
    "with nulls": (pa.int64(), lambda n: None if n % 3 == 0 else int(n)),
    "text": (pa.string(), str),
}


def rows(first: int, count: int, payload: str) -> pa.RecordBatch:
    kind, value = PAYLOADS[payload]
    numbers = np.arange(first, first + count)
    return pa.record_batch(
        {
            "key": pa.array(numbers),
            "ts": pa.array(numbers, pa.timestamp("us")),
            "value": pa.array([value(n) for n in numbers], kind),
        }
    )


@pytest.mark.parametrize("payload", PAYLOADS)
def test_rows_that_were_found_can_be_gathered_after_others_are_inserted(
    payload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watersmeet.window.creation.SMALLEST_SEGMENT", 2 * FIRST)
    schema = rows(0, 1, payload).schema
    plan = plan_join(schema, schema, wm.equal("key"), wm.time_window(timedelta(microseconds=1000), ts="ts"), "bi_sort")
    window = StreamWindow(plan, "left")
    other = StreamWindow(plan, "right")
    window.insert(KeyedBatch(plan, "left", rows(0, FIRST, payload)), other)
    matches = list(window.probe(KeyedBatch(plan, "right", rows(0, FIRST, payload))))
    at_once = pa.Table.from_arrays(gather_stored(matches), schema=schema)
    assert sorted(at_once["key"].to_pylist()) == list(range(FIRST))

    reserved = 2 * FIRST
    for first in range(FIRST, 10 * FIRST, FIRST):  # the first rows move to a larger place, then segments are sealed
        window.insert(KeyedBatch(plan, "left", rows(first, FIRST, payload)), other)
    assert window.segments[0].rows > reserved
    assert len(window.segments) > 1

    assert pa.Table.from_arrays(gather_stored(matches), schema=schema).equals(at_once)
