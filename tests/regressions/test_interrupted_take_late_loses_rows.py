"""Ctrl-C in ``take_late``: late rows that no caller had got were gone, and the join did not say that it had failed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pyarrow as pa

import watersmeet as wm
from watersmeet.engine import intake, lifecycle

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("s"))])
LATE = {"left": 1, "right": 2}


def _rows(first: int, count: int, second: int) -> pa.Table:
    return pa.table({"id": range(first, first + count), "ts": [second] * count}, schema=SCHEMA)


def _join_with_late_rows() -> wm.StreamJoin:
    window = wm.time_window("1 second", ts="ts")
    join = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on=wm.equal("id"), window=window, late="keep")
    join.push(left=_rows(1, 1, 100), right=_rows(1, 1, 100))
    join.push(left=_rows(2, LATE["left"], 0), right=_rows(3, LATE["right"], 0))
    return join


def _interrupted_at(step: int, call: Callable[[], object]) -> bool:
    """Call, and interrupt it at so many lines of what it runs; tell whether it has come so far."""
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename in (intake.__file__, lifecycle.__file__) and event == "line":
            lines += 1
            if lines == step:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_a_join_has_its_late_rows_or_says_that_it_has_failed() -> None:
    step = failed = 0
    while _interrupted_at(step := step + 1, (join := _join_with_late_rows()).take_late):
        left = {side: rows.num_rows for side, rows in join.late.items()}
        has_failed = repr(join).endswith("failed>")
        failed += has_failed
        assert left == LATE or (has_failed and not any(left.values()))
    assert failed
