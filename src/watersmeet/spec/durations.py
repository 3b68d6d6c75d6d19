"""Durations, given as Spark's interval text (``"1 hour 30 minutes"``) or ``timedelta``, exact to the microsecond."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Final

from watersmeet.spec.errors import SpecificationError

__all__ = ["format_duration", "parse_duration"]

MICROSECONDS: Final[dict[str, int]] = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
ABBREVIATIONS: Final[dict[str, str]] = {
    **dict.fromkeys(("us", "µs", "usec", "usecs", "micro", "micros"), "microseconds"),
    **dict.fromkeys(("ms", "msec", "msecs", "milli", "millis"), "milliseconds"),
    **dict.fromkeys(("s", "sec", "secs"), "seconds"),
    **dict.fromkeys(("m", "min", "mins"), "minutes"),
    **dict.fromkeys(("h", "hr", "hrs"), "hours"),
    "d": "days",
    "w": "weeks",
}
"""What users write for units; an error spells them out."""
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)


def parse_duration(given: str | timedelta) -> timedelta:
    """Return ``given`` as a ``timedelta``.

    Examples
    --------
    >>> parse_duration("1 hour 30 minutes")
    datetime.timedelta(seconds=5400)
    """
    if isinstance(given, timedelta):
        return given
    if isinstance(given, str):
        total = _microseconds(given)
        if total is not None:
            try:
                return timedelta(microseconds=total)
            except OverflowError:
                pass
    raise SpecificationError(
        f"the duration {given!r}",
        "a datetime.timedelta, or numbers with units in full: microseconds, milliseconds, seconds, minutes, hours, "
        "days, weeks (a month has no fixed length)",
        _spelt_out(given) or 'write for example "10 minutes", "250 milliseconds" or "1 hour 30 minutes"',
    )


def format_duration(duration: timedelta) -> str:
    """Return ``duration`` as text that :func:`parse_duration` reads back, in the largest units that fit."""
    rest = duration // timedelta(microseconds=1)
    if rest < 0:
        return f"{rest} microseconds"
    parts = []
    for unit in ("day", "hour", "minute", "second", "millisecond", "microsecond"):
        count, rest = divmod(rest, MICROSECONDS[unit])
        if count:
            parts.append(f"{count} {unit}{'s' if count != 1 else ''}")
    return " ".join(parts) or "0 seconds"


def _spelt_out(given: object) -> str:
    """Return how a duration with abbreviated units is written in full, or nothing if that is no duration either."""
    if not isinstance(given, str):
        return ""
    parts = [
        (number, unit.lower()) for number, unit in re.findall(r"(\d+(?:\.\d+)?)\s*([a-zµ]+)", given, re.IGNORECASE)
    ]
    text = " ".join(f"{number} {ABBREVIATIONS.get(unit, unit)}" for number, unit in parts)
    return f'write "{text}"' if parts and _microseconds(text) is not None else ""


def _microseconds(text: str) -> int | None:
    """Return the microseconds that ``text`` stands for, or None if it is no duration."""
    body = text.strip()
    if body.lower().startswith("interval "):
        body = body[len("interval ") :]
    total, position = Decimal(0), 0
    while match := _PART.match(body, position):
        unit = match[2].lower().removesuffix("s")
        if unit not in MICROSECONDS:
            return None
        try:
            total += Decimal(match[1]) * MICROSECONDS[unit]
        except InvalidOperation:
            return None
        position = match.end()
    if position == 0 or body[position:].strip() or total != total.to_integral_value():
        return None
    return int(total)
