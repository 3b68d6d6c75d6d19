"""One query, all who can answer it: the same rows from files, two cores each, one after the other.

*Rows a second* in a steady state: rows of both sides, taken while windows were full, by the time they took. Starting,
compiling, and filling the windows are left out for all alike. Who takes micro-batches is timed from a micro-batch's
files to its last pair. Flink and Pathway have all files from the start and take them as fast as they can; what they
count on the way says when how many rows were joined. Windows hold the same rows for all; who is slow joins a shorter
stretch of the streams.

*Delay*: with full windows and nothing waiting, 1,000 rows a side arrive as a file each; the time until their last pair
is out. The 95th percentile of some.

*Memory*: the most that all processes of a contestant held at one time.

Ours, DuckDB, Polars and Spark read Parquet; Flink and Pathway, whose packages bring no reader for it, read CSV.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from benchmarks.contestant import CORES, Arena, Condition, ContestantName
from benchmarks.data import SideName
from benchmarks.experiment import Context, DisagreementError
from benchmarks.feed import KEY_RANGE, band_width
from benchmarks.peers.environment import FLINK, PATHWAY, Environment, UnavailableError
from benchmarks.peers.memory import MemoryWatch
from benchmarks.process import Worker
from benchmarks.report import Cell, Figure, Panel, Result, Series, Table

__all__ = [
    "DUCKDB",
    "FLINK",
    "IN_PROCESS",
    "PATHWAY",
    "POLARS",
    "SMALL",
    "SPARK",
    "SPARKS_OWN",
    "Contest",
    "Entry",
    "Query",
    "Sizes",
    "agreed",
    "contest",
    "entry_of",
]

IN_PROCESS: Final = "StreamJoin"
SPARK: Final = "wm.join on Spark"
SPARKS_OWN: Final = "Spark's own join"
DUCKDB: Final = "DuckDB, by hand"
POLARS: Final = "Polars, by hand"

WINDOW: Final = 100_000
"""Rows a side."""
QUICK_WINDOW: Final = 8_000
BLOCKS_PER_WINDOW: Final = 2
SMALL: Final = 1_000
SMALL_WARM_UP: Final = 3
SMALL_MEASURED: Final = 12
WINDOWS_OF_PEERS: Final = 5
WINDOWS_OF_SPARK: Final = 10
SPARK_WARM_UP: Final = 1
SPARK_MEASURED: Final = 3
SECONDS: Final = 8.0
PATIENCE_SECONDS: Final = 120.0
MEMORY: Final = "4g"
"""Of a JVM."""
PERCENTILE: Final = 0.95
MILLISECONDS: Final = 1000
SIDES: Final[tuple[SideName, SideName]] = ("left", "right")


@dataclass(frozen=True)
class Query:
    """What is asked: on the keys of both sides, within the time window."""

    name: str
    condition: Condition
    seed: int
    title: str
    hot: float = 0.0


@dataclass
class Entry:
    """What one contestant did; without a rate it could not, and ``reason`` says why."""

    name: str
    reason: str = ""
    rows_per_second: float | None = None
    measured_rows: int = 0
    batch: int | None = None
    """Rows a side that it takes at a time, where it does."""
    delays: list[float] = field(default_factory=list)
    memory_bytes: int = 0
    pairs: dict[int, int] = field(default_factory=dict)
    """How many were found among so many first rows of each side."""
    checksums: dict[int, int] = field(default_factory=dict)
    """The same of a sum over all pairs, where that is asked for."""

    @property
    def delay(self) -> float | None:
        """The 95th percentile."""
        return float(np.quantile(self.delays, PERCENTILE)) if self.delays else None


@dataclass(frozen=True)
class Sizes:
    """How many rows a side: of a window, and of whoever takes them."""

    window: int
    block: int
    """Rows a side of a micro-batch of those without a cluster, and of a file of Pathway's."""
    peers: int
    """Rows a side of Flink and Pathway."""
    spark: int
    """Rows a side of a micro-batch of ours on Spark."""

    @classmethod
    def of(cls, context: Context) -> Sizes:
        """Return those of a run."""
        window = context.size(WINDOW, QUICK_WINDOW)
        return cls(window, window // BLOCKS_PER_WINDOW, WINDOWS_OF_PEERS * window, WINDOWS_OF_SPARK * window)

    @property
    def most(self) -> int:
        """Rows a side of whoever takes most."""
        return self.window + (SPARK_WARM_UP + SPARK_MEASURED) * self.spark


@dataclass
class Contest:
    """The files, and who has read them."""

    context: Context
    query: Query
    sizes: Sizes
    arena: Arena
    expected: list[int] = field(default_factory=list)
    """Pairs of each small file, by the first who took them."""

    @property
    def band(self) -> int:
        """Half the width of the band."""
        return band_width(self.sizes.window)

    def files(self, first: int, last: int, rows: int) -> list[tuple[str, str]]:
        """Return the Parquet files, of the left and the right side, with rows of these numbers."""
        return [
            (str(self.arena.file("left", at, rows)), str(self.arena.file("right", at, rows)))
            for at in range(first, last, rows)
        ]

    def csv(self, side: SideName, folder: str, rows: range, *, header: bool) -> Path:
        """Write some rows as CSV: key, number and payload."""
        first, last = rows.start - rows.start % SMALL, -(-rows.stop // SMALL) * SMALL
        table = pq.read_table(self.arena.file(side, first, last - first))
        chosen = np.arange(rows.start - first, rows.stop - first, rows.step)
        table = table.take(chosen).set_column(1, "n", pa.array(np.asarray(rows)))
        path = self.arena.folder / folder / side / f"{rows.start:09}-{rows.stop:09}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        pa_csv.write_csv(table.rename_columns(["k", "n", "payload"]), path, pa_csv.WriteOptions(include_header=header))
        return path

    def small(self, first: int, folder: str, *, header: bool) -> dict[str, list[str]]:
        """Write the small files from row ``first`` on."""
        starts = range(first, first + SMALL * (SMALL_WARM_UP + SMALL_MEASURED), SMALL)
        return {
            side: [str(self.csv(side, folder, range(at, at + SMALL), header=header)) for at in starts] for side in SIDES
        }

    def local(self, name: str, worker: str) -> Entry:
        """Let a join in this environment take micro-batches."""
        sizes, ours = self.sizes, name == IN_PROCESS
        blocks = sizes.most // sizes.block
        fill = BLOCKS_PER_WINDOW + 1
        task = {
            "condition": self.query.condition,
            "band": self.band,
            "window": sizes.window,
            "cores": CORES,
            "files": self.files(0, sizes.most, sizes.block),
            "filling": self.files(0, sizes.window, sizes.block),
            "small": self.files(sizes.window, sizes.window + SMALL * (SMALL_WARM_UP + SMALL_MEASURED), SMALL),
            "seconds": SECONDS,
            "least": blocks if ours else 2 * fill,
        }
        entry = Entry(name, batch=sizes.block)
        with self._worker(Worker("benchmarks.peers.local_worker", worker, task, {})) as lines:
            taken = list(lines())
            seconds = sum(one["seconds"] for one in taken[fill:])
            entry.measured_rows = sum(one["rows"] for one in taken[fill:])
            entry.rows_per_second = entry.measured_rows / seconds
            entry.pairs = _sums(sizes.block, [one["pairs"] for one in taken])
            entry.checksums = _sums(sizes.block, [one["checksum"] for one in taken])
            small = list(lines())
            entry.delays = [one["seconds"] for one in small[SMALL_WARM_UP:]]
            self._expect([one["pairs"] for one in small])
        return entry

    def spark(self, name: str, contestant: ContestantName) -> Entry:
        """Let a streaming query of Spark's take micro-batches, all in one run, and then the small ones."""
        sizes, ours = self.sizes, name == SPARK
        batches = (
            [sizes.window] + [sizes.spark] * (SPARK_WARM_UP + SPARK_MEASURED)
            if ours
            else [sizes.window, sizes.block, sizes.block]
        )
        with Arena.open(
            self.context, seed=self.query.seed, block=SMALL, key_range=self.arena.key_range, hot=self.query.hot
        ) as arena:
            query = arena.enter(contestant, sizes.window, condition=self.query.condition, memory=MEMORY)
            taken = query.take(batches)
            small = query.take([SMALL] * (SMALL_WARM_UP + SMALL_MEASURED))[SMALL_WARM_UP:]
        steady = taken[-SPARK_MEASURED:] if ours else taken[-1:]
        rows = sum(one["rows"] for one in steady)
        return Entry(
            name,
            rows_per_second=rows / sum(one["seconds"] for one in steady),
            measured_rows=rows,
            batch=batches[-1],
            delays=[one["seconds"] for one in small],
            pairs=dict(
                zip(np.cumsum(batches).tolist(), np.cumsum([one["pairs"] for one in taken]).tolist(), strict=True)
            ),
        )

    def flink(self) -> Entry:
        """Let Flink join all rows, and then small files with windows filled anew."""
        sizes = self.sizes
        for side in SIDES:
            for part in range(CORES):
                self.csv(side, "flink", range(part, sizes.peers, CORES), header=False)
        task = {
            "folders": {side: str(self.arena.folder / "flink" / side) for side in SIDES},
            "mark": sizes.block,
            "watched": str(self.arena.folder / "flink-watched"),
            "filling": {
                side: [
                    str(self.csv(side, f"flink-{part}", range(part, sizes.window, CORES), header=False))
                    for part in range(CORES)
                ]
                for side in SIDES
            },
            "small": self.small(sizes.window, "flink-small", header=False),
            "expected": self.expected,
        }
        entry = Entry(FLINK.name)
        with self._peer(FLINK, "flink", task) as lines:
            marks = list(lines())
            entry.pairs = {sizes.peers: sum(mark["pairs"] for mark in marks)}
            entry.checksums = {sizes.peers: sum(mark["checksum"] for mark in marks)}
            # A count comes when the watermark is a window past it; at the end of the files, all others at once.
            moments = [datetime.fromisoformat(mark["at"]).timestamp() for mark in marks]
            steady = moments[: (sizes.peers - sizes.window) // sizes.block]
            entry.measured_rows = 2 * sizes.block * (len(steady) - 1)
            entry.rows_per_second = entry.measured_rows / (steady[-1] - steady[0])
            entry.delays = [one["seconds"] for one in lines()][SMALL_WARM_UP:]
        return entry

    def pathway(self) -> Entry:
        """Let Pathway join the files of its folders, and then the small ones."""
        sizes = self.sizes
        for side in SIDES:
            for first in range(0, sizes.peers, sizes.block):
                self.csv(side, "pathway", range(first, first + sizes.block), header=True)
        task = {
            "folders": {side: str(self.arena.folder / "pathway" / side) for side in SIDES},
            "rows": sizes.peers,
            "batch": sizes.block,
            "small": self.small(sizes.peers, "pathway-small", header=True),
            "small_rows": SMALL,
        }
        entry = Entry(PATHWAY.name)
        with self._peer(PATHWAY, "pathway", task) as lines:
            told = list(lines())
        marks = [one for one in told if "at" in one]
        steady = [one for one in marks if min(one["left"], one["right"]) >= sizes.window + sizes.block]
        last = next(one for one in steady if one["left"] == one["right"] == sizes.peers)
        first = steady[0]
        entry.measured_rows = last["left"] + last["right"] - first["left"] - first["right"]
        entry.rows_per_second = entry.measured_rows / (last["at"] - first["at"])
        entry.pairs, entry.checksums = {sizes.peers: last["pairs"]}, {sizes.peers: last["checksum"]}
        entry.delays = [one["seconds"] for one in told if "seconds" in one][SMALL_WARM_UP:]
        return entry

    @contextmanager
    def _peer(self, environment: Environment, name: str, task: dict[str, Any]) -> Iterator[_Lines]:
        general = {
            "condition": self.query.condition,
            "band": self.band,
            "window": self.sizes.window,
            "cores": CORES,
            "memory": MEMORY,
        }
        module = f"benchmarks.peers.{name}_worker"
        with self._worker(Worker(module, name, {**general, **task}, {}, python=environment.python())) as lines:
            yield lines

    @contextmanager
    def _worker(self, worker: Worker) -> Iterator[_Lines]:
        """Give what reads a worker's answers up to the next null; kill the worker if it takes too long."""
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            worker.kill()

        timer = threading.Timer(PATIENCE_SECONDS, expire)
        with worker:
            timer.start()
            try:
                yield lambda: iter(worker.answer, None)
            except RuntimeError as error:
                if expired.is_set():
                    raise UnavailableError(f"it did not end within {PATIENCE_SECONDS:.0f} s") from error
                raise
            finally:
                timer.cancel()

    def _expect(self, pairs: list[int]) -> None:
        if self.expected and pairs != self.expected:
            raise DisagreementError(f"the numbers of pairs of small micro-batches differ: {pairs}, {self.expected}")
        self.expected = pairs


_Lines = Callable[[], Iterator[Any]]


def _sums(block: int, counts: Sequence[int]) -> dict[int, int]:
    return {block * (number + 1): int(total) for number, total in enumerate(np.cumsum(counts))}


def contest(context: Context, query: Query) -> tuple[Result, dict[str, float]]:
    """Let all answer a query; return what is reported, and the rows a second of those who could."""
    sizes = Sizes.of(context)
    key_range = KEY_RANGE if query.condition == "band" else sizes.window
    with Arena.open(context, seed=query.seed, block=SMALL, key_range=key_range, hot=query.hot) as arena:
        of = Contest(context, query, sizes, arena)
        entries = [
            entry_of(context, name, work, environment)
            for name, work, environment in (
                (IN_PROCESS, lambda: of.local(IN_PROCESS, "in-process"), None),  # first: others are compared with it
                (SPARK, lambda: of.spark(SPARK, "ours"), None),
                (SPARKS_OWN, lambda: of.spark(SPARKS_OWN, "Spark, format 4"), None),
                (FLINK.name, of.flink, FLINK),
                (PATHWAY.name, of.pathway, PATHWAY),
                (DUCKDB, lambda: of.local(DUCKDB, "DuckDB"), None),
                (POLARS, lambda: of.local(POLARS, "Polars"), None),
            )
        ]
    same = agreed(entries)
    rates = {entry.name: entry.rows_per_second for entry in entries if entry.rows_per_second is not None}
    notes = [f"{entry.name} did not take part: {entry.reason}" for entry in entries if entry.reason]
    result = Result(
        tables=[_table(f"{query.title}, window {sizes.window:,} rows a side", entries, rates)],
        notes=[*same, *notes],
        runs=[{"what": entry.name, **asdict(entry), "delay": entry.delay} for entry in entries],
    )
    bars = [Series(name, [0.0], [rate]) for name, rate in rates.items()]
    result.figures.append(
        Figure(f"peers_{query.name}", query.title, [Panel(query.title, "", "rows/s", bars, bars=True)])
    )
    return result, rates


def entry_of(context: Context, name: str, work: Callable[[], Entry], environment: Environment | None = None) -> Entry:
    """Return what a contestant did; of a peer that could not, why."""
    try:
        if environment is not None:
            context.progress.step(f"{name}: making its environment, if it is not there")
            environment.python()
        context.progress.step(name)
        with MemoryWatch() as memory:
            entry = work()
    except (UnavailableError, RuntimeError) as error:
        if name in {IN_PROCESS, SPARK}:
            raise
        entry = Entry(name, reason=_last_words(str(error)))
    else:
        entry.memory_bytes = memory.most_bytes
    context.noted.append({"what": name, **asdict(entry)})
    return entry


def _last_words(text: str) -> str:
    """Return the last line that names an error, or else the last one: a JVM's ends with where it was."""
    lines = text.strip().splitlines()
    return next((line for line in reversed(lines) if re.match(r"\S*(Error|Exception)\b", line)), lines[-1])


def agreed(entries: list[Entry]) -> list[str]:
    """Return what was found equal; raise if anything is not."""
    ours, *others = entries
    notes = []
    for other in others:
        for what in ("pairs", "checksums"):
            mine, theirs = getattr(ours, what), getattr(other, what)
            for rows, found in theirs.items():
                if mine[rows] != found:
                    raise DisagreementError(
                        f"{what} of the first {rows:,} rows a side: {ours.name} {mine[rows]:,}, {other.name} {found:,}"
                    )
        if other.pairs:
            rows = max(other.pairs)
            also = " and their checksum" if other.checksums else ""
            notes.append(f"{other.name}: the same {other.pairs[rows]:,} pairs{also} of the first {rows:,} rows a side")
    return notes


def _table(title: str, entries: list[Entry], rates: dict[str, float]) -> Table:
    columns = (
        "who",
        "rows/s",
        "StreamJoin is faster by",
        "wm.join on Spark is faster by",
        "delay of 1,000 rows a side, ms",
        "memory, MB",
        "rows measured",
        "rows a side at a time",
    )
    lines: list[tuple[Cell, ...]] = []
    for entry in entries:
        rate, delay = entry.rows_per_second, entry.delay
        ratios = [None if rate is None else rates[ours] / rate for ours in (IN_PROCESS, SPARK)]
        lines.append(
            (
                entry.name,
                rate,
                *ratios,
                None if delay is None else delay * MILLISECONDS,
                None if rate is None else entry.memory_bytes // 10**6,
                entry.measured_rows or None,
                entry.batch,
            )
        )
    peers = ", ".join(f"{one.name} {one.version}" for one in (FLINK, PATHWAY))
    return Table(title, columns, lines, f"{CORES} cores each; delay: 95th percentile of {SMALL_MEASURED}; {peers}")
