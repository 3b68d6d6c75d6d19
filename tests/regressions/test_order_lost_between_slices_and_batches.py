"""Order was lost where a push is cut into slices of time, and where a time window's pushes are collected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm

WINDOW = wm.time_window("10 microseconds", ts="t", lateness="1 second")


def _rows(first: int, times: Any) -> pa.Table:
    return pa.table({"id": first + np.arange(len(times)), "t": pa.array(times, pa.timestamp("us"))})


def _join(**options: Any) -> wm.StreamJoin:
    schema = _rows(0, [0]).schema
    return wm.StreamJoin(left=schema, right=schema, on="left.id >= 0 OR right.id >= 0", window=WINDOW, **options)


def _arrivals(pairs: pa.Table) -> list[tuple[int, int]]:
    """Return when the later and the earlier row of each pair arrived; ids are given in that order."""
    both = zip(pairs["left_id"].to_pylist(), pairs["right_id"].to_pylist(), strict=True)
    return [(max(pair), min(pair)) for pair in both]


@pytest.mark.parametrize("topology", ["kang", "low_latency_handshake", "splitjoin", "panjoin"])
def test_a_large_push_that_is_not_sorted_by_time(topology: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.engine.intake.ROWS_PER_SLICE", 8)
    times = np.random.default_rng(1).permutation(100)
    with _join(topology=topology, cores=2, order="inner") as join:
        found = _arrivals(join.push(left=_rows(0, times), right=_rows(100, times)))
    assert len(found) == 100 * 21 - 2 * sum(range(11))
    assert found == sorted(found)


@pytest.mark.parametrize("topology", ["kang", "low_latency_handshake", "splitjoin", "panjoin"])
def test_pushes_that_are_collected(topology: Any) -> None:
    found = []
    with _join(topology=topology, cores=2, order="inner", batch_rows=8) as join:
        for number in range(0, 40, 4):
            found += _arrivals(join.push(left=_rows(number, [0, 1]), right=_rows(number + 2, [2, 3])))
    assert len(found) == 400
    assert found == sorted(found)
