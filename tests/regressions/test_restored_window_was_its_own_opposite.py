"""A restored window of several segments looked for the other stream's column among its own rows, and took the last."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm


@pytest.mark.parametrize("topology", ["panjoin", "kang", "splitjoin", "handshake", "low_latency_handshake"])
def test_columns_of_other_names_are_restored(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.window.creation.SMALLEST_SEGMENT", 4)
    rows = 64
    columns = {"ts": pa.array(np.arange(rows), pa.timestamp("us")), "n": np.arange(rows)}
    left = pa.table({**columns, "price": np.arange(rows), "last": ["one"] * rows})
    right = pa.table({**columns, "bid": np.arange(rows), "last": ["one"] * rows})
    join = wm.StreamJoin(
        left=left.schema,
        right=right.schema,
        on=wm.band("price", "bid", 0),
        window=wm.time_window("20 microseconds", ts="ts"),
        topology=topology,  # type: ignore[arg-type]
        cores=1 if topology == "kang" else 2,
    )
    found = 0
    for begin in range(0, rows, 8):
        join = wm.StreamJoin.restore(join.snapshot())
        found += join.push(left=left.slice(begin, 8), right=right.slice(begin, 8)).num_rows
    found += join.finish().num_rows
    assert found == rows
