"""Exactly once, whatever is killed: SIGKILL at a random moment, a restart from the checkpoint, the same pairs.

A process of its own runs the query (``query_program.py``). Killed are the driver with its JVM, an executor's JVM while
the driver lives, or all Python workers. When and how follows from the seed in the test's name: after how many
micro-batches, how long into the next one, which predicate, which structure before and which after. Afterwards the pairs
that the file sink has committed are compared with the truth as multisets: none lost, none twice.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from drivers import Driver, Drivers
from query_program import Job
from strategies import STRUCTURES
from streams import Pairs, write_files

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

ROWS: Final = 150
SPANS: Final = [100_000] * 9 + [700_000] * 5
"""Microseconds that each micro-batch spans: the first eight are merged into a run, which has expired before the end."""
TIME: Final = {"left": "2 seconds", "right": "1700 milliseconds", "ts": "ts"}
TIME_SQL: Final = (
    "((l.ts >= r.ts AND l.ts <= r.ts + INTERVAL 1700 MILLISECONDS)"
    " OR (l.ts < r.ts AND r.ts <= l.ts + INTERVAL 2 SECONDS))"
)
COUNT: Final[dict[str, str | int]] = {"left": 900, "right": 700}
COUNT_WINDOW: Final = wm.count_window(left=900, right=700)
CASES: Final = {
    "hash": "left.s = right.s AND left.k BETWEEN right.k - 100 AND right.k + 100",
    "bucket": "left.k BETWEEN right.k - 20 AND right.k + 35",
    "broadcast": "left.k < right.k AND left.v - right.v > 0.9",
    "count": "left.k BETWEEN right.k - 20 AND right.k + 35",
}


@cache
def _tables(seed: int) -> list[pa.Table]:
    random = np.random.default_rng(seed)
    tables, begin = [], 0
    for number, span in enumerate(SPANS):
        tables.append(
            pa.table(
                {
                    "id": np.arange(ROWS) + number * ROWS,
                    "ts": pa.array(random.integers(begin, begin + span, ROWS), pa.timestamp("us", "UTC")),
                    "k": random.integers(0, 5_000, ROWS),
                    "s": pa.array(random.choice([f"s{n}" for n in range(20)], ROWS)),
                    "v": random.random(ROWS),
                }
            )
        )
        begin += span
    return tables


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write both streams' files once for all runs."""
    folders = {}
    for side, seed in (("left", 11), ("right", 12)):
        folders[side] = str(write_files(tmp_path_factory.mktemp(side), _tables(seed)))
    return folders


@cache
def _truth(case: str) -> Pairs:
    """Return the pairs of a case: DuckDB's batch join, for a count window those of the join in this process."""
    lefts, rights = _tables(11), _tables(12)
    if case == "count":
        join = wm.StreamJoin(left=lefts[0].schema, right=rights[0].schema, on=CASES[case], window=COUNT_WINDOW)
        parts = [join.push(left=left, right=right) for left, right in zip(lefts, rights, strict=True)]
        pairs = pa.concat_tables(parts).select(["left_id", "right_id"])
    else:
        duckdb.register("l", pa.concat_tables(lefts))
        duckdb.register("r", pa.concat_tables(rights))
        on = CASES[case].replace("left.", "l.").replace("right.", "r.")
        pairs = duckdb.sql(f"SELECT l.id, r.id FROM l JOIN r ON {on} AND {TIME_SQL}").to_arrow_table()  # type: ignore[union-attr] # noqa: S608
    return Counter(zip(*(column.to_pylist() for column in pairs.columns), strict=True))


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    drivers = Drivers(tmp_path_factory.mktemp("drivers"))
    yield drivers
    drivers.stop()


