"""Real queries whose state was written by two attempts of one micro-batch, and both of Spark's checkpoint formats.

Two copies of a checkpoint run the same micro-batches: two attempts from one state. Then the files that one has written
replace those of the other, as those of a late attempt would, and a new process goes on.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from drivers import Drivers
from query_program import Job
from streams import Pairs, write_files

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]  # PySpark's own warnings are not ours to mend

ROWS, SPAN, MASTER = 80, 200_000, "local[2,4]"
ON = "left.price BETWEEN right.bid - 9 AND right.bid + 9 AND left.symbol = right.symbol"


@pytest.fixture
def drivers(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Drivers]:
    (tmp_path / "drivers").mkdir()
    version = {"spark.sql.streaming.stateStore.checkpointFormatVersion": str(getattr(request, "param", 1))}
    drivers = Drivers(tmp_path / "drivers", version)
    yield drivers
    drivers.stop()


def _tables(seed: int, value: str) -> list[pa.Table]:
    random = np.random.default_rng(seed)
    return [
        pa.table(
            {
                value: random.integers(0, 100, ROWS),
                "ts": pa.array(random.integers(0, SPAN, ROWS) + number * SPAN, pa.timestamp("us", "UTC")),
                "id": np.arange(ROWS) + number * ROWS,
                "symbol": random.choice(["a", "b", "c"], ROWS),
            }
        )
        for number in range(8)
    ]


LEFTS, RIGHTS = _tables(1, "price"), _tables(2, "bid")


def _truth() -> Pairs:
    duckdb.register("l", pa.concat_tables(LEFTS))
    duckdb.register("r", pa.concat_tables(RIGHTS))
    on = ON.replace("left.", "l.").replace("right.", "r.") + " AND abs(epoch_us(l.ts) - epoch_us(r.ts)) <= 1000000"
    return Counter(duckdb.sql(f"SELECT l.id, r.id FROM l JOIN r ON {on}").fetchall())  # type: ignore[union-attr] # noqa: S608


def _job(folder: Path) -> Job:
    for side in ("left", "right"):
        (folder / side).mkdir(exist_ok=True)
    window: dict[str, str | int] = {"left": "1 second", "right": "1 second", "ts": "ts"}
    return Job(str(folder / "left"), str(folder / "right"), str(folder / "home"), ON, window)


def _run(drivers: Drivers, job: Job, batches: slice) -> None:
    """Run some more micro-batches."""
    if batches.stop is not None:
        write_files(Path(job.left), LEFTS[batches])
        write_files(Path(job.right), RIGHTS[batches])
    drivers.on(MASTER).begin(job)
    assert drivers.on(MASTER).answer() == "done"


def _check(home: str) -> None:
    found = Counter(map(tuple, json.loads(Path(home, "found").read_text())))
    assert found == _truth()
    assert found.total() > 500


def test_another_attempts_files_in_place_of_its_own(tmp_path: Path, drivers: Drivers) -> None:
    job = _job(tmp_path)
    _run(drivers, job, slice(0, 2))
    shutil.copytree(job.home, tmp_path / "late")
    written = _changes(Path(job.home))
    _run(drivers, job, slice(2, 4))
    _run(drivers, replace(job, home=str(tmp_path / "late")), slice(None))
    late = [file for file in _changes(Path(job.home)) if file not in written]
    _run(drivers, job, slice(4, 6))
    replaced = 0
    for file in late:
        other = tmp_path / "late" / file
        if other.exists():
            replaced += 1
            shutil.copy(other, Path(job.home) / file)
            (Path(job.home) / file).with_name(f".{file.name}.crc").unlink(missing_ok=True)
    assert replaced >= 4, "two partitions, two micro-batches"
    drivers.kill(MASTER)
    shutil.rmtree(tmp_path / "drivers")
    (tmp_path / "drivers").mkdir()
    _run(drivers, job, slice(6, 8))
    _check(job.home)


def _changes(home: Path) -> list[Path]:
    """Return the files of changes that the join's state consists of, below ``home``."""
    return sorted(path.relative_to(home) for path in home.glob("checkpoint/state/**/*.changelog"))


@pytest.mark.parametrize("drivers", [1, 2], indirect=True, ids=["format 1", "format 2"])
def test_checkpoint_formats_bear_new_processes(tmp_path: Path, drivers: Drivers) -> None:
    """Columns of different names, text last; every process has to read what the ones before have written."""
    job = _job(tmp_path)
    for begin in (0, 3, 6):
        _run(drivers, job, slice(begin, min(begin + 3, 8)))
        drivers.kill(MASTER)
        shutil.rmtree(tmp_path / "drivers")
        (tmp_path / "drivers").mkdir()
    _check(job.home)
