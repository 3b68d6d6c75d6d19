"""The joins of Nexmark's queries 3, 4, 7, 8, 9 and 20, by ``wm.join`` and by Spark's own join, in one run.

Both take the same files in the same micro-batches, RocksDB as the state store, results to the ``noop`` sink. The first
micro-batch, which compiles and fills windows, is not timed. Two files of a few late events end the stream: aggregates
of the last ten seconds leave too, so that all results can be compared, by their number and a sum of their hashes.

Where the benchmark's query has no bound on the time (q3, q20) or only the auction's own end (q4, q9), both joins get
the same one of ten seconds. q4 and q9 aggregate the pairs of each auction afterwards, in windows by the auction's
moment; of q4 that is the price an auction ends with, not yet its average by category. The highest prices that q7 joins
bids with come as a stream of their own. A rate counts the rows of the streams that the query joins, once each.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.contestant import CORES
from benchmarks.experiment import Context, DisagreementError, Experiment
from benchmarks.nexmark import BLOCK, MICROSECONDS_PER_EVENT, events
from benchmarks.nexmark_queries import QUERIES, Kind
from benchmarks.process import Worker
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table

if TYPE_CHECKING:  # it loads PySpark
    from benchmarks.nexmark_worker import NexmarkBatch, NexmarkTask

__all__ = ["EXPERIMENT", "write_files"]

SEED: Final = 94
BATCH: Final = 400_000
"""Events of a micro-batch."""
BATCHES: Final = 2
WARM_UP: Final = 1
ENDINGS: Final = 2
ENDING_HOURS: Final = 24
"""How long after the stream its ending events come, the second as long after the first."""
OURS: Final = "ours"
SPARKS_OWN: Final = "Spark, format 4"
LEAST: Final = 1.0
FIRST_WRITTEN: Final = 1_700_000_000
KINDS: Final[tuple[Kind, ...]] = ("person", "auction", "bid", "highest")
HIGHEST_SECONDS: Final = 10
ROW_GROUPS: Final = 4

Taken = dict[str, dict[str, list["NexmarkBatch"]]]
"""By contestant and query."""


def run(context: Context) -> Result:
    """Let both answer all queries, one contestant after the other."""
    batch = context.size(BATCH, 2 * BLOCK)
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-nexmark-"))
    try:
        rows = write_files(folder / "data", batch, BATCHES)
        taken: Taken = {name: _answers(context, name, folder) for name in (OURS, SPARKS_OWN)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines: list[tuple[Cell, ...]] = []
    ratios = []
    for name, query in QUERIES.items():
        ours, theirs = (taken[contestant][name] for contestant in (OURS, SPARKS_OWN))
        found, _ = _agreed(name, ours, theirs)
        timed = sum(rows[kind][number] for kind in query.reads for number in range(WARM_UP, BATCHES))
        rates = [timed / sum(one["seconds"] for one in some[WARM_UP:BATCHES]) for some in (ours, theirs)]
        ratios.append(rates[0] / rates[1])
        lines.append((f"{name}: {query.about}", *rates, ratios[-1], timed, found))
    columns = ("query", "wm.join, rows/s", "Spark's own join, rows/s", "faster by", "rows timed", "results in all")
    bars = [Series(name, [0.0], [ratio]) for name, ratio in zip(QUERIES, ratios, strict=True)]
    runs: list[dict[str, object]] = [
        {"what": who, "query": query, **one}
        for who, answers in taken.items()
        for query, some in answers.items()
        for one in some
    ]
    texts = [f"{name}: {query.nexmark}; joined on {query.on}" for name, query in QUERIES.items()]
    return Result(
        tables=[Table(f"Nexmark, micro-batches of {batch:,} events", columns, lines, "on 2 cores")],
        figures=[Figure("nexmark", "Nexmark", [Panel("to Spark's own join", "", "times as fast", bars, bars=True)])],
        goals=[Goal("against Spark's own join, the least of all queries", min(ratios), LEAST, at_least=True)],
        notes=texts,
        runs=runs,
    )


def write_files(folder: Path, batch: int, batches: int) -> dict[Kind, list[int]]:
    """Write a file of each stream a micro-batch, and those that end it; return the rows of each."""
    made = events(0, batch * batches, seed=SEED)
    highest = made.highest(HIGHEST_SECONDS)
    first = pc.min(made.person["ts"])
    ends = [pc.add(first, _microseconds((number + 1) * batch * MICROSECONDS_PER_EVENT)) for number in range(batches)]
    rows: dict[Kind, list[int]] = {kind: [] for kind in KINDS}
    for kind, table in zip(KINDS, (made.person, made.auction, made.bid, highest), strict=True):
        (folder / kind).mkdir(parents=True)
        rest = table
        for number in range(batches + ENDINGS):
            if number < batches:
                # The last may hold a moment that is still to come: the end of seconds that are not over.
                part = rest if number == batches - 1 else rest.filter(pc.less(rest["ts"], ends[number]))
                rest = rest.slice(part.num_rows)
            else:
                part = _moved(table.slice(table.num_rows - 1), (number - batches + 1) * ENDING_HOURS)
            path = folder / kind / f"{number:05}.parquet"
            pq.write_table(part, path, row_group_size=max(1, part.num_rows // ROW_GROUPS))
            os.utime(path, (FIRST_WRITTEN + number,) * 2)  # Spark reads files in this order
            rows[kind].append(part.num_rows)
    return rows


def _moved(table: pa.Table, hours: int) -> pa.Table:
    """Return an event that comes hours later."""
    later = pc.add(table["ts"], _microseconds(hours * 3_600_000_000))
    return table.set_column(table.schema.get_field_index("ts"), "ts", later)


def _microseconds(count: int) -> pa.Scalar:
    return pa.scalar(count, pa.duration("us"))


def _answers(context: Context, name: str, folder: Path) -> dict[str, list[NexmarkBatch]]:
    task: NexmarkTask = {
        "folder": str(folder / name.replace(" ", "-")),
        "data": str(folder / "data"),
        "queries": list(QUERIES),
        "cores": CORES,
        "memory": "4g",
    }
    answers: dict[str, list[NexmarkBatch]] = {}
    with Worker("benchmarks.nexmark_worker", name, task, {}) as worker:
        for query in QUERIES:
            context.progress.step(f"{name}: {query}")
            answers[query] = []
            while (answer := worker.answer()) is not None:
                answers[query].append(cast("NexmarkBatch", answer))
                context.noted.append({"what": name, "query": query, **answers[query][-1]})
    return answers


def _agreed(query: str, ours: list[NexmarkBatch], theirs: list[NexmarkBatch]) -> tuple[int, int]:
    """Return the number of results and the sum of their hashes; raise unless both have the same."""
    mine, others = ((sum(b["results"] for b in some), sum(b["checksum"] for b in some)) for some in (ours, theirs))
    if mine != others:
        raise DisagreementError(f"{query}: results and checksum {mine}, of Spark's own join {others}")
    return mine


EXPERIMENT: Final = Experiment(
    "nexmark",
    Description(
        purpose="the joins of six of Nexmark's queries against Spark's own stream-stream join in one run",
        seed=SEED,
        shape="2 cores, micro-batches of 400,000 events, 10,000 events a second of event time, persons, auctions and"
        " bids as 1 to 3 to 46, windows of ten seconds, RocksDB, noop sink",
        expected="the same results, by number and checksum; no query slower than Spark's own",
    ),
    run,
)