class Moment:
    """What a seed decides."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.case = list(CASES)[seed % len(CASES)]
        self.before, self.after = self.random.choice(STRUCTURES, 2).tolist()
        self.batches = int(self.random.integers(1, len(SPANS) - 3))
        self.delay = float(self.random.uniform(0, 0.8))

    def job(self, inputs: dict[str, str], home: Path) -> Job:
        window: dict[str, str | int] = COUNT if self.case == "count" else {**TIME}
        routing = "bucket" if self.case == "count" else self.case
        return Job(**inputs, home=str(home), on=CASES[self.case], window=window, routing=routing, structure=self.before)

    def await_in(self, home: Path, driver: Driver) -> None:
        """Wait until the query in ``home`` has committed so many micro-batches, and then a little."""
        commits = home / "checkpoint" / "commits"
        while not (commits / str(self.batches - 1)).exists():
            assert not driver.has_answered, f"{driver.answer()} before {self}"
            time.sleep(0.01)
        time.sleep(self.delay)

    def __str__(self) -> str:
        return (
            f"{self.case}, killed {self.delay:.2f} s after {self.batches} micro-batches, "
            f"structure {self.before} then {self.after}"
        )


def _check(home: Path, truth: Pairs) -> None:
    """Compare what the file sink has committed."""
    found = Counter(map(tuple, json.loads((home / "found").read_text())))
    assert truth.total() > 500
    assert found - truth == Counter(), "pairs that should not be, or twice"
    assert truth - found == Counter(), "lost pairs"


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 9))])
def test_driver_is_killed(
    drivers: Drivers,
    inputs: dict[str, str],
    tmp_path: Path,
    seed: int,
) -> None:
    moment = Moment(seed)
    job = moment.job(inputs, tmp_path)
    driver = drivers.on("local[2,4]")
    driver.begin(job)
    moment.await_in(tmp_path, driver)
    drivers.kill("local[2,4]")
    done = len([file for file in (tmp_path / "checkpoint" / "commits").iterdir() if file.name.isdecimal()])
    assert done < len(SPANS), "killed too late: nothing was left to do"
    drivers.on("local[2,4]").begin(replace(job, structure=moment.after))
    assert drivers.on("local[2,4]").answer() == "done"
    print(f"driver: {moment}; {done} micro-batches had been committed")  # noqa: T201
    _check(tmp_path, _truth(moment.case))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(22, 29))
def test_python_workers_are_killed_and_the_query_goes_on(
    drivers: Drivers,
    inputs: dict[str, str],
    tmp_path: Path,
    seed: int,
) -> None:
    """Where a task may fail four times, Spark runs it again by itself."""
    moment = Moment(seed)
    driver = drivers.on("local[2,4]")
    driver.begin(moment.job(inputs, tmp_path))
    moment.await_in(tmp_path, driver)
    killed = driver.kill_workers()
    assert killed > 0
    assert driver.answer() == "done"
    print(f"workers: {moment}; {killed} killed")  # noqa: T201
    _check(tmp_path, _truth(moment.case))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(41, 46))
def test_python_workers_are_killed_and_the_query_is_restarted(
    drivers: Drivers,
    inputs: dict[str, str],
    tmp_path: Path,
    seed: int,
) -> None:
    """Where a task must not fail, the query does; killed while no task runs, workers are not missed."""
    moment = Moment(seed)
    job = moment.job(inputs, tmp_path)
    driver = drivers.on("local[2]")
    driver.begin(job)
    moment.await_in(tmp_path, driver)
    killed = driver.kill_workers()
    assert killed > 0
    answer = driver.answer()
    if answer != "done":
        driver.begin(replace(job, structure=moment.after))
        assert driver.answer() == "done"
    print(f"workers: {moment}; {killed} killed; the query {answer}")  # noqa: T201
    _check(tmp_path, _truth(moment.case))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(61, 68))
def test_executor_is_killed_while_the_driver_lives(
    drivers: Drivers,
    inputs: dict[str, str],
    tmp_path: Path,
    seed: int,
) -> None:
    """Two executors of one core each: the other one goes on with a state it has never seen until there is a new one."""
    moment = Moment(seed)
    driver = drivers.on("local-cluster[2,1,1024]")
    driver.begin(moment.job(inputs, tmp_path))
    moment.await_in(tmp_path, driver)
    assert driver.kill_executor(moment.random) == 1
    answer = driver.answer()
    if answer != "done":
        driver.begin(moment.job(inputs, tmp_path))
        assert driver.answer() == "done"
    print(f"executor: {moment}; the query {answer}")  # noqa: T201
    _check(tmp_path, _truth(moment.case))
