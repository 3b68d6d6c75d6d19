"""Event time: the query's watermark, which Spark moves, and what it has to do with a join and with its results.

*Results carry their event time.* Whatever follows a join in the query (a windowed aggregation, another join) closes by
the query's watermark, so no result may lie behind that. One of a result's rows has just come and is not late. Another
may be older by the *reach*, the longest stay of a row in a window. So Spark gets a delay that is longer by the reach
than the window's lateness: its watermark lies *behind* the join's own by so much, and a core adds it again
(:mod:`watersmeet.spark.clock`). Then no timestamp of a result is ever late, and the columns are marked as Spark marks
those of ``withWatermark``. What follows the join by event time waits for the reach too. The join itself does not, and
what it keeps is the same.

*A watermark on an input*, of the user or because the input is itself the result of a join, is kept as it is: it is the
query's and cannot be moved back from here. Then the join's own watermark is the query's, and the results are not
marked, so Spark refuses what needs a watermark on them, when the query starts. That also holds for windows beyond
``LONGEST_REACH``: Spark's watermark begins in 1970.

*Decoded sides* have no timestamp that Spark could see before they are packed. Their watermark is on a column of their
envelopes, which has the largest timestamp of each task's rows: the same as on all of them.

*With idle* the query's watermark lies so far behind the newest row of all streams, and further by lateness and reach:
Spark can only take the largest value of one column. The join's own watermark follows from what the cores hear, as
it does wherever the query's is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it
from pyspark.sql.types import StructField, TimestampNTZType

from watersmeet.spark.decoding.side import Decoded, Side
from watersmeet.spec.durations import format_duration
from watersmeet.spec.errors import SpecificationError
from watersmeet.spec.expression import StreamName
from watersmeet.spec.window import CountWindow, CountWindows, TimeWindow, TimeWindows, Window, Windows

__all__ = ["DELAY", "EventTime", "event_time", "with_plain_names"]

DELAY: Final = "spark.watermarkDelayMs"
"""Spark's metadata of a column that has a watermark."""
RESULT: Final = "watersmeet.result"
"""Metadata of a result's timestamp: it is never late, whatever the delay says."""
LONGEST_REACH: Final = timedelta(days=3650)
MILLISECOND: Final = timedelta(milliseconds=1)
MOMENT: Final = "moment"


