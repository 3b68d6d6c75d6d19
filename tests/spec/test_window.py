"""Windows and durations: what may be given, and what the refusals say."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from watersmeet.spec.durations import format_duration, parse_duration
from watersmeet.spec.window import CountWindow, TimeWindow


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("10 minutes", 600_000_000),
        ("250 milliseconds", 250_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("1 microsecond", 1),
        ("2 Weeks", 1_209_600_000_000),
        ("  INTERVAL 1 day ", 86_400_000_000),
        ("0.5 seconds", 500_000),
        ("1.000001 seconds", 1_000_001),
        ("-3 seconds", -3_000_000),
        ("1 minute -1 second", 59_000_000),
        ("0 seconds", 0),
        ("90minutes", 5_400_000_000),
    ],
)
def test_durations(text: str, microseconds: int) -> None:
    assert parse_duration(text) == timedelta(microseconds=microseconds)


@pytest.mark.parametrize(
    "given_duration",
    [
        "",
        "10",
        "minutes",
        "1 month",
        "1 year",
        "0.5 microseconds",
        "10 minutes later",
        "ten minutes",
        "1 hour, 2 minutes",
        "99999999999 weeks",
        5,
        None,
        1.5,
    ],
)
def test_durations_refused(given_duration: Any) -> None:
    with pytest.raises(wm.SpecificationError) as caught:
        parse_duration(given_duration)
    assert repr(given_duration) in str(caught.value)
    assert_helpful(caught.value)


@given(st.timedeltas())
def test_formatted_duration_reads_back(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


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
