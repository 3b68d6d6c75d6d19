"""A segment with more than 2 GiB of text could not be saved: its rows, or those of all segments, became one batch.

The limit is patched to a few kilobytes, so that the test needs no more.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.engine.snapshot import read_snapshot
from watersmeet.window import chunks

PUSHES, ROWS, WIDTH = 40, 20, 100
LIMIT = 8 * ROWS * (WIDTH + 40)
SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.timestamp("us")), ("s", pa.string())])
WINDOWS = {
    "time": wm.time_window("1 hour", ts="t", lateness="1 hour"),
    "count": wm.count_window(PUSHES * ROWS, order_by="t"),
}


@pytest.fixture(autouse=True)
def _limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "MOST_BYTES", LIMIT, raising=False)


def rows(push: int) -> pa.Table:
    numbers = range(push * ROWS, (push + 1) * ROWS)
    texts = [f"{number:04}" + "x" * WIDTH for number in numbers]
    return pa.table([numbers, pa.array(numbers, pa.timestamp("us")), texts], schema=SCHEMA)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("order", [None, "inner"])
@pytest.mark.parametrize("topology", ["panjoin", "splitjoin", "handshake", "low_latency_handshake"])
def test_two_streams(topology: Any, order: Any, window: str) -> None:
    options: dict[str, Any] = {"topology": topology, "order": order, "cores": 2, "block_rows": 16}
    join = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on="left.k = right.k", window=WINDOWS[window], **options)
    for push in range(PUSHES):
        join.push(left=rows(push))
    blob = join.snapshot()
    join.close()
    saved = read_snapshot(blob).segments["left"]
    assert sum(segment.num_rows for segment, _ in saved) == PUSHES * ROWS
    assert max(segment["s"].nbytes for segment, _ in saved) <= LIMIT
    with wm.StreamJoin.restore(blob) as again:
        assert again.snapshot() == blob or topology != "panjoin"
        found = pa.concat_tables([again.push(right=rows(number)) for number in (3, PUSHES - 1)] + [again.finish()])
    assert found["left_s"].to_pylist() == found["right_s"].to_pylist()
    assert found.num_rows == 2 * ROWS


def test_many_streams() -> None:
    join = wm.MultiStreamJoin(
        streams={"a": SCHEMA, "b": SCHEMA}, on="a.k = b.k", window=wm.time_window("1 hour", ts="t")
    )
    for push in range(PUSHES):
        join.push(a=rows(push))
    found = wm.MultiStreamJoin.restore(join.snapshot()).push(b=rows(7))
    assert found.num_rows == ROWS


@pytest.mark.parametrize("order", [None, "inner"])
def test_collected_rows(order: Any) -> None:
    """Rows that had waited for a batch were cut off where the first 2 GiB of text ended."""
    join = wm.StreamJoin(
        left=SCHEMA, right=SCHEMA, on="left.k = right.k", window=WINDOWS["time"], batch_rows=10**6, order=order
    )
    for push in range(PUSHES):
        join.push(left=rows(push), right=rows(push))
    found = join.finish()
    assert found.num_rows == PUSHES * ROWS
