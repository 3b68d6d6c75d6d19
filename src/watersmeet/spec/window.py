"""Windows: how long a row stays to be met by the other stream's rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from watersmeet.spec.durations import format_duration, parse_duration
from watersmeet.spec.errors import SpecificationError, explain_refusal

__all__ = ["CountWindow", "TimeWindow", "Window", "count_window", "time_window"]

Duration = str | timedelta
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A time window; build one with :func:`time_window`."""

    left: timedelta
    right: timedelta
    left_ts: str
    right_ts: str
    lateness: timedelta

    def __str__(self) -> str:
        stays = f"a left row stays {format_duration(self.left)}, a right row {format_duration(self.right)}"
        lateness = f"both edges inclusive; lateness {format_duration(self.lateness)}"
        return f"time window on left.{self.left_ts} and right.{self.right_ts}: {stays}, {lateness}"


@dataclass(frozen=True, slots=True)
class CountWindow:
    """A count window; build one with :func:`count_window`."""

    left: int
    right: int
    order_by: str | None

    def __str__(self) -> str:
        order = (
            f"ordered by {self.order_by} inside a batch" if self.order_by else "in the order given, left before right"
        )
        return f"count window: the last {self.left:,} left rows and the last {self.right:,} right rows, {order}"


Window = TimeWindow | CountWindow


def time_window(
    length: Duration | None = None,
    *,
    left: Duration | None = None,
    right: Duration | None = None,
    ts: str | None = None,
    left_ts: str | None = None,
    right_ts: str | None = None,
    lateness: Duration = timedelta(0),
) -> TimeWindow:
    """Return a time window: a left row stays in the left window for ``left``, a right row for ``right``.

    Left row *l* and right row *r* meet iff ``l.ts >= r.ts and l.ts - r.ts <= right``, or ``l.ts < r.ts and
    r.ts - l.ts <= left``. Both edges are inclusive. The result does not depend on the order of arrival.

    Parameters
    ----------
    length
        Stands for both ``left`` and ``right``. ``"10 minutes"``, ``"1 hour 30 minutes"`` or a ``timedelta``.
    ts
        Timestamp column of both streams; or give ``left_ts`` and ``right_ts``.
    lateness
        How far a row's timestamp may lie behind the watermark's leading edge before the row counts as late.

    Examples
    --------
    >>> time_window("10 minutes", ts="ts").left
    datetime.timedelta(seconds=600)
    """
    lengths: tuple[Duration, Duration] = _both("time_window", length, left, right, '"10 minutes"')
    left_column, right_column = _both(
        "time_window", ts, left_ts, right_ts, 'ts="ts"', names=("ts", "left_ts", "right_ts")
    )
    window = TimeWindow(
        parse_duration(lengths[0]), parse_duration(lengths[1]), left_column, right_column, parse_duration(lateness)
    )
    zero = timedelta(0)
    if window.left < zero or window.right < zero or (window.left == zero and window.right == zero):
        raise SpecificationError(
            explain_refusal(
                f"a time window of left={format_duration(window.left)}, right={format_duration(window.right)}",
                "lengths that are positive (one of the two may be zero)",
                'give a positive length, for example time_window("10 minutes", ts="ts")',
            )
        )
    if window.lateness < zero:
        raise SpecificationError(
            explain_refusal(
                f"lateness={format_duration(window.lateness)}", "zero or more", 'give for example lateness="30 seconds"'
            )
        )
    return window


def count_window(
    count: int | None = None, *, left: int | None = None, right: int | None = None, order_by: str | None = None
) -> CountWindow:
    """Return a count window: the last ``left`` rows of the left stream and the last ``right`` rows of the right.

    *l* meets *r* iff the earlier of the two is among the last rows of its own stream when the later arrives. Rows
    arrive batch after batch; inside a batch in the order of the column ``order_by`` (nulls first; ties: left before
    right, then the order given). Without ``order_by`` a batch's left rows arrive before its right rows.

    Examples
    --------
    >>> count_window(1_000_000).right
    1000000
    """
    left_count, right_count = _both("count_window", count, left, right, "1_000_000")
    for given in (left_count, right_count):
        if isinstance(given, bool) or not isinstance(given, int) or given <= 0:
            raise SpecificationError(
                explain_refusal(
                    f"a count window of left={left_count!r}, right={right_count!r}",
                    "whole numbers of rows, 1 or more",
                    "give for example count_window(1_000_000)",
                )
            )
    return CountWindow(left_count, right_count, order_by)


def _both(
    function: str,
    both: T | None,
    left: T | None,
    right: T | None,
    example: str,
    *,
    names: tuple[str, str, str] = ("length", "left", "right"),
) -> tuple[T, T]:
    """Return the pair that ``both``, or ``left`` and ``right``, stand for."""
    if both is not None and left is None and right is None:
        return both, both
    if both is None and left is not None and right is not None:
        return left, right
    given = ", ".join(f"{name}={value!r}" for name, value in zip(names, (both, left, right), strict=True))
    raise SpecificationError(
        explain_refusal(
            f"{function} was given {given}",
            f"either {names[0]}, or both {names[1]} and {names[2]}",
            f"write for example {function}({example}, …)",
        )
    )
