"""From Kafka to Kafka, and to files, with a driver that is killed again and again.

Two topics of JSON are joined on a band and an equality over a time window. The driver is killed with its JVM and all
Python workers, and started again from the checkpoint, ten times: at moments that follow from the seed, and by turns as
soon as the sink has got something that is not committed. Then what the sink has is compared with DuckDB's batch join:
nothing is lost, nothing is wrong; in files nothing comes twice. In a topic a result may come again if the micro-batch
that gave it was run again, and only then: once for every attempt.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from broker import Broker, Record
from drivers import Driver, Drivers
from jars import jars
from query_program import Job
from streams import Pairs
from topics import ROWS_AT_ONCE

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

ROWS: Final = 4_000
PARTITIONS: Final = 2
BATCHES: Final = ROWS // ROWS_AT_ONCE
SPACING: Final = 5_000
"""Microseconds between two rows of a stream: a micro-batch spans half a second."""
KILLS: Final = 10
MASTER: Final = "local[2]"
ON: Final = "left.s = right.s AND left.k BETWEEN right.k - 60 AND right.k + 60"
WINDOW: Final[dict[str, str | int]] = {
    "left": "2 seconds",
    "right": "1500 milliseconds",
    "ts": "ts",
    "lateness": "2 seconds",
}
TRUTH: Final = """
    SELECT l.id, r.id FROM l JOIN r ON l.s = r.s AND l.k BETWEEN r.k - 60 AND r.k + 60
    AND l.ts - r.ts <= INTERVAL 1500 MILLISECONDS AND r.ts - l.ts <= INTERVAL 2 SECONDS
"""


@cache
def _rows(seed: int) -> pa.Table:
    """Return a stream's rows in the order in which they are written."""
    random = np.random.default_rng(seed)
    times = np.arange(ROWS) * SPACING + random.integers(0, 20 * SPACING, ROWS)  # not in order
    return pa.table(
        {
            "id": np.arange(ROWS),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "k": random.integers(0, 1_000, ROWS),
            "s": pa.array(random.choice([f"s{n}" for n in range(5)], ROWS)),
        }
    )


@cache
def _truth() -> Pairs:
    duckdb.register("l", _rows(31))
    duckdb.register("r", _rows(32))
    pairs = duckdb.sql(TRUTH).to_arrow_table()  # type: ignore[union-attr]
    return Counter(zip(*(column.to_pylist() for column in pairs.columns), strict=True))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka") / "broker") as broker:
        for side, seed in (("left", 31), ("right", 32)):
            broker.create(side, partitions=PARTITIONS)
            broker.write(side, (json.dumps(row, default=str) for row in _rows(seed).to_pylist()), partitions=PARTITIONS)
        yield broker


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    drivers = Drivers(tmp_path_factory.mktemp("drivers"), {"spark.jars": ",".join(map(str, jars("connector")))})
    yield drivers
    drivers.stop()


def _numbers(home: Path, log: str) -> set[int]:
    """Return the micro-batches that a log of the checkpoint has: ``offsets`` those begun, ``commits`` those done."""
    folder = home / "checkpoint" / log
    return {int(file.name) for file in folder.glob("*") if file.name.isdecimal()} if folder.exists() else set()


def _await_more(count: Callable[[], int], more: int, driver: Driver) -> None:
    """Wait until there are so many more of something."""
    enough = count() + more
    while count() < enough:
        assert not driver.has_answered, f"{driver.answer()}: nothing is left to be killed"
        time.sleep(0.01)


def _killed_again_and_again(drivers: Drivers, job: Job, seed: int, written: Callable[[], int]) -> Counter[int]:
    """Run a job to its end, and kill its driver ten times; return how often each micro-batch was begun anew.

    ``written`` says how much the sink has.
    """
    random = np.random.default_rng(seed)
    home = Path(job.home)
    again: Counter[int] = Counter()
    for kill in range(KILLS):
        driver = drivers.on(MASTER)
        driver.begin(job)
        _await_more(lambda: len(_numbers(home, "commits")), int(random.integers(1, 3)), driver)
        if kill % 2:
            _await_more(written, 1, driver)
        else:
            time.sleep(random.uniform(0, 1.5))
        drivers.kill(MASTER)
        again.update(_numbers(home, "offsets") - _numbers(home, "commits"))
    assert len(_numbers(home, "commits")) < BATCHES, "killed too late"
    driver = drivers.on(MASTER)
    driver.begin(job)
    assert driver.answer() == "done"
    assert again, "no micro-batch was run again"
    return again


@pytest.mark.long
@pytest.mark.parametrize("seed", [1])
def test_files_have_each_pair_once(drivers: Drivers, broker: Broker, tmp_path: Path, seed: int) -> None:
    job = Job("left", "right", str(tmp_path), ON, WINDOW, servers=broker.servers)
    again = _killed_again_and_again(drivers, job, seed, lambda: len(list(tmp_path.glob("pairs/*.parquet"))))
    found = Counter(map(tuple, json.loads((tmp_path / "found").read_text())))
    print(f"{found.total()} pairs; micro-batches run again: {sorted(again.elements())}")  # noqa: T201
    assert _truth().total() > ROWS
    assert found == _truth()


@pytest.mark.long
@pytest.mark.parametrize("seed", [3])
def test_a_topic_has_each_pair_once_for_every_attempt(
    drivers: Drivers, broker: Broker, tmp_path: Path, seed: int
) -> None:
    sink = f"pairs-{seed}"
    broker.create(sink, partitions=PARTITIONS)
    job = Job("left", "right", str(tmp_path), ON, WINDOW, servers=broker.servers, sink=sink)
    again = _killed_again_and_again(drivers, job, seed, lambda: broker.count(sink, partitions=PARTITIONS))
    records = broker.read(sink, partitions=PARTITIONS)
    found = Counter(map(_pair, records))
    print(  # noqa: T201
        f"{len(found)} pairs, {found.total() - len(found)} of them again; "
        f"micro-batches run again: {sorted(again.elements())}"
    )
    assert found.keys() == _truth().keys(), "lost pairs, or pairs that should not be"
    assert set(_truth().values()) == {1}
    assert found.total() > len(found), "no kill came between what was written and the commit, so nothing is shown"
    begun = _begun(tmp_path)
    for record in records:
        copies = found[_pair(record)]
        assert copies <= 1 + again[_batch(record, begun)], f"{record} came {copies} times"
    once = {(record.partition, record.key, record.value) for record in records}
    assert len(once) == len({record.key for record in records}) == len(found), "a key does not tell pairs apart"


def _pair(record: Record) -> tuple[int, int]:
    ids = json.loads(record.value)
    return ids["left_id"], ids["right_id"]


def _begun(home: Path) -> list[dict[str, dict[str, int]]]:
    """Return for each micro-batch how far it reads: topics, partitions, the first offset that is not its own."""
    files = sorted((home / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    ends: list[dict[str, dict[str, int]]] = []
    for file in files:
        lines: list[dict[str, Any]] = [json.loads(line) for line in file.read_text().splitlines() if line[:2] == '{"']
        ends.append({topic: end for line in lines for topic, end in line.items() if topic in ("left", "right")})
    return ends


def _batch(record: Record, begun: list[dict[str, dict[str, int]]]) -> int:
    """Return the micro-batch that gives a pair: that of the later of its rows."""
    assert record.key is not None
    place = json.loads(record.key)
    return next(
        number
        for number, ends in enumerate(begun)
        if all(place[f"{side}_offset"] < ends[side][str(place[f"{side}_partition"])] for side in ("left", "right"))
    )
