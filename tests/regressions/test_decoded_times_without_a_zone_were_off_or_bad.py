"""Times without a zone were an hour off from 2038 on, and all bad where Arrow does not know a zone by Spark's name."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import watersmeet as wm
from decoded_messages import decoded
from watersmeet.spark.decoding.json_rows import _moments
from watersmeet.spark.decoding.zones import moments_in_zone, zone_in_arrow

DAY = timedelta(days=1)
ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "America/Mexico_City",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Pacific/Apia",
    "America/Nuuk",
    "Europe/Dublin",
    "Asia/Kolkata",
]


@pytest.mark.parametrize("zone", ZONES)
def test_oracle_moments_are_those_of_pythons_zones(zone: str) -> None:
    """Each hour of days around all changes, a minute before and behind it, in many years."""
    rules, shown, expected = ZoneInfo(zone), [], []
    for year in (1995, 2026, 2036, 2037, 2038, 2040, 2087, 2100, 2399, 2400, 9998):
        begin = datetime(year, 1, 1, tzinfo=UTC)
        days = [begin + timedelta(days=number) for number in range(365)]
        changes = [
            one for one in days if one.astimezone(rules).utcoffset() != (one - DAY).astimezone(rules).utcoffset()
        ]
        for day in [begin, *changes]:
            for minute in (minute + more for minute in range(0, 2 * 1440, 30) for more in (0, -1)):
                local = (day - DAY + timedelta(minutes=minute, microseconds=7)).replace(tzinfo=None)
                moment = local.replace(tzinfo=rules).astimezone(UTC)
                if moment.astimezone(rules).replace(tzinfo=None) == local:
                    shown.append(local)
                    expected.append(moment)
                else:
                    with pytest.raises(ValueError, match=r"doesn't exist|no clock of"):
                        moments_in_zone(pa.array([local], pa.timestamp("us")), zone)
    assert moments_in_zone(pa.array([*shown, None], pa.timestamp("us")), zone).to_pylist() == [*expected, None]


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("2038-07-01T12:00:00", "Europe/Berlin", "2038-07-01 10:00:00.000000Z"),
        ("2038-10-31T02:30:00", "Europe/Berlin", "2038-10-31 00:30:00.000000Z"),  # twice: the first time
        ("9999-12-31T23:59:59.999999", "America/New_York", "10000-01-01 04:59:59.999999Z"),
        ("9999-12-31", "-02:00", "9999-12-31 02:00:00.000000Z"),
        ("2038-07-01T12:00:00", "UTC", "2038-07-01 12:00:00.000000Z"),
    ],
)
def test_times_far_ahead(text: str, zone: str, moment: str) -> None:
    """Python has no year 10000: the text of Arrow is compared."""
    messages = [text, "2026-01-05T00:00:00Z", None, "2026-01-05T00:00:00"]
    for some in (messages[:1], messages):
        found = _moments(pa.array(some, pa.string()), zone).cast(pa.string())
        assert found[0].as_py() == moment


def test_a_time_far_ahead_that_no_clock_shows_is_bad() -> None:
    messages = [json.dumps({"ts": f"2038-03-28T0{hour}:30:00"}).encode() for hour in (1, 2, 3)]
    rows, left_out = decoded("json", messages, zone="Europe/Berlin", drops_bad=True)
    assert [row["ts"].hour for row in rows] == [0, 1]
    assert left_out == 1


@pytest.mark.parametrize(
    ("zone", "ahead"),
    [
        ("GMT+2", 120),
        ("UTC+02:00", 120),
        ("UT-3", -180),
        ("+2", 120),
        ("+02", 120),
        ("+0200", 120),
        ("+1:00", 60),
        ("-11:30", -690),
        ("Z", 0),
        ("UT", 0),
        ("GMT", 0),
        ("GMT0", 0),
        ("Etc/GMT+3", -180),
        ("Asia/Kolkata", 330),
    ],
)
def test_sparks_names_of_zones(zone: str, ahead: int) -> None:
    midnight = pa.array([0], pa.timestamp("us"))
    moments = moments_in_zone(midnight, zone_in_arrow(zone))
    assert moments.cast(pa.int64()).to_pylist() == [-ahead * 60_000_000]


@pytest.mark.parametrize("zone", ["PST", "CTT", "+02:00:30", "Nowhere/Town"])
def test_zones_without_a_known_name_are_refused(zone: str) -> None:
    with pytest.raises(wm.SpecificationError, match=re.escape(f"timeZone is '{zone}'")):
        zone_in_arrow(zone)
