"""Exactly once on a real cluster: Spark's standalone mode, whose workers are killed and added while the query runs.

Every run changes the routing table all the time: a drawn generation takes effect at every other micro-batch, and after
these the balancer goes on by itself, in short epochs. At moments that follow from the seed workers are lost with all
that they have started, executors are killed, workers are added, and in some runs the driver is killed too, with several
generations in the window. Pairs that the file sink has committed are compared with DuckDB's batch join as multisets.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from benchmarks.models.keys import b_model
from benchmarks.standalone_cluster import StandaloneCluster
from drivers import Driver, Drivers
from query_program import Job
from streams import Pairs, begin_query, write_files
from watersmeet.balance.files import GenerationFiles
from watersmeet.balance.generation import Generation, first_generation

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

Routing = Literal["hash", "bucket"]
Event = Literal["worker lost", "executor lost", "worker added", "driver killed"]

CORES: Final = 3
WORKERS: Final = 2
MOST_WORKERS: Final = 3
BATCHES: Final = 10
ROWS: Final = 90
SPACING: Final = 500_000
"""Microseconds that a micro-batch spans; the window is 2.4 of them."""
WINDOW: Final = {"left": "1200 milliseconds", "right": "1200 milliseconds", "ts": "ts"}
WINDOW_SQL: Final = "abs(epoch_us(l.ts) - epoch_us(r.ts)) <= 1200000"
CASES: Final[dict[Routing, str]] = {
    "hash": "left.k = right.k",
    "bucket": "left.k BETWEEN right.k - 3 AND right.k + 5",
}
LEVELS: Final = 8
LOADS: Final = ("b = 0.5", "b = 0.6", "b = 0.7", "b = 0.8", "b = 0.9", "one hot key", "drift")
DRAWN: Final = 3
EPOCH: Final = 1
SETTINGS: Final = {
    "spark.sql.shuffle.partitions": str(CORES),
    # What is lost is noticed at once: the machine is the same.
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "100ms",
    "spark.locality.wait": "100ms",
    # JVMs that live for a minute are better off without the optimising compiler.
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


def _keys(load: str, random: np.random.Generator, number: int) -> npt.NDArray[np.int64]:
    """Return the keys of micro-batch ``number``."""
    if load == "drift":
        return random.integers(0, 200, ROWS) + 60 * number
    if load == "one hot key":
        return np.where(random.random(ROWS) < 0.5, 7, random.integers(0, 1 << LEVELS, ROWS))
    return random.choice(1 << LEVELS, ROWS, p=b_model(float(load.removeprefix("b = ")), LEVELS))


@cache
def _tables(load: str, seed: int) -> list[pa.Table]:
    random = np.random.default_rng((LOADS.index(load), seed))
    return [
        pa.table(
            {
                "id": np.arange(ROWS) + number * ROWS,
                "ts": pa.array(random.integers(0, SPACING, ROWS) + number * SPACING, pa.timestamp("us", "UTC")),
                "k": _keys(load, random, number),
            }
        )
        for number in range(BATCHES)
    ]


def _truth(load: str, routing: Routing) -> Pairs:
    duckdb.register("l", pa.concat_tables(_tables(load, 1)))
    duckdb.register("r", pa.concat_tables(_tables(load, 2)))
    on = CASES[routing].replace("left.", "l.").replace("right.", "r.")
    pairs = duckdb.sql(f"SELECT l.id, r.id FROM l JOIN r ON {on} AND {WINDOW_SQL}").to_arrow_table()  # type: ignore[union-attr] # noqa: S608
    return Counter(zip(*(column.to_pylist() for column in pairs.columns), strict=True))


def _drawn_generations(random: np.random.Generator) -> list[Generation]:
    """Return generations with groups anywhere, half of them cut; each looks as far back as rows live."""

    def owners() -> tuple[int, ...]:
        return tuple(random.permutation(CORES)[: random.choice([1, 1, 2, 3])].tolist())

    return [
        Generation(
            number=number,
            first=2 * number,
            oldest=max(0, number - 3),
            owners=tuple(owners() for _ in range(first_generation(CORES).groups)),
            active=tuple(range(CORES)),
            width=(4, 1, 2)[number % 3],
        )
        for number in range(1, DRAWN + 1)
    ]


@dataclass(frozen=True)
class Disturbance:
    """Something that happens ``delay`` seconds after so many micro-batches have been committed."""

    batches: int
    delay: float
    event: Event


def _drawn_disturbances(random: np.random.Generator, *, with_driver: bool) -> list[Disturbance]:
    """Return two of them: first something is lost."""
    losses: list[Event] = ["worker lost", "executor lost"]
    others: list[Event] = ["driver killed"] if with_driver else [*losses, "worker added"]
    events = losses[random.integers(len(losses))], others[random.integers(len(others))]
    batches = np.sort(random.choice(np.arange(2, BATCHES - 2), len(events), replace=False)).tolist()
    return [Disturbance(at, float(random.uniform(0, 0.8)), event) for at, event in zip(batches, events, strict=True)]


class Rig:
    """A cluster, and the driver whose query runs on it."""

    def __init__(self, cluster: StandaloneCluster, drivers: Drivers) -> None:
        self._cluster = cluster
        self._drivers = drivers

    @property
    def driver(self) -> Driver:
        return self._drivers.on(self._cluster.master)

    def repair(self) -> None:
        """Have as many workers as at the beginning."""
        for worker in self._cluster.workers[WORKERS:]:
            self._cluster.kill_worker(worker)
        while len(self._cluster.workers) < WORKERS:
            self._cluster.add_worker()
        self._cluster.await_workers()

    def disturb(self, event: Event, job: Job, random: np.random.Generator) -> None:
        workers = self._cluster.workers
        match event:
            case "worker lost":
                self._cluster.kill_worker(workers[random.integers(len(workers))])
                if not workers:
                    self._cluster.add_worker()
            case "executor lost":
                order = random.permutation(len(workers)).tolist()
                assert any(workers[at].kill_executors() for at in order), "no worker has an executor"
            case "worker added" if len(workers) < MOST_WORKERS:
                self._cluster.add_worker()
            case "driver killed":
                self._drivers.kill(self._cluster.master)
                self.driver.begin(job)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        drivers = Drivers(tmp_path_factory.mktemp("drivers"), cluster.settings("512m") | SETTINGS)
        yield Rig(cluster, drivers)
        drivers.stop()


def _await(disturbance: Disturbance, home: Path, driver: Driver) -> None:
    """Wait for the moment of a disturbance."""
    commit = home / "checkpoint" / "commits" / str(disturbance.batches - 1)
    while not commit.exists():
        assert not driver.has_answered, f"{driver.answer()} before {disturbance}"
        time.sleep(0.01)
    time.sleep(disturbance.delay)


def _generations_used(files: GenerationFiles) -> list[int]:
    """Return the number of the newest generation, micro-batch by micro-batch."""
    return [files.table(micro_batch).newest.number for micro_batch in range(BATCHES)]


def _run(rig: Rig, home: Path, load: str, routing: Routing, seed: int, *, with_driver: bool = False) -> None:
    random = np.random.default_rng(seed)
    disturbances = _drawn_disturbances(random, with_driver=with_driver)
    folders = {}
    for side, number in (("left", 1), ("right", 2)):
        (home / side).mkdir()
        folders[side] = str(write_files(home / side, _tables(load, number)))
    files = GenerationFiles(home / "tables" / begin_query(home), CORES)
    for generation in _drawn_generations(random):
        files.write(generation)
    job = Job(
        **folders,
        home=str(home),
        on=CASES[routing],
        window={**WINDOW},
        routing=routing,
        cores=CORES,
        tables=str(home / "tables"),
        epoch=EPOCH,
    )
    rig.repair()
    rig.driver.begin(job)
    for disturbance in disturbances:
        _await(disturbance, home, rig.driver)
        rig.disturb(disturbance.event, job, random)
    answer = rig.driver.answer()
    used = _generations_used(files)
    print(f"{load}, {routing}: {disturbances}; {answer}; generations {used}")  # noqa: T201
    assert answer == "done"
    found, truth = Counter(map(tuple, json.loads((home / "found").read_text()))), _truth(load, routing)
    assert truth.total() > 1000
    assert found - truth == Counter(), "pairs that should not be, or twice"
    assert truth - found == Counter(), "lost pairs"
    assert len(set(used)) > DRAWN, "the routing table changed every other micro-batch"


RUNS: Final = [(load, routing) for load in LOADS for routing in CASES]


@pytest.mark.long
@pytest.mark.parametrize(
    ("load", "routing", "seed"), [(load, routing, seed) for seed, (load, routing) in enumerate(RUNS)]
)
def test_workers_are_killed_and_added(rig: Rig, tmp_path: Path, load: str, routing: Routing, seed: int) -> None:
    _run(rig, tmp_path, load, routing, seed)


@pytest.mark.long
@pytest.mark.parametrize(
    ("load", "routing", "seed"), [(load, routing, 100 + seed) for seed, (load, routing) in enumerate(RUNS) if seed > 7]
)
def test_driver_is_killed_in_the_middle_of_a_reorganisation(
    rig: Rig, tmp_path: Path, load: str, routing: Routing, seed: int
) -> None:
    _run(rig, tmp_path, load, routing, seed, with_driver=True)
