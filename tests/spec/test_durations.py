"""Durations: which texts are read, what is said of others, and that what is written reads back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from watersmeet.spec.durations import format_duration, parse_duration


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
    assert "allowed:" in str(caught.value)
    assert "next step:" in str(caught.value)


@given(st.timedeltas())
def test_formatted_duration_reads_back(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration
