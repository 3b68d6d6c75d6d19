"""Streaming queries that compete: each in a process and a Spark session of its own, all fed with the same files.

A contestant is given micro-batches turn by turn: one Parquet file a stream and micro-batch, hard-linked into the
folders that its query reads, and then a run of the query with ``trigger(availableNow=True)``. So several contestants
can take turns on a machine that others use too. A turn begins with a restart of the query, whose first micro-batches
read the state again: :meth:`Contestant.turn` tells them apart as warm-up.

All streams bring one row per microsecond, so a window of n rows is a time window of n microseconds.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypedDict, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import STREAMS, SideName, stream_rows
from benchmarks.experiment import NO_SLOWER, Context, DisagreementError, Experiment, median
from benchmarks.feed import KEY_RANGE, band_width
from benchmarks.process import Worker
from benchmarks.report import Goal

__all__ = [
    "CORES",
    "EMPTY",
    "OURS",
    "ROW_BYTES",
    "Arena",
    "Condition",
    "Contestant",
    "ContestantName",
    "CoreRecord",
    "MicroBatch",
    "SparkTask",
    "compare_trees",
    "median_rate",
    "median_seconds",
    "rivals",
    "with_older_tree",
]

ContestantName = Literal[
    "ours",
    "ours before",
    "ours, pair by pair",
    "ours, left",
    "ours, full",
    "ours, semi",
    "ours, anti",
    "empty pipeline",
    "Spark, format 2",
    "Spark, format 4",
]
Condition = Literal["band", "equality"]
OURS: Final[ContestantName] = "ours"
EMPTY: Final[ContestantName] = "empty pipeline"
BEFORE: Final[ContestantName] = "ours before"
CORES: Final = 2
ROW_BYTES: Final = 24
"""Of a row as it comes: key, timestamp and payload."""
FIRST_MOMENT: Final = 1_700_000_000 * 10**6
"""In microseconds, long after 1970: Spark's own join takes a row of the epoch itself for a late one."""
FIRST_WRITTEN: Final = 1_700_000_000 * 10**9
NANOSECONDS_PER_ROW: Final = 100_000
ROW_GROUPS: Final = 8


class SparkTask(TypedDict):
    """What the process of a contestant is told."""

    folder: str
    streams: list[SideName]
    condition: Condition
    band: int
    """Half its width."""
    window: int
    cores: int
    memory: str
    settings: dict[str, str]
    """Further settings of Spark's."""


class CoreRecord(TypedDict):
    """What one core of the join reports about a micro-batch."""

    core: int
    rows_in: int
    pairs: int
    window_rows: int
    state_bytes: int
    runs: int
    runs_remembered: int
    runs_mapped: int
    runs_read: int
    busy_seconds: float
    work_seconds: float
    generation: int


class MicroBatch(TypedDict):
    """One micro-batch: rows of all streams, and what became of them."""

    rows: int
    pairs: int
    unmatched_rows: int
    """Rows that met nobody and were given; 0 of Spark's own joins, which do not tell."""
    seconds: float
    add_batch_seconds: float
    state_rows: int
    cores: list[CoreRecord]


@dataclass(frozen=True)
class Arena:
    """A scratch folder with the files of all streams, and the contestants that read them."""

    context: Context
    folder: Path
    processes: ExitStack
    seed: int
    key_range: int
    block: int
    """Rows that are made at a time: the streams are the same, however micro-batches of whole blocks cut them."""
    streams: tuple[SideName, ...]
    hot: float = 0.0
    """The part of all rows that has one and the same key."""

    @classmethod
    @contextmanager
    def open(
        cls,
        context: Context,
        *,
        seed: int,
        block: int,
        key_range: int = KEY_RANGE,
        streams: int = 2,
        hot: float = 0.0,
    ) -> Iterator[Arena]:
        """Make the folder; at the end, end the contestants and remove it."""
        folder = Path(tempfile.mkdtemp(prefix="watersmeet-bench-"))
        try:
            with ExitStack() as processes:
                yield cls(context, folder, processes, seed, key_range, block, STREAMS[:streams], hot)
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # a JVM that was killed may still be writing

    def enter(
        self,
        name: ContestantName,
        window: int,
        *,
        condition: Condition = "band",
        matches: int = 1,
        memory: str = "6g",
        settings: Mapping[str, str] | None = None,
    ) -> Contestant:
        """Start a contestant, which gets ready while others are started; a row meets about ``matches`` of a window."""
        folder = self.folder / f"contestant-{len(list(self.folder.glob('contestant-*')))}"
        for side in self.streams:
            (folder / side).mkdir(parents=True)
        task: SparkTask = {
            "folder": str(folder),
            "streams": list(self.streams),
            "condition": condition,
            "band": matches * band_width(window),
            "window": window,
            "cores": CORES,
            "memory": memory,
            "settings": dict(settings or {}),
        }
        tree = self.context.before if name == BEFORE else None
        worker = Worker("benchmarks.spark_worker", name, task, {}, tree)
        return Contestant(self, name, folder, self.processes.enter_context(worker))

    def file(self, side: SideName, first: int, rows: int) -> Path:
        """Return the file with ``rows`` rows from number ``first`` on, written when first asked for."""
        assert first % self.block == rows % self.block == 0, "files are made of whole blocks"
        path = self.folder / f"{side}-{first}-{rows}.parquet"
        if not path.exists():
            blocks = range(first // self.block, (first + rows) // self.block)
            table = pa.concat_tables(
                [
                    stream_rows(side, number, self.block, seed=self.seed, key_range=self.key_range, hot=self.hot)
                    for number in blocks
                ]
            )
            moments = pa.array(FIRST_MOMENT + np.arange(first, first + rows), pa.timestamp("us", "UTC"))
            # Several row groups: Spark may then cut the file and read it on all cores.
            pq.write_table(table.set_column(1, "ts", moments), path, row_group_size=max(1, rows // ROW_GROUPS))
            written = FIRST_WRITTEN + first * NANOSECONDS_PER_ROW
            os.utime(path, ns=(written, written))  # Spark reads files in this order
        return path


@dataclass
class Contestant:
    """A query in a process of its own, and how many rows of each stream it has had."""

    arena: Arena
    name: ContestantName
    folder: Path
    worker: Worker
    first: int = 0
    ready: bool = False

    def turn(self, batches: int, rows: int, *, warm_up: int = 0) -> list[MicroBatch]:
        """Take ``warm_up`` micro-batches and then ``batches`` of ``rows`` rows a stream; return the latter."""
        return self.take([rows] * (warm_up + batches))[warm_up:]

    def take(self, sizes: Sequence[int]) -> list[MicroBatch]:
        """Take micro-batches of so many rows a stream in one run of the query."""
        for rows in sizes:
            for side in self.arena.streams:
                file = self.arena.file(side, self.first, rows)
                os.link(file, self.folder / side / file.name)
            self.first += rows
        say = self.arena.context.progress.step
        if not self.ready:
            say(f"{self.name}: starting Spark")
            self.worker.wait_until_ready()
            self.ready = True
        self.worker.ask()
        taken: list[MicroBatch] = []
        while (answer := self.worker.answer()) is not None:
            taken.append(cast("MicroBatch", answer))
            self.arena.context.noted.append({"what": self.name, **taken[-1]})
            say(f"{self.name}: micro-batch of {taken[-1]['rows']:,} rows took {taken[-1]['seconds']:.2f} s")
        assert [one["rows"] for one in taken] == [len(self.arena.streams) * rows for rows in sizes], "one file each"
        return taken

    def fill(self, window: int, rows: int) -> None:
        """Take micro-batches of ``rows`` rows until the window is full."""
        self.turn(-(-window // rows), rows)


def rivals(context: Context) -> tuple[ContestantName, ...]:
    """Return what the join is compared with: the empty pipeline, and the join of an older tree if one is given."""
    return (EMPTY,) if context.before is None else (EMPTY, BEFORE)


def with_older_tree(experiment: Experiment) -> Experiment:
    """Return an experiment that can be run with :func:`rivals` where an older tree is given."""
    about = replace(experiment.description, purpose=f"{experiment.description.purpose}, and against an older tree")
    return replace(experiment, against=replace(experiment, name=f"{experiment.name}_against", description=about))


def compare_trees(measured: Mapping[str, list[MicroBatch]]) -> list[Goal]:
    """Return the goal that nothing has become slower; none where no older tree was measured."""
    if BEFORE not in measured:
        return []
    now, before = measured[OURS], measured[BEFORE]
    if [one["pairs"] for one in now] != [one["pairs"] for one in before]:
        raise DisagreementError("the older tree finds other numbers of pairs in the same micro-batches")
    ratio = median_seconds(now) / median_seconds(before)
    return [Goal("time of a micro-batch, this tree against the older one", ratio, NO_SLOWER, at_least=False)]


def median_seconds(batches: list[MicroBatch]) -> float:
    """Return the median time of a micro-batch."""
    return median([one["seconds"] for one in batches])


def median_rate(batches: list[MicroBatch]) -> float:
    """Return the median rows a second, of all streams together."""
    return median([one["rows"] / one["seconds"] for one in batches])
