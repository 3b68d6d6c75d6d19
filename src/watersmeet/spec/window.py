"""Windows: how long a row can be met by rows of other streams.

A join of two streams has a :class:`TimeWindow` or a :class:`CountWindow`. A join of many streams has
:class:`TimeWindows` or :class:`CountWindows`, which give every two of its streams such a window (see
:mod:`watersmeet.engine.multiway.plan`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import overload

from watersmeet.spec.durations import format_duration, parse_duration
from watersmeet.spec.errors import SpecificationError
from watersmeet.spec.window_arguments import (
    both_sides,
    check_columns,
    check_counts,
    check_idle,
    check_lateness,
    check_longest,
    per_stream,
    refuse_sides,
    stream_names,
)

__all__ = [
    "CountWindow",
    "CountWindows",
    "TimeWindow",
    "TimeWindows",
    "Window",
    "Windows",
    "count_window",
    "time_window",
    "windows_of",
]

Duration = str | timedelta


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A time window; build one with :func:`time_window`."""

    left: timedelta
    right: timedelta
    left_ts: str
    right_ts: str
    lateness: timedelta
    idle: timedelta | None = None

    def __str__(self) -> str:
        stays = f"a left row stays {format_duration(self.left)}, a right row {format_duration(self.right)}"
        lateness = f"both edges inclusive; lateness {format_duration(self.lateness)}{_idle_text(self.idle)}"
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


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Time windows of many streams; build them with :func:`time_window`."""

    lengths: dict[str, timedelta]
    ts: dict[str, str]
    lateness: timedelta
    idle: timedelta | None = None

    def between(self, left: str, right: str) -> TimeWindow:
        """Return the window of two of the streams; the watermark is decided for all streams together."""
        return TimeWindow(
            self.lengths[left], self.lengths[right], self.ts[left], self.ts[right], self.lateness, self.idle
        )

    def __str__(self) -> str:
        stays = ", ".join(
            f"a row of {stream} stays {format_duration(length)} after its {self.ts[stream]}"
            for stream, length in self.lengths.items()
        )
        lateness = f"lateness {format_duration(self.lateness)}{_idle_text(self.idle)}"
        return f"time windows: {stays}; both edges inclusive; {lateness}"


@dataclass(frozen=True, slots=True)
class CountWindows:
    """Count windows of many streams; build them with :func:`count_window`."""

    counts: dict[str, int]
    order_by: dict[str, str] | None

    def between(self, left: str, right: str) -> CountWindow:
        """Return the window of two of the streams; their order of arrival is decided for all streams together."""
        return CountWindow(self.counts[left], self.counts[right], None)

    def __str__(self) -> str:
        rows = ", ".join(f"the last {count:,} rows of {stream}" for stream, count in self.counts.items())
        columns = [f"{stream}.{column}" for stream, column in (self.order_by or {}).items()]
        order = f"ordered by {', '.join(columns)} inside a batch" if columns else "stream after stream inside a batch"
        return f"count windows: {rows}, {order}"


Window = TimeWindow | CountWindow
Windows = TimeWindows | CountWindows


@overload
def time_window(
    length: Duration | None = None,
    *,
    left: Duration | None = None,
    right: Duration | None = None,
    ts: str | None = None,
    left_ts: str | None = None,
    right_ts: str | None = None,
    lateness: Duration = timedelta(0),
    idle: Duration | None = None,
) -> TimeWindow: ...


@overload
def time_window(
    length: Mapping[str, Duration],
    *,
    ts: str | Mapping[str, str],
    lateness: Duration = timedelta(0),
    idle: Duration | None = None,
) -> TimeWindows: ...


@overload
def time_window(
    length: Duration, *, ts: Mapping[str, str], lateness: Duration = timedelta(0), idle: Duration | None = None
) -> TimeWindows: ...


def time_window(
    length: Duration | Mapping[str, Duration] | None = None,
    *,
    left: Duration | None = None,
    right: Duration | None = None,
    ts: str | Mapping[str, str] | None = None,
    left_ts: str | None = None,
    right_ts: str | None = None,
    lateness: Duration = timedelta(0),
    idle: Duration | None = None,
) -> TimeWindow | TimeWindows:
    """Return a time window: a left row stays in the left window for ``left``, a right row for ``right``.

    Left row *l* and right row *r* meet iff ``l.ts >= r.ts and l.ts - r.ts <= right``, or ``l.ts < r.ts and
    r.ts - l.ts <= left``. Both edges are inclusive. The result does not depend on the order of arrival.

    Parameters
    ----------
    length
        Stands for both ``left`` and ``right``. ``"10 minutes"``, ``"1 hour 30 minutes"`` or a ``timedelta``. For many
        streams one length for all, or a mapping from each stream's name to its own.
    ts
        Timestamp column of both streams; or give ``left_ts`` and ``right_ts``. For many streams one name, or a mapping
        from each stream's name to its own.
    lateness
        How much older than the newest row of the slower stream a row may be. The watermark is that newest timestamp
        less the lateness, as of the push before (on Spark: the micro-batch before), so inside one push the order does
        not matter, and one stream may run ahead of the other. Rows behind the watermark are late: they are left out and
        counted, or refused with ``late="error"``. More lateness means more rows kept.
    idle
        How far, in event time, a stream that pauses may hold the watermark back. The stream that is ahead draws the
        slower one's newest timestamp along, at most so far behind its own: the watermark is then the larger of the two,
        less the lateness. A stream that has had no row yet is drawn along too. Rows that a stream brings after such a
        pause may be late. Without it, a stream that pauses holds the watermark, and so the rows in both windows, for as
        long as it pauses.

    Examples
    --------
    >>> time_window("10 minutes", ts="ts").left
    datetime.timedelta(seconds=600)
    >>> time_window({"a": "1 minute", "b": "30 seconds"}, ts="ts").lengths["b"]
    datetime.timedelta(seconds=30)
    """
    if isinstance(length, Mapping) or isinstance(ts, Mapping):
        refuse_sides("time_window", left=left, right=right, left_ts=left_ts, right_ts=right_ts)
        names = stream_names("time_window", length=length, ts=ts)
        stays: dict[str, Duration] = per_stream("length", length, names)
        return _checked_times(
            {name: parse_duration(given) for name, given in stays.items()},
            per_stream("ts", ts, names),
            (parse_duration(lateness), None if idle is None else parse_duration(idle)),
            given=(stays, lateness, idle),
        )
    lengths: tuple[Duration, Duration] = both_sides("time_window", length, left, right, '"10 minutes"')
    left_column, right_column = both_sides(
        "time_window", ts, left_ts, right_ts, 'ts="ts"', names=("ts", "left_ts", "right_ts")
    )
    window = TimeWindow(
        parse_duration(lengths[0]),
        parse_duration(lengths[1]),
        left_column,
        right_column,
        parse_duration(lateness),
        None if idle is None else parse_duration(idle),
    )
    zero = timedelta(0)
    if window.left < zero or window.right < zero or (window.left == zero and window.right == zero):
        given = f"{length!r}" if length is not None else f"left={left!r}, right={right!r}"
        raise SpecificationError(
            f"a time window of {given}",
            "lengths that are positive (one of the two may be zero)",
            'give a positive length, for example time_window("10 minutes", ts="ts")',
        )
    check_columns("ts", {"left": left_column, "right": right_column})
    check_lateness(window.lateness, lateness)
    check_idle(window.idle, idle)
    check_longest({"left": window.left, "right": window.right}, window.lateness, window.idle)
    return window


@overload
def count_window(
    count: int | None = None, *, left: int | None = None, right: int | None = None, order_by: str | None = None
) -> CountWindow: ...


@overload
def count_window(count: Mapping[str, int], *, order_by: str | Mapping[str, str] | None = None) -> CountWindows: ...


@overload
def count_window(count: int, *, order_by: Mapping[str, str]) -> CountWindows: ...


def count_window(
    count: int | Mapping[str, int] | None = None,
    *,
    left: int | None = None,
    right: int | None = None,
    order_by: str | Mapping[str, str] | None = None,
) -> CountWindow | CountWindows:
    """Return a count window: the last ``left`` rows of the left stream and the last ``right`` rows of the right.

    *l* meets *r* iff the earlier of the two is among the last rows of its own stream when the later arrives. Rows
    arrive batch after batch; inside a batch in the order of the column ``order_by`` (nulls first; ties: left before
    right, then the order given). Without ``order_by`` a batch's left rows arrive before its right rows.

    For many streams ``count`` and ``order_by`` may be mappings from each stream's name. Of rows that tie, those of a
    stream named earlier arrive earlier.

    Examples
    --------
    >>> count_window(1_000_000).right
    1000000
    """
    if isinstance(count, Mapping) or isinstance(order_by, Mapping):
        refuse_sides("count_window", left=left, right=right)
        names = stream_names("count_window", count=count, order_by=order_by)
        counts = per_stream("count", count, names)
        check_counts(counts)
        columns = None if order_by is None else per_stream("order_by", order_by, names)
        check_columns("order_by", columns or {})
        return CountWindows(counts, columns)
    left_count, right_count = both_sides(
        "count_window", count, left, right, "1_000_000", names=("count", "left", "right")
    )
    check_counts({"left": left_count, "right": right_count})
    check_columns("order_by", {} if order_by is None else {"left": order_by, "right": order_by})
    return CountWindow(left_count, right_count, order_by)


def windows_of(window: Window | Windows, streams: Sequence[str]) -> Windows:
    """Return the windows of ``streams``: those given by name, or one that stands for all."""
    if isinstance(window, TimeWindows | CountWindows):
        named = window.lengths if isinstance(window, TimeWindows) else window.counts
        if set(named) != set(streams):
            missing = [name for name in streams if name not in named]
            unknown = [name for name in named if name not in streams]
            told = [
                *([f"has no {', '.join(missing)}"] if missing else []),
                *([f"has {', '.join(unknown)}, of which the join knows nothing"] if unknown else []),
            ]
            changes = [
                *([f"name {', '.join(missing)}"] if missing else []),
                *([f"leave {', '.join(unknown)} out"] if unknown else []),
            ]
            raise SpecificationError(
                f"the window names streams {', '.join(named)}: it {' and '.join(told)}",
                f"the streams of the join, each once: {', '.join(streams)}",
                f"{' and '.join(changes)} in every mapping that the window is given; or give one value for all streams",
            )
        if isinstance(window, TimeWindows):
            return TimeWindows(
                {name: window.lengths[name] for name in streams},
                {name: window.ts[name] for name in streams},
                window.lateness,
                window.idle,
            )
        order_by = window.order_by
        return CountWindows(
            {name: window.counts[name] for name in streams},
            None if order_by is None else {name: order_by[name] for name in streams},
        )
    if window.left != window.right or (isinstance(window, TimeWindow) and window.left_ts != window.right_ts):
        raise SpecificationError(
            f"a {window}, for streams {', '.join(streams)}",
            "one length for all, or one by each stream's name",
            'write for example time_window({"a": "1 minute", "b": "30 seconds"}, ts={"a": "ts", "b": "at"})',
        )
    if isinstance(window, TimeWindow):
        lengths, columns = dict.fromkeys(streams, window.left), dict.fromkeys(streams, window.left_ts)
        return TimeWindows(lengths, columns, window.lateness, window.idle)
    order = None if window.order_by is None else dict.fromkeys(streams, window.order_by)
    return CountWindows(dict.fromkeys(streams, window.left), order)


def _checked_times(
    lengths: dict[str, timedelta],
    ts: dict[str, str],
    progress: tuple[timedelta, timedelta | None],
    *,
    given: tuple[Mapping[str, Duration], Duration, Duration | None],
) -> TimeWindows:
    """Return the windows of many streams; raise unless they are possible.

    ``progress`` are lateness and idle, ``given`` is what the user wrote of lengths, lateness and idle.
    """
    lateness, idle = progress
    windows = TimeWindows(lengths, ts, lateness, idle)
    zero = timedelta(0)
    if min(lengths.values()) < zero or list(lengths.values()).count(zero) > 1:
        raise SpecificationError(
            f"time windows of {', '.join(f'{name}={own!r}' for name, own in given[0].items())}",
            "lengths that are positive (one of them may be zero)",
            "give every stream a positive length",
        )
    check_columns("ts", ts)
    check_lateness(lateness, given[1])
    check_idle(idle, given[2])
    check_longest(lengths, lateness, idle)
    return windows


def _idle_text(idle: timedelta | None) -> str:
    return "" if idle is None else f", idle {format_duration(idle)}"