@dataclass(frozen=True)
class EventTime:
    """What the query's watermark has to do with a join."""

    ts: Mapping[StreamName, str]
    """The timestamps' columns, in a time window of streaming DataFrames."""
    lateness: timedelta
    idle: timedelta | None
    behind: int | None
    """Milliseconds by which the query's watermark lies behind the join's own; None: a watermark that is not ours."""
    follows: bool = False
    """Whether an input brings its watermark: then rows may come from an operator that the same watermark moves."""

    @property
    def held_back(self) -> int:
        """Milliseconds that a core adds to the query's watermark."""
        return self.behind or 0

    def on_stream(self, side: Side, stream: StreamName) -> DataFrame:
        """Return what Spark has of a stream, with its watermark if it needs one here."""
        if isinstance(side, Decoded):
            return side.frame
        if stream not in self.ts or self.idle is not None or _delays(side):
            return with_plain_names(side)
        _check_column(side, stream, self.ts[stream])
        plain = with_plain_names(side)
        return plain.withWatermark(plain.columns[side.columns.index(self.ts[stream])], self._delay)

    def on_packed(self, packed: DataFrame, side: Side, stream: StreamName) -> DataFrame:
        """Return a stream's envelopes, with its watermark if it could have none before."""
        if stream not in self.ts or self.idle is not None or not isinstance(side, Decoded):
            return packed
        _check_column(side, stream, self.ts[stream])
        return self._with_watermark(packed)

    def on_envelopes(self, united: DataFrame) -> DataFrame:
        """Return the envelopes of all streams with the watermark that ``idle`` needs: by the newest of all rows."""
        return united if self.idle is None or not self.ts else self._with_watermark(united)

    def _with_watermark(self, packed: DataFrame) -> DataFrame:
        """Return envelopes with a watermark by the largest timestamps in them."""
        moments = packed.withColumn(MOMENT, F.timestamp_micros(F.col("counts")[0]))
        return moments.withWatermark(MOMENT, self._delay).select(*packed.columns)

    def of_results(self, stream: StreamName, field: StructField) -> dict[str, Any]:
        """Return the metadata of a result's column, which comes from this column of a stream."""
        if self.behind is None or self.ts.get(stream) != field.name:
            return {}
        return {DELAY: self._delay_of_query // MILLISECOND, RESULT: True}

    @property
    def _delay_of_query(self) -> timedelta:
        """How far the query's watermark lies behind the newest row; Spark counts whole milliseconds."""
        return (
            -(-(self.lateness + (self.idle or timedelta(0))) // MILLISECOND) * MILLISECOND
            + self.held_back * MILLISECOND
        )

    @property
    def _delay(self) -> str:
        return format_duration(self._delay_of_query)


def event_time(frames: Mapping[StreamName, Side], window: Window | Windows) -> EventTime:
    """Return how a join goes by the query's watermark; raise for watermarks on its inputs that it cannot go by."""
    is_streaming = any(frame.isStreaming for frame in frames.values())
    if isinstance(window, CountWindow | CountWindows) or not is_streaming:
        return EventTime({}, timedelta(0), None, None)
    if isinstance(window, TimeWindow):
        ts = {"left": window.left_ts, "right": window.right_ts}
        reach = max(window.left, window.right)
    else:
        ts, reach = dict(window.ts), max(window.lengths.values())
    given = [stream for stream, frame in frames.items() if _delays(frame)]
    for stream in given:
        _check_given(frames[stream], stream, ts[stream], window)
    is_ours = not given and reach <= LONGEST_REACH
    return EventTime(ts, window.lateness, window.idle, -(-reach // MILLISECOND) if is_ours else None, bool(given))


def with_plain_names(frame: DataFrame) -> DataFrame:
    """Return the DataFrame with names by which PySpark finds every column: plain ones that differ in more than case.

    Packers find columns by position, so the names do not matter to them.
    """
    names = frame.columns
    are_plain = all(name.isascii() and name.isidentifier() for name in names)
    if are_plain and len({name.lower() for name in names}) == len(names):
        return frame
    return frame.toDF(*(f"column_{place}" for place in range(len(names))))


def _delays(frame: Side) -> dict[str, Any]:
    """Return the columns that have a watermark, with its metadata."""
    return {field.name: field.metadata for field in frame.schema.fields if DELAY in (field.metadata or {})}


def _check_given(frame: Side, stream: StreamName, ts: str, window: TimeWindow | TimeWindows) -> None:
    """Raise unless the watermark that a stream has already is one that the window can go by."""
    delays = _delays(frame)
    if ts not in delays:
        raise SpecificationError(
            f"the {stream} stream has a watermark on {', '.join(delays)}, its window is on {ts}",
            "a watermark on the window's own column, or none: then it gets one with the window's lateness",
            f"call withWatermark({ts!r}, …) instead, or leave it out",
        )
    if window.idle is not None:
        raise SpecificationError(
            f"the {stream} stream has a watermark already, its window idle={format_duration(window.idle)}",
            "idle with streams that have no watermark yet: the streams draw one watermark along together",
            f"leave withWatermark({ts!r}, …) out and give the window that lateness; or this stream is the result of a "
            "join: leave idle out",
        )
    delay = timedelta(milliseconds=int(delays[ts][DELAY] or 0))
    if delay < window.lateness and RESULT not in delays[ts]:
        raise SpecificationError(
            f"the {stream} stream has a watermark of {format_duration(delay)}, its window a lateness of "
            f"{format_duration(window.lateness)}",
            "a watermark of the window's lateness at least, or none: then it gets one of just that",
            f"leave withWatermark({ts!r}, …) out, or give both the same length",
        )


def _check_column(frame: Side, stream: StreamName, ts: str) -> None:
    """Raise for a timestamp column that cannot have a watermark in Spark."""
    if isinstance(frame.schema[ts].dataType, TimestampNTZType):
        raise SpecificationError(
            f"the window's column {ts!r} of the {stream} stream has the Spark type timestamp_ntz",
            "timestamp, in a streaming join: Spark's watermarks know no other",
            f'cast it before the join: .withColumn("{ts}", col("{ts}").cast("timestamp"))',
        )
