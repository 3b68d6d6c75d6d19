"""Times without a zone as moments in the session's time zone: its name as Arrow has it, and its clock in all years.

Spark's names of time zones are Java's: ``GMT+2`` and ``+1:00`` are some. Offsets are written as Arrow reads them; of
other names, those are refused that Arrow or Python does not know, such as ``PST``, before a query starts.

Arrow has no rules of daylight saving from 2038 on. Python has: these times are computed with it, each minute once.

Cost: that of Arrow's kernel; 5 µs for each other minute from ``FAR`` on.
"""

from __future__ import annotations

import re
from datetime import MAXYEAR, UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.spec.errors import SpecificationError

__all__ = ["LOCAL", "MOMENT", "moments_in_zone", "zone_in_arrow"]

MOMENT: Final = pa.timestamp("us", "UTC")
LOCAL: Final = pa.timestamp("us")
UTC_NAMES: Final = ("Z", "UT", "UTC", "GMT")
OFFSET: Final = re.compile(r"(?:UT|UTC|GMT)?([+-])(\d{1,2})(?::?(\d{1,2}))?")
FIXED: Final = re.compile(r"UTC|[+-]\d\d:\d\d")
FAR: Final = datetime(2037, 1, 1)  # noqa: DTZ001 -- on the zone's clock
"""Arrow is not asked from here on."""
EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001
MINUTE: Final = 60_000_000
CYCLE: Final = 400
"""Years after which the calendar repeats."""


def zone_in_arrow(zone: str) -> str:
    """Return a session's time zone under a name that Arrow has for it, or raise."""
    if zone in UTC_NAMES:
        return "UTC"
    if offset := OFFSET.fullmatch(zone):
        sign, hours, minutes = offset.groups("0")
        return f"{sign}{hours:0>2}:{minutes:0>2}"
    try:
        pc.assume_timezone(pa.array([0], LOCAL), zone)
        ZoneInfo(zone)
    except (pa.ArrowException, LookupError, OSError, ValueError):
        raise SpecificationError(
            f"spark.sql.session.timeZone is {zone!r}, in which decode would read the times of JSON that have no zone",
            "a name of the time zone database, such as America/Los_Angeles, or an offset in hours and minutes",
            "set spark.sql.session.timeZone to that name of the zone",
        ) from None
    return zone


def moments_in_zone(local: pa.Array, zone: str) -> pa.Array:
    """Return moments at which the clock of a zone shows these times, the first of two; raise where it never does."""
    far = pc.and_kleene(pc.is_valid(local), pc.greater_equal(local, pa.scalar(FAR, LOCAL)))
    if FIXED.fullmatch(zone) or not pc.any(far).as_py():
        return pc.assume_timezone(local, zone, ambiguous="earliest").cast(MOMENT)
    near = moments_in_zone(pc.if_else(far, pa.scalar(None, LOCAL), local), zone)
    moments = near.cast(pa.int64()).fill_null(0).to_numpy().copy()
    places = np.asarray(far)
    times = local.cast(pa.int64()).fill_null(0).to_numpy()[places]
    minutes, which = np.unique(times // MINUTE, return_inverse=True)
    rules = ZoneInfo(zone)
    ahead = np.array([_ahead(minute, rules) for minute in minutes.tolist()], np.int64)
    moments[places] = times - ahead[which]
    return pa.array(moments, mask=np.asarray(local.is_null())).cast(MOMENT)


def _ahead(minute: int, rules: ZoneInfo) -> int:
    """Return by how many microseconds a zone's clock is ahead of UTC in a minute that it shows."""
    shown = EPOCH + timedelta(minutes=minute)
    if shown.year > MAXYEAR - CYCLE:  # the moment may lie beyond Python's last year
        shown = shown.replace(year=shown.year - CYCLE)
    moment = shown.replace(tzinfo=rules).astimezone(UTC)
    if moment.astimezone(rules).replace(tzinfo=None) != shown:
        message = f"no clock of {rules.key} shows {shown}"
        raise ValueError(message)
    return (shown - moment.replace(tzinfo=None)) // timedelta(microseconds=1)
