"""``watersmeet explain``: says in plain words what a job will do. It starts nothing, and looks at no data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

from watersmeet.jobs.checks import in_order, result_of, window_of
from watersmeet.jobs.model import (
    ConsoleSink,
    DeltaSource,
    FileSource,
    Job,
    KafkaSink,
    KafkaSource,
    ManyJoin,
    PairJoin,
    Source,
)
from watersmeet.jobs.reading import JobFile
from watersmeet.spec.durations import format_duration
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.window import CountWindow, CountWindows, TimeWindow, TimeWindows, Window, Windows

__all__ = ["explain"]

KINDS: Final[Mapping[str, str]] = {
    "inner": "pairs of rows that meet",
    "left": "pairs, and each left row that meets nobody, once",
    "right": "pairs, and each right row that meets nobody, once",
    "full": "pairs, and each row of either side that meets nobody, once",
    "semi": "each left row that meets one, once",
    "anti": "each left row that meets nobody, once",
}
LATE: Final[Mapping[str, str]] = {
    "drop": "is counted and left out",
    "error": "fails the job",
    "keep": 'comes out with its stream\'s name in a last column "late"',
}


def explain(file: JobFile) -> str:
    """Return what a job will do, as a text of a few sections."""
    job = file.job
    sections = {
        "Streams": list(_streams(file)),
        "Joins": [line for name in in_order(job) for line in _join(job, name)],
        "Sink": list(_sink(file)),
        "How it runs": list(_run(file)),
        "What may go wrong": list(_risks(file)) or ["nothing that can be seen from here"],
    }
    told = [f"{job.name} ({file.file.name})"]
    for title, lines in sections.items():
        told += ["", title, *(f"  {line}" for line in lines)]
    return "\n".join(told)


def _streams(file: JobFile) -> Iterator[str]:
    for name, source in file.job.streams.items():
        yield f"{name}: {_source(file, source)}"
        if source.select is not None:
            yield f"  goes on with {', '.join(source.select)}"
    for name, table in file.job.tables.items():
        yield f"{name}: a table to look up, {table.format} in {file.folder(table.path)}, read once when the job starts"
        if table.select is not None:
            yield f"  goes on with {', '.join(table.select)}"


def _source(file: JobFile, source: Source) -> str:
    if isinstance(source, KafkaSource):
        return (
            f"topic {source.topic} of Kafka at {source.servers}, JSON with {source.columns};"
            f" the first start begins at {source.starting_offsets}"
        )
    if isinstance(source, FileSource | DeltaSource):
        what = "rows added to the Delta table" if isinstance(source, DeltaSource) else f"{source.format} files put"
        bound = "" if source.files_per_trigger is None else f", at most {source.files_per_trigger} files a micro-batch"
        columns = "" if isinstance(source, DeltaSource) else f", with {source.columns}"
        return f"{what} in {file.folder(source.path)}{columns}{bound}"
    return f"{source.rows_per_second:,} generated rows a second"


def _join(job: Job, name: str) -> Iterator[str]:
    part = job.joins[name]
    window = window_of(part)
    inputs = job.inputs_of(name)
    if isinstance(part, ManyJoin):
        yield f"{name}: {', '.join(f'{one} as {key}' for key, one in part.streams.items())}"
        yield "  gives one row of every stream that go together"
        yield f"  on {parse_predicate(part.on, tuple(part.streams))}"
    else:
        yield f"{name}: {inputs[0]} (left) with {inputs[1]} (right)"
        yield f"  gives {KINDS[part.how]}"
        yield f"  on {parse_predicate(part.on)}"
    if window is None:
        yield "  each row looks in the table when it comes: nothing is kept, and no row is late"
        return
    yield f"  {window}"
    yield f"  kept: {_kept(window)}"
    yield (
        f"  a row further behind than the lateness is late: it {LATE[part.late]}"
        if _is_time(window)
        else "  no row is late"
    )
    if isinstance(part, PairJoin) and part.how not in ("inner", "semi"):
        yield f"  a row that meets nobody comes out {_when_unmatched(window)}"
    if isinstance(part, PairJoin) and part.order is not None:
        yield "  each micro-batch's results come in order, through one task"


def _is_time(window: Window | Windows) -> bool:
    return isinstance(window, TimeWindow | TimeWindows)


def _stays(window: Window | Windows) -> list[tuple[str, timedelta | int]]:
    match window:
        case TimeWindow():
            return [("left rows", window.left), ("right rows", window.right)]
        case TimeWindows():
            return [(f"rows of {name}", stay) for name, stay in window.lengths.items()]
        case CountWindow():
            return [("left rows", window.left), ("right rows", window.right)]
        case CountWindows():
            return [(f"rows of {name}", count) for name, count in window.counts.items()]


def _kept(window: Window | Windows) -> str:
    told = []
    for what, stay in _stays(window):
        if isinstance(stay, int):
            told.append(f"the last {stay:,} {what}")
        else:
            lateness = window.lateness if isinstance(window, TimeWindow | TimeWindows) else timedelta(0)
            told.append(f"{what} for {format_duration(stay + lateness)} of event time")
    return f"{', '.join(told)}, in the checkpoint's state"


def _when_unmatched(window: Window | Windows) -> str:
    if isinstance(window, TimeWindow):
        longest = max(window.left, window.right) + window.lateness
        return f"as soon as both streams are {format_duration(longest)} further in event time"
    return "when it has left its own stream's window"


def _sink(file: JobFile) -> Iterator[str]:
    job, sink = file.job, file.job.sink
    yield f"the results of {result_of(job)} go to {_target(file)}"
    if isinstance(sink, ConsoleSink):
        yield "to have a look: all results of a micro-batch come to this process, and nothing is kept"
    elif isinstance(sink, KafkaSink):
        yield "each at least once: a micro-batch that was broken off is written again after a restart"
    elif sink.format == "parquet":
        yield "each exactly once for whoever reads the folder with Spark; others may see files of a micro-batch that"
        yield "was broken off"
    else:
        yield "each exactly once"


def _target(file: JobFile) -> str:
    sink = file.job.sink
    if isinstance(sink, ConsoleSink):
        return f"the terminal, at most {sink.rows} of a micro-batch"
    if isinstance(sink, KafkaSink):
        return f"topic {sink.topic} of Kafka at {sink.servers}, as JSON" + (
            "" if sink.key is None else f", with {sink.key} as key"
        )
    return f"{sink.format} in {file.folder(sink.path)}"


def _run(file: JobFile) -> Iterator[str]:
    job = file.job
    if job.trigger.available_now:
        yield "takes all there is when it starts, then ends"
    elif job.trigger.every is not None:
        yield f"a micro-batch every {job.trigger.every}, until SIGTERM or Ctrl-C: then it ends after the one that runs"
    else:
        yield "micro-batch after micro-batch, until SIGTERM or Ctrl-C: then it ends after the one that runs"
    if job.checkpoint is None:
        yield "without a checkpoint: each start begins anew"
    else:
        folder = file.folder(job.checkpoint)
        yield f"keeps a checkpoint in {folder}: a restart goes on there, with every row from before"
    yield f"on {job.spark.master or 'all cores of this machine'}, {job.spark.memory} for the driver's JVM"


def _risks(file: JobFile) -> Iterator[str]:
    job = file.job
    if any(isinstance(source, KafkaSource) for source in job.streams.values()):
        yield "a value of Kafka that is not JSON of the schema gives a row of nulls, which meets nobody (null_rows)"
    for name, part in job.joins.items():
        yield from _risks_of_window(name, window_of(part))
        if any(one in job.joins for one in job.inputs_of(name)):
            yield f"{name}: its results have no event time, so nothing that goes by time may follow it"
        if isinstance(part, PairJoin) and part.how not in ("inner", "semi"):
            yield f"{name}: the last rows that meet nobody come out only when later ones have moved the watermark"
    if job.checkpoint is not None:
        yield "another predicate, window, how, routing or number of cores needs a new checkpoint; it is refused on this"
    used = {part.format for part in (*job.streams.values(), *job.tables.values(), job.sink)}
    packages = [name for name in ("kafka", "delta") if name in used]
    if packages and not any(key.startswith("spark.jars") for key in job.spark.settings):
        they, need = " and ".join(packages), "need packages" if len(packages) > 1 else "needs a package"
        which = f"`watersmeet doctor {file.file.name}` says which"
        yield f"{they} {need} of Spark, and [spark.settings] names none; {which}"


def _risks_of_window(name: str, window: Window | Windows | None) -> Iterator[str]:
    if isinstance(window, CountWindow | CountWindows):
        yield f"{name}: a count window goes by the order of arrival, so its results depend on the micro-batches"
    elif window is not None:
        if window.idle is None:
            yield f"{name}: a stream that pauses holds the watermark, and state grows meanwhile; `idle` bounds that"
        if window.lateness == timedelta(0):
            yield f"{name}: without lateness a row is late that a micro-batch brings out of order behind an earlier one"
