"""Builds the joins of a job, each behind those whose results it reads.

*Which columns tell the time.* A result has all columns of its inputs in their order, so a column is followed by its
place. The timestamps of all windows are followed, and the arrivals where all streams have one: the latest of each is
the result's own. A ``select`` may leave them out; then what it takes a time from is not known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from watersmeet.jobs.checks import in_order, result_of, window_of
from watersmeet.jobs.model import Join, ManyJoin, PairJoin
from watersmeet.jobs.reading import JobFile
from watersmeet.jobs.sources import SPARK_ERRORS, Rows, read_stream, read_table, refused_by_spark, select
from watersmeet.jobs.toml_lines import Path
from watersmeet.spec.errors import WatersmeetError
from watersmeet.spec.window import CountWindow, CountWindows, TimeWindow, TimeWindows, Window, Windows

__all__ = ["results"]


def results(spark: SparkSession, file: JobFile) -> Rows:
    """Return what the job writes."""
    job = file.job
    known = {name: read_stream(spark, file, name) for name in job.streams}
    known |= {name: Rows(read_table(spark, file, name)) for name in job.tables}
    for name in in_order(job):
        known[name] = _joined(file, name, {one: known[one] for one in job.inputs_of(name)})
    return known[result_of(job)]


def _joined(file: JobFile, name: str, known: Mapping[str, Rows]) -> Rows:
    part, path = file.job.joins[name], ("joins", name)
    window = window_of(part)
    inputs = [known[one] for one in file.job.inputs_of(name)]
    _check_times(file, path, part, window, inputs)
    try:
        frame = _join(part, name, window, [one.frame for one in inputs])
    except WatersmeetError as error:
        told = (key for key in type(part).model_fields if re.search(rf"\b{key}=", error.given))
        raise file.refused((*path, next(told, "on")), error) from error
    except SPARK_ERRORS as error:
        raise refused_by_spark(error, file, path) from error
    if isinstance(part, PairJoin) and part.how in ("semi", "anti"):
        inputs, window_times = inputs[:1], _times(window)[:1]
    else:
        window_times = _times(window)
    streams = [one for one in inputs if one.frame.isStreaming]
    tells_arrival = all(one.arrivals for one in streams)
    times: list[str] = []
    arrivals: list[str] = []
    first = 0
    for number, one in enumerate(inputs):
        columns = {column: frame.columns[first + place] for place, column in enumerate(one.frame.columns)}
        by_window = [column for column in columns if window_times and _same(column, window_times[number])]
        times += [columns[column] for column in dict.fromkeys((*one.times, *by_window))]
        arrivals += [columns[column] for column in one.arrivals if tells_arrival]
        first += len(columns)
    return _selected(file, path, Rows(frame, tuple(times), tuple(arrivals)), part.select)


def _join(part: Join, name: str, window: Window | Windows | None, frames: list[DataFrame]) -> DataFrame:
    """Call ``wm.join`` or ``wm.multijoin``: every key that is left is one of its arguments."""
    taken = {"left", "right", "streams", "on", "window", "select"}
    options: dict[str, Any] = {key: value for key, value in part if key not in taken}
    if isinstance(part, ManyJoin):
        assert window is not None, "a join of many has one"
        return wm.multijoin(dict(zip(part.streams, frames, strict=True)), part.on, window, name=name, **options)
    assert not isinstance(window, TimeWindows | CountWindows), "a join of two has none by name"
    if window is not None:
        options["name"] = name
    return wm.join(frames[0], frames[1], part.on, window, **options)


def _times(window: Window | Windows | None) -> list[str]:
    """Return the timestamps of a window, stream by stream; none of any other window."""
    match window:
        case TimeWindow():
            return [window.left_ts, window.right_ts]
        case TimeWindows():
            return list(window.ts.values())
        case _:
            return []


def _check_times(file: JobFile, path: Path, part: Join, window: Window | Windows | None, inputs: list[Rows]) -> None:
    """Raise if a window goes by a column that is not there."""
    key, wanted = "ts", _times(window)
    if isinstance(window, CountWindow) and window.order_by is not None:
        key, wanted = "order_by", [window.order_by] * 2
    elif isinstance(window, CountWindows) and window.order_by is not None:
        key, wanted = "order_by", list(window.order_by.values())
    names = list(part.streams) if isinstance(part, ManyJoin) else ["left", "right"]
    for name, wants, rows in zip(names, wanted, inputs, strict=bool(wanted)):
        if not any(_same(column, wants) for column in rows.frame.columns):
            raise file.error(
                (*path, "window", key),
                f"{name} has no column {wants}",
                f"its columns: {', '.join(rows.frame.columns)}",
                "name one of them, or one for each stream: { left = …, right = … }"
                if isinstance(part, PairJoin)
                else "name one of them, or one for each stream",
            )


def _same(column: str, other: str) -> bool:
    return column.casefold() == other.casefold()


def _selected(file: JobFile, path: Path, rows: Rows, expressions: list[str] | None) -> Rows:
    """Return what a join goes on with; a time that is left out is not known any more."""
    frame = select(rows.frame, file, path, expressions)
    has = set(frame.columns)
    times = rows.times if has.issuperset(rows.times) else ()
    return Rows(frame, times, rows.arrivals if has.issuperset(rows.arrivals) else ())
