"""What the keys of a job have to do with each other, and what its texts mean: all that can be known without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from typing import Any, cast

from watersmeet.jobs.model import ConsoleSink, Job, ManyJoin, PairJoin, WindowPart
from watersmeet.jobs.problems import Problem
from watersmeet.jobs.toml_lines import Path
from watersmeet.spec.durations import parse_duration
from watersmeet.spec.errors import SpecificationError, WatersmeetError
from watersmeet.spec.kinds import returns_left_rows
from watersmeet.spec.options import refuse_late_beside
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.streams import check_names, take_apart
from watersmeet.spec.window import Window, Windows, count_window, time_window, windows_of

__all__ = ["in_order", "problems_of", "result_of", "unread", "window_of"]


def problems_of(job: Job) -> Iterator[Problem]:
    """Yield what is wrong with a job whose keys have been checked one by one."""
    of_names = list(_names(job))
    if of_names:  # what a name stands for is not known then
        yield from of_names
        return
    for name in job.joins:
        yield from _join(job, name)
    yield from _circles(job)
    yield from _sink(job)
    yield from _trigger(job)


def in_order(job: Job) -> list[str]:
    """Return the joins such that each comes behind those whose results it reads."""
    read = {name: [one for one in job.inputs_of(name) if one in job.joins] for name in job.joins}
    return list(TopologicalSorter(read).static_order())


def unread(job: Job) -> list[str]:
    """Return the joins whose results no other join reads."""
    read = {one for name in job.joins for one in job.inputs_of(name)}
    return [name for name in job.joins if name not in read]


def result_of(job: Job) -> str:
    """Return the join whose results are written."""
    return job.sink.input or unread(job)[-1]


def window_of(join: PairJoin | ManyJoin) -> Window | Windows | None:
    """Return the window that ``wm.join`` or ``wm.multijoin`` takes; raise if it can be none."""
    part = join.window
    if part is None:
        return None
    many = isinstance(join, ManyJoin)
    if part.time is not None:
        how_far = {"lateness": part.lateness, "idle": part.idle}
        if many or not (isinstance(part.time, Mapping) or isinstance(part.ts, Mapping)):
            window = _built(time_window, part.time, ts=part.ts, **how_far)
        else:
            stays, columns = _sides(part.time), _sides(part.ts)
            sides = {"left_ts": columns["left"], "right_ts": columns["right"]}
            window = _built(time_window, **stays, **sides, **how_far)
    elif many or not isinstance(part.count, Mapping):
        window = _built(count_window, part.count, order_by=part.order_by)
    else:
        window = _built(count_window, **_sides(part.count), order_by=part.order_by)
    return windows_of(window, tuple(join.streams)) if isinstance(join, ManyJoin) else window


def _built(function: Callable[..., Any], *arguments: object, **options: object) -> Window | Windows:
    """Return a window; which of its arguments go together is checked by what makes it."""
    return cast("Window | Windows", function(*arguments, **options))


def _sides(given: object) -> dict[str, object]:
    """Return what stands for left and for right."""
    if not isinstance(given, Mapping):
        return {"left": given, "right": given}
    if set(given) != {"left", "right"}:
        raise SpecificationError(
            f"values for {', '.join(given) or 'nothing'}",
            "values for left and right, of a join of two",
            "write { left = …, right = … }, or one value for both",
        )
    return dict(given)


# --- one by one -----------------------------------------------------------------------------------------------------


def _names(job: Job) -> Iterator[Problem]:
    """Streams, tables and joins are read by their names."""
    kinds = {"streams": job.streams, "tables": job.tables, "joins": job.joins}
    seen: dict[str, str] = {}
    for kind, parts in kinds.items():
        for name in cast("Mapping[str, object]", parts):
            if name in seen:
                yield Problem(
                    (kind, name),
                    f"{name} is also one of the {seen[name]}",
                    "a name of its own for each stream, table and join",
                    "give one of them another name, and use it where it is read",
                )
            seen.setdefault(name, kind)
    for kind in ("streams", "joins"):
        if not kinds[kind]:
            yield Problem((kind,), f"there are no {kind}", "one at least", f"add a table [{kind}.NAME]")


def _join(job: Job, name: str) -> Iterator[Problem]:
    part = job.joins[name]
    path: Path = ("joins", name)
    known = [*job.streams, *job.tables, *(join for join in job.joins if join != name)]
    inputs = (
        {("streams", key): one for key, one in part.streams.items()}
        if isinstance(part, ManyJoin)
        else {
            ("left",): part.left,
            ("right",): part.right,
        }
    )
    unknown = {key: one for key, one in inputs.items() if one not in known}
    for key, one in unknown.items():
        near = get_close_matches(one, known, 1)
        step = f"write {near[0]}" if near else f"add a table [streams.{one}]"
        yield Problem(
            (*path, *key), f'there is no "{one}"', f"streams, tables and other joins: {', '.join(known)}", step
        )
    if isinstance(part, ManyJoin):
        yield from _many(job, name, part)
    elif not unknown:
        yield from _two(job, name, part)
    if part.window is not None:
        yield from _window((*path, "window"), part.window, part)


def _many(job: Job, name: str, part: ManyJoin) -> Iterator[Problem]:
    path: Path = ("joins", name)
    for key, one in part.streams.items():
        if one in job.tables:
            yield Problem(
                (*path, "streams", key),
                f'"{one}" is a table to look up',
                "streams and other joins, in a join of many",
                "join the table in a join of its own, with left and right",
            )
    try:
        streams = check_names(part.streams)
    except WatersmeetError as error:
        yield Problem.of((*path, "streams"), error)
        return
    try:
        take_apart(parse_predicate(part.on, streams), streams)
    except WatersmeetError as error:
        yield Problem.of((*path, "on"), error)
    if part.largest is not None and part.largest not in part.streams:
        yield Problem(
            (*path, "largest"), f'"{part.largest}" is none of its streams', ", ".join(part.streams), "name one of them"
        )


def _two(job: Job, name: str, part: PairJoin) -> Iterator[Problem]:
    path: Path = ("joins", name)
    try:
        parse_predicate(part.on)
    except WatersmeetError as error:
        yield Problem.of((*path, "on"), error)
    tables = [one for one in (part.left, part.right) if one in job.tables]
    if len(tables) > 1:
        step = "make one of them a stream, or join them with Spark SQL beforehand"
        yield Problem(path, f"{part.left} and {part.right} are tables", "a table beside a stream", step)
    elif tables and part.window is not None:
        yield Problem(
            (*path, "window"),
            f"{tables[0]} is a table to look up, which has no window",
            "a window for two streams, none beside a table",
            f"take the window out, or move {tables[0]} to [streams]",
        )
    elif tables:
        for key, default in (
            ("routing", "auto"),
            ("cores", None),
            ("late", "drop"),
            ("balance", "auto"),
            ("order", None),
        ):
            if getattr(part, key) != default:
                allowed = "how and structure, beside a table to look up, which has neither state nor cores"
                yield Problem((*path, key), f"{key} beside the table {tables[0]}", allowed, f"take {key} out")
        side, kinds = (
            ("left", ("inner", "right")) if part.left in job.tables else ("right", ("inner", "left", "semi", "anti"))
        )
        if part.how not in kinds:
            given = f'"{part.how}" with the table on the {side}'
            allowed = ", ".join(f'"{kind}"' for kind in kinds)
            yield Problem(
                (*path, "how"),
                given,
                f"{allowed}: when a row of the table is unmatched is never known",
                "take one of these",
            )
    elif part.window is None:
        yield Problem(
            path,
            f"[joins.{name}] has no window",
            "a window; it is left out only if left or right is one of the tables",
            'add window = { time = "1 second", ts = "ts" }',
        )
    if part.late == "keep" and returns_left_rows(part.how):
        yield Problem.of((*path, "late"), refuse_late_beside(part.how))


def _window(path: Path, window: WindowPart, join: PairJoin | ManyJoin) -> Iterator[Problem]:
    if (window.time is None) == (window.count is None):
        given = "both time and count" if window.time is not None else "neither time nor count"
        yield Problem(path, f"the window has {given}", "one of the two", 'write for example time = "1 second" alone')
        return
    stray = [key for key in ("ts", "idle") if getattr(window, key) is not None] if window.count is not None else []
    stray += ["lateness"] if window.count is not None and "lateness" in window.model_fields_set else []
    stray += ["order_by"] if window.time is not None and window.order_by is not None else []
    for key in stray:
        kind, other = ("count", "time") if window.count is not None else ("time", "count")
        yield Problem((*path, key), f"{key} in a window by {kind}", f"{key} with {other}", f"take {key} out")
    if window.time is not None and window.ts is None:
        yield Problem(path, "the window has no ts", "the column with the timestamp", 'add ts = "ts"')
    elif isinstance(window.order_by, Mapping) and isinstance(join, PairJoin):
        step = 'write order_by = "ts"; select = ["at AS ts", …] of a stream gives a column another name'
        yield Problem((*path, "order_by"), "an order by stream", "one column for both, in a join of two", step)
    elif not stray:
        for key in ("lateness", "idle"):
            if getattr(window, key) is not None:
                try:
                    parse_duration(getattr(window, key))
                except WatersmeetError as error:
                    yield _duration((*path, key), error)
                    return
        try:
            window_of(join)
        except WatersmeetError as error:
            yield _duration((*path, "time" if window.time is not None else "count"), error)


def _circles(job: Job) -> Iterator[Problem]:
    for name in job.joins:
        if name in job.inputs_of(name):
            key = ("joins", name, "left" if isinstance(job.joins[name], PairJoin) else "streams")
            yield Problem(
                key, f"{name} reads its own results", "streams, tables and other joins", "name what it is to join"
            )
            return
    try:
        in_order(job)
    except CycleError as error:
        circle = list(reversed(error.args[1]))
        given = f"{' reads '.join(circle)}: a circle"
        yield Problem(
            ("joins", circle[0]), given, "joins that read the results of others in one direction", "take one out"
        )


def _sink(job: Job) -> Iterator[Problem]:
    ends = unread(job)
    if job.sink.input is not None and job.sink.input not in job.joins:
        near = get_close_matches(job.sink.input, list(job.joins), 1)
        step = f'write input = "{near[0]}"' if near else "name one of the joins"
        yield Problem(("sink", "input"), f'there is no join "{job.sink.input}"', f"joins: {', '.join(job.joins)}", step)
    elif job.joins and len(ends) > 1:
        idle = [name for name in ends if name != job.sink.input]
        given = f"nobody reads the results of {' and '.join(idle if job.sink.input else ends)}"
        step = "make another job of the others, or join their results"
        yield Problem(("joins", idle[0]), given, "joins that lead to the one sink", step)
    elif ends and job.sink.input is not None and job.sink.input != ends[0]:
        given = f'"{job.sink.input}" is written, and {ends[0]}, which reads it, is not'
        yield Problem(("sink", "input"), given, "joins that lead to the one sink", f'write input = "{ends[0]}"')
    if job.checkpoint is None and not isinstance(job.sink, ConsoleSink):
        yield Problem(
            ("sink",),
            f"there is no checkpoint for a sink in {job.sink.format}",
            "a folder that is kept as long as the results; none with a console sink alone",
            'add checkpoint = "checkpoint" above the first table',
        )


def _trigger(job: Job) -> Iterator[Problem]:
    every = job.trigger.every
    if every is not None and job.trigger.available_now:
        yield Problem(("trigger",), "both every and available_now", "one of the two, or none", "take one of them out")
    elif every is not None:
        try:
            parse_duration(every)
        except WatersmeetError as error:
            yield _duration(("trigger", "every"), error)


def _duration(path: Path, error: WatersmeetError) -> Problem:
    """Return the problem of a duration in a file, which has no ``timedelta``."""
    return Problem(path, error.given, error.allowed.removeprefix("a datetime.timedelta, or "), error.next_step)
