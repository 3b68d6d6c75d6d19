"""From Kafka to Kafka, and to files, with a driver that is killed again and again.

The driver is killed with its JVM and all Python workers, and started again from the checkpoint (:mod:`faults`). Then
what the sink has is compared with DuckDB's batch join: nothing is lost, nothing is wrong; in files nothing comes twice.
In a topic a result may come again if the micro-batch that gave it was run again, and only then: once for every attempt.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

import faults
from broker import Broker, Record
from drivers import Drivers
from faults import ON, PARTITIONS, ROWS, WINDOW, Place, Running, truth
from jars import jars
from query_program import Job
from topics import ROWS_AT_ONCE

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

BATCHES: Final = ROWS // ROWS_AT_ONCE
MASTER: Final = "local[2]"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka") / "broker") as broker:
        for side in ("left", "right"):
            broker.create(side, partitions=PARTITIONS)
            broker.write(side, faults.messages(side), partitions=PARTITIONS)
        yield broker


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    drivers = Drivers(tmp_path_factory.mktemp("drivers"), {"spark.jars": ",".join(map(str, jars("connector")))})
    yield drivers
    drivers.stop()


def _killed_again_and_again(drivers: Drivers, job: Job, seed: int, written: Callable[[], int]) -> Counter[int]:
    """Run a job to its end, and kill its driver ten times; return how often each micro-batch was begun anew."""

    def begin() -> Running:
        driver = drivers.on(MASTER)
        driver.begin(job)
        return Running(lambda: driver.has_answered, lambda: drivers.kill(MASTER))

    again = faults.killed_again_and_again(Path(job.home), seed, begin, written)
    assert len(faults.numbers(Path(job.home), "commits")) < BATCHES, "killed too late"
    driver = drivers.on(MASTER)
    driver.begin(job)
    assert driver.answer() == "done"
    return again


@pytest.mark.long
@pytest.mark.parametrize("seed", [1])
def test_files_have_each_pair_once(drivers: Drivers, broker: Broker, tmp_path: Path, seed: int) -> None:
    job = Job("left", "right", str(tmp_path), ON, WINDOW, servers=broker.servers)
    again = _killed_again_and_again(drivers, job, seed, lambda: len(list(tmp_path.glob("pairs/*.parquet"))))
    found = Counter(map(tuple, json.loads((tmp_path / "found").read_text())))
    print(f"{found.total()} pairs; micro-batches run again: {sorted(again.elements())}")  # noqa: T201
    assert truth().total() > ROWS
    assert found == truth()


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
    found = faults.check_topic(records, _places, tmp_path, again, _pair)
    print(  # noqa: T201
        f"{len(found)} pairs, {found.total() - len(found)} of them again; "
        f"micro-batches run again: {sorted(again.elements())}"
    )
    once = {(record.partition, record.key, record.value) for record in records}
    assert len(once) == len({record.key for record in records}) == len(found), "a key does not tell pairs apart"


def _pair(record: Record) -> tuple[int, int]:
    ids = json.loads(record.value)
    return ids["left_id"], ids["right_id"]


def _places(record: Record) -> dict[str, Place]:
    assert record.key is not None
    key = json.loads(record.key)
    return {side: (key[f"{side}_partition"], key[f"{side}_offset"]) for side in ("left", "right")}
