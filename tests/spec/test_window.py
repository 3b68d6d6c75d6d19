"""Windows: what may be given, and what the refusals say."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import watersmeet as wm
from watersmeet.spec.window import CountWindow, TimeWindow


def test_time_window_forms() -> None:
    minute, hour = timedelta(minutes=1), timedelta(hours=1)
    assert wm.time_window("1 minute", ts="t") == TimeWindow(minute, minute, "t", "t", timedelta(0))
    assert wm.time_window(minute, left_ts="a", right_ts="b", lateness="1 hour") == TimeWindow(
        minute, minute, "a", "b", hour
    )
    assert wm.time_window(left="1 minute", right="0 seconds", ts="t") == TimeWindow(
        minute, timedelta(0), "t", "t", timedelta(0)
    )


@pytest.mark.parametrize(
    "options",
    [
        {"ts": "t"},
        {"length": "1 minute"},
        {"length": "1 minute", "left": "1 minute", "ts": "t"},
        {"left": "1 minute", "ts": "t"},
        {"right": "1 minute", "ts": "t"},
        {"length": "1 minute", "ts": "t", "left_ts": "t"},
        {"length": "1 minute", "left_ts": "t"},
        {"length": "0 seconds", "ts": "t"},
        {"length": "-1 seconds", "ts": "t"},
        {"left": "5 seconds", "right": "-1 seconds", "ts": "t"},
        {"length": "1 minute", "ts": "t", "lateness": "-1 seconds"},
        {"length": 60, "ts": "t"},
        {"length": "1 month", "ts": "t"},
        {"length": "1 minute", "ts": 5},
        {"length": {"a": "1 minute", "b": "1 minute"}, "ts": 5},
    ],
    ids=str,
)
def test_time_window_refused(options: dict[str, Any]) -> None:
    with pytest.raises(wm.SpecificationError) as caught:
        wm.time_window(**options)
    assert_helpful(caught.value)


def test_count_window_forms() -> None:
    assert wm.count_window(5) == CountWindow(5, 5, None)
    assert wm.count_window(left=1, right=2, order_by="ts") == CountWindow(1, 2, "ts")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"count": 0},
        {"count": -1},
        {"count": 1.5},
        {"count": True},
        {"count": "5"},
        {"left": 5},
        {"count": 5, "left": 5},
        {"left": 5, "right": 0},
        {"count": 5, "order_by": 7},
    ],
    ids=str,
)
def test_count_window_refused(options: dict[str, Any]) -> None:
    with pytest.raises(wm.SpecificationError) as caught:
        wm.count_window(**options)
    assert_helpful(caught.value)


def test_windows_describe_themselves() -> None:
    assert "a left row stays 1 minute, a right row 2 hours" in str(
        wm.time_window(left="60 seconds", right="2 hours", ts="t")
    )
    assert "the last 1,000 left rows and the last 5 right rows, ordered by t" in str(
        wm.count_window(left=1000, right=5, order_by="t")
    )


def assert_helpful(error: BaseException) -> None:
    assert "allowed:" in str(error)
    assert "next step:" in str(error)
