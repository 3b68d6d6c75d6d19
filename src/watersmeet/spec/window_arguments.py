"""The arguments of ``time_window`` and ``count_window``: which go together, and which values they may have."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final, TypeVar

from watersmeet.spec.durations import format_duration
from watersmeet.spec.errors import SpecificationError

__all__ = [
    "both_sides",
    "check_columns",
    "check_counts",
    "check_idle",
    "check_lateness",
    "check_longest",
    "per_stream",
    "refuse_sides",
    "stream_names",
]

T = TypeVar("T")

LONGEST: Final = timedelta(microseconds=2**63 - 1)
"""Timestamps have 64 bits, so nothing lies further apart."""
MOST_ROWS: Final = 2**62
"""Arrival numbers of two streams together have 64 bits."""


def check_lateness(lateness: timedelta, given: object) -> None:
    """Raise unless the lateness is zero or more; ``given`` is what the user wrote."""
    if lateness < timedelta(0):
        raise SpecificationError(f"lateness={given!r}", "zero or more", 'give for example lateness="30 seconds"')


def check_idle(idle: timedelta | None, given: object) -> None:
    """Raise unless ``idle`` is left out, or zero or more; ``given`` is what the user wrote."""
    if idle is not None and idle < timedelta(0):
        raise SpecificationError(
            f"idle={given!r}", "zero or more", 'give for example idle="1 minute", or leave idle out'
        )


def check_longest(lengths: Mapping[str, timedelta], lateness: timedelta, idle: timedelta | None) -> None:
    """Raise unless every duration fits in 64 bits of microseconds."""
    for name, duration in (*lengths.items(), ("lateness", lateness), ("idle", idle or timedelta(0))):
        if duration > LONGEST:
            raise SpecificationError(
                f"a time window with {name}={format_duration(duration)}",
                "at most 2^63 - 1 microseconds, about 292,000 years: no two timestamps lie further apart",
                'give a shorter one, for example "36500 days"',
            )


def check_columns(argument: str, columns: Mapping[str, object]) -> None:
    """Raise unless every column is a name; ``argument`` is what the user calls them."""
    for stream, column in columns.items():
        if not isinstance(column, str):
            raise SpecificationError(
                f"{argument} of {stream} is {column!r}",
                "the name of a column, as text",
                f'give for example {argument}="time"',
            )


def check_counts(counts: Mapping[str, object]) -> None:
    """Raise unless every count is a whole number of rows that a window may have."""
    for given in counts.values():
        if isinstance(given, bool) or not isinstance(given, int) or not 0 < given <= MOST_ROWS:
            raise SpecificationError(
                f"a count window of {', '.join(f'{name}={count!r}' for name, count in counts.items())}",
                "whole numbers of rows, from 1 to 2^62",
                "give for example count_window(1_000_000)",
            )


def refuse_sides(function: str, **given: object) -> None:
    """Raise if a window of named streams was also given arguments for left and right."""
    named = [name for name, value in given.items() if value is not None]
    if named:
        raise SpecificationError(
            f"{function} was given a mapping, and {', '.join(named)} too",
            "mappings from every stream's name; or left and right, for two streams",
            f"leave {', '.join(named)} out",
        )


def stream_names(function: str, **given: object) -> list[str]:
    """Return the streams that the mappings name; raise unless all of them name the same ones."""
    mappings = {argument: value for argument, value in given.items() if isinstance(value, Mapping)}
    names = [list(value) for value in mappings.values()]
    if not names[0] or any(set(other) != set(names[0]) for other in names):
        raise SpecificationError(
            f"{function} was given " + ", ".join(f"{a} for {list(value)}" for a, value in mappings.items()),
            "the same streams in every mapping, at least one",
            "name every stream of the join in each mapping, or give one value for all",
        )
    return names[0]


def per_stream(argument: str, given: T | Mapping[str, T] | None, names: list[str]) -> dict[str, T]:
    """Return one value for each stream: those of the mapping, or the one that stands for all."""
    if isinstance(given, Mapping):
        return dict(given)
    if given is None:
        raise SpecificationError(
            f"{argument} was not given",
            "one value for all streams, or a mapping from each stream's name",
            f"give {argument} for streams {', '.join(names)}",
        )
    return dict.fromkeys(names, given)


def both_sides(
    function: str,
    both: T | None,
    left: T | None,
    right: T | None,
    example: str,
    *,
    names: tuple[str, str, str] = ("length", "left", "right"),
) -> tuple[T, T]:
    """Return the values for left and right: ``both`` twice, or ``left`` and ``right``; raise for any other mix."""
    if both is not None and left is None and right is None:
        return both, both
    if both is None and left is not None and right is not None:
        return left, right
    given = dict(zip(names, (both, left, right), strict=True))
    missing = [name for name, value in given.items() if value is None]
    if names[0] not in missing:
        next_step = f"leave {names[0]} out, or the other"
    elif len(missing) == len(names) - 1:
        next_step = f"give {missing[1]} too, or {names[0]} alone for both"
    else:
        next_step = f"write for example {function}({example}, …)"
    raise SpecificationError(
        f"{function} was given " + ", ".join(f"{name}={value!r}" for name, value in given.items()),
        f"either {names[0]}, or both {names[1]} and {names[2]}",
        next_step,
    )
