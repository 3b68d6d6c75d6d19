"""`watersmeet run job.toml` from Kafka to files, and to Kafka, killed again and again while the topics fill.

The command is a process of its own, as a user starts it. It is killed with all that it has started, ten times, and
started again (:mod:`faults`). When it has read all there is, SIGTERM ends it. Then what the sink has is compared with
DuckDB's batch join over all rows: nothing is lost, nothing is wrong; in files nothing comes twice. In a topic a result
comes again only if the micro-batch that gave it was run again.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

import faults
from benchmarks.daemon import Daemon
from broker import Broker, Record
from faults import KILLS, PARTITIONS, ROWS, Place, Running, truth
from jars import jars
from topics import ROWS_AT_ONCE, SCHEMA

JOB: Final = """
name = "near"
checkpoint = "checkpoint"

[streams.orders]
format = "kafka"
servers = "{servers}"
topic = "left"
schema = "{schema}"
starting_offsets = "earliest"
arrival = "arrived"
options = {{ maxOffsetsPerTrigger = {rows} }}

[streams.parcels]
format = "kafka"
servers = "{servers}"
topic = "right"
schema = "{schema}"
starting_offsets = "earliest"
arrival = "arrived"
options = {{ maxOffsetsPerTrigger = {rows} }}

[joins.pairs]
left = "orders"
right = "parcels"
on = "{on}"
window = {{ time = {{ left = "{left}", right = "{right}" }}, ts = "{ts}", lateness = "{lateness}" }}

[sink]
{sink}

[spark]
master = "local[2]"
memory = "1g"

[spark.settings]
"spark.sql.shuffle.partitions" = 2
"spark.sql.streaming.minBatchesToRetain" = 1000
"spark.jars" = "{jars}"
"""
PROGRAM: Final = "import sys; sys.path[:] = {path!r}; from watersmeet.cli.main import main; sys.exit(main())"
READING: Final = """
import sys; sys.path[:] = {path!r}
import pyarrow.parquet as pq
import watersmeet as wm
pq.write_table(wm.session(1, memory="1g").read.parquet(sys.argv[1]).toArrow(), sys.argv[2])
"""
PACE_SECONDS: Final = 1.5
"""From one message of a hundred rows to the next, so that the topics fill for a minute."""
END_SECONDS: Final = 120


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "broker") as broker:
        broker.create("left", "right", "pairs", partitions=PARTITIONS)
        yield broker


@contextmanager
def filling(broker: Broker) -> Iterator[threading.Thread]:
    """Fill both topics in the background."""
    given_up = threading.Event()

    def fill() -> None:
        both = {side: faults.messages(side) for side in ("left", "right")}
        for first in range(0, ROWS, ROWS_AT_ONCE):
            for side, messages in both.items():
                broker.write(side, messages[first : first + ROWS_AT_ONCE], partitions=PARTITIONS)
            if given_up.wait(PACE_SECONDS):
                return

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        yield thread
    finally:
        given_up.set()
        thread.join()


def killed_and_ended(home: Path, broker: Broker, sink: str, seed: int, written: Callable[[], int]) -> Counter[int]:
    """Run the job until it has read all, and kill it meanwhile; return how often each micro-batch was begun anew."""
    began = time.monotonic()
    job = home / "job.toml"
    about = {"servers": broker.servers, "schema": SCHEMA, "on": faults.ON, "sink": sink, **faults.WINDOW}
    connector = ",".join(map(str, jars("connector")))
    job.write_text(JOB.format(**about, rows=ROWS_AT_ONCE, jars=connector), encoding="utf-8")
    command = [sys.executable, "-c", PROGRAM.format(path=sys.path), "run", str(job)]
    runs = (home / f"run {number}" for number in itertools.count())

    def start() -> Daemon:
        return Daemon(command, next(runs), {})

    def begin() -> Running:
        daemon = start()
        return Running(lambda: not daemon.runs, daemon.kill)

    with filling(broker) as filled:
        again = faults.killed_again_and_again(home, seed, begin, written)
        last = start()
        try:
            filled.join()
            until = time.monotonic() + END_SECONDS
            while not _has_read_all(home):
                assert last.runs, "it has ended by itself"
                assert time.monotonic() < until, "rows that are not read"
                time.sleep(0.1)
        finally:
            code = last.stop()
    said = (home / f"run {KILLS}" / "log").read_text(encoding="utf-8", errors="replace")
    assert code == 0, said
    assert "SIGTERM: ends after this micro-batch" in said
    assert "Traceback" not in said
    print(  # noqa: T201
        f"{KILLS} kills, {len(faults.numbers(home, 'commits'))} micro-batches, "
        f"run again: {sorted(again.elements())}; {time.monotonic() - began:.0f} s"
    )
    return again


def _has_read_all(home: Path) -> bool:
    """Return whether a micro-batch has been done that read up to the end of both topics."""
    done = faults.numbers(home, "commits")
    all_rows = {side: {str(one): ROWS // PARTITIONS for one in range(PARTITIONS)} for side in ("left", "right")}
    return bool(done) and faults.ends(home)[max(done)] == all_rows


def ids_of(pair: Mapping[str, Any]) -> tuple[int, int]:
    """Return the ids of a pair, after a look at all its other columns."""
    ids = []
    for side in ("left", "right"):
        row = faults.rows(side).slice(pair[f"{side}_id"], 1).to_pylist()[0]
        assert (pair[f"{side}_k"], pair[f"{side}_s"]) == (row["k"], row["s"])
        ids.append(row["id"])
    return ids[0], ids[1]


@pytest.mark.long
def test_a_job_into_files_gives_each_pair_once(broker: Broker, tmp_path: Path) -> None:
    sink = 'format = "parquet"\npath = "pairs"'
    killed_and_ended(tmp_path, broker, sink, 5, lambda: len(list(tmp_path.glob("pairs/*.parquet"))))
    reading = [sys.executable, "-c", READING.format(path=sys.path)]
    subprocess.run([*reading, tmp_path / "pairs", tmp_path / "found.parquet"], check=True, capture_output=True)
    found = Counter(map(ids_of, pq.read_table(tmp_path / "found.parquet").to_pylist()))
    print(f"{found.total()} pairs")  # noqa: T201
    assert truth().total() > ROWS
    assert found == truth()


@pytest.mark.long
def test_a_job_into_a_topic_gives_each_pair_once_for_every_attempt(broker: Broker, tmp_path: Path) -> None:
    sink = f'format = "kafka"\nservers = "{broker.servers}"\ntopic = "pairs"\nkey = "left_id"'
    again = killed_and_ended(tmp_path, broker, sink, 6, lambda: broker.count("pairs", partitions=PARTITIONS))
    records = broker.read("pairs", partitions=PARTITIONS)
    pairs = {record: json.loads(record.value) for record in records}

    def places(record: Record) -> dict[str, Place]:
        """Return where the rows stand: they were written to one partition after the other."""
        return {side: divmod(pairs[record][f"{side}_id"], PARTITIONS)[::-1] for side in ("left", "right")}

    found = faults.check_topic(records, places, tmp_path, again, lambda record: ids_of(pairs[record]))
    print(f"{len(found)} pairs, {found.total() - len(found)} of them again")  # noqa: T201
    assert all(record.key == str(pairs[record]["left_id"]) for record in records)
