"""One thread per stream pushed to one join: pairs were lost without a word, and now and then the process crashed."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm

ROWS, PUSHES = 40, 60


def test_two_threads_push_to_one_join() -> None:
    join = wm.StreamJoin(
        left=pa.schema([("x", pa.int64())]),
        right=pa.schema([("y", pa.int64())]),
        on=wm.equal("x", "y"),
        window=wm.count_window(10**6),
    )
    pairs: list[pa.Table] = []
    errors: list[BaseException] = []

    def push(side: str, column: str) -> None:
        try:
            for number in range(PUSHES):
                rows = pa.table({column: np.arange(ROWS * number, ROWS * (number + 1))})
                pairs.append(join.push(**{side: rows}))
        except BaseException as error:  # noqa: BLE001 -- the test asks for it below
            errors.append(error)

    threads = [threading.Thread(target=push, args=given) for given in (("left", "x"), ("right", "y"))]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(interval)
    assert errors == []
    assert sorted(pa.concat_tables(pairs)["x"].to_pylist()) == list(range(ROWS * PUSHES))
    assert join.metrics.pairs == ROWS * PUSHES


def test_a_call_from_within_a_push_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"x": [1]})
    join = wm.StreamJoin(left=rows.schema, right=rows.schema, on=wm.equal("x"), window=wm.count_window(10))
    push, refused = join._topology.push, []

    def interrupted(part: object) -> object:
        with pytest.raises(wm.SpecificationError, match=r"metrics was called in the middle of push\(\)") as error:
            _ = join.metrics
        refused.append(error.value)
        return push(part)  # type: ignore[arg-type] # it is a slice

    monkeypatch.setattr(join._topology, "push", interrupted)
    assert join.push(left=rows, right=rows).num_rows == 1
    assert len(refused) == 1, "and the push went on"
