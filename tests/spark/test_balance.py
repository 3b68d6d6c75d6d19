"""Balance on a real local Spark: the same pairs while the routing table changes, across restarts, and by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import watersmeet as wm
from streams import begin_query, committed, metrics_of, run, stream
from watersmeet.balance.files import GenerationFiles
from watersmeet.balance.generation import Generation, first_generation
from watersmeet.spark import balancing

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

Streams = Callable[[str, list[pa.Table]], Path]
Pairs = Counter[tuple[int, int]]
CORES = 2
ROWS = 200
SPACING = 500_000
WINDOW = wm.time_window("1200 milliseconds", ts="ts")
CASES = {"hash": "left.k = right.k", "bucket": "left.k BETWEEN right.k - 3 AND right.k + 5"}


@pytest.fixture
def balance_folder(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "tables"
    spark.conf.set("spark.watersmeet.balanceDir", str(folder))
    yield folder
    spark.conf.unset("spark.watersmeet.balanceDir")


def tables(seed: int, batches: int, first_id: int, hot: float = 0.3, rows: int = ROWS) -> list[pa.Table]:
    """Return micro-batches of half a second each; one key has a part of all rows, values drift."""
    random = np.random.default_rng(seed)
    result = []
    for number in range(batches):
        keys = np.where(random.random(rows) < hot, 7, random.integers(0, 200, rows) + 40 * number)
        result.append(
            pa.table(
                {
                    "id": np.arange(rows) + number * rows + first_id,
                    "ts": pa.array(
                        random.integers(number * SPACING, (number + 1) * SPACING, rows), pa.timestamp("us", "UTC")
                    ),
                    "k": keys,
                }
            )
        )
    return result


def truth(left: list[pa.Table], right: list[pa.Table], low: int, high: int) -> Pairs:
    """Return all pairs, by comparing all rows with all."""
    (x, y) = (pa.concat_tables(some) for some in (left, right))
    apart = np.abs(np.subtract.outer(x["ts"].cast(pa.int64()).to_numpy(), y["ts"].cast(pa.int64()).to_numpy()))
    difference = np.subtract.outer(x["k"].to_numpy(), y["k"].to_numpy())
    i, j = np.nonzero((apart <= 1_200_000) & (difference >= low) & (difference <= high))
    return Counter(zip(x["id"].to_numpy()[i].tolist(), y["id"].to_numpy()[j].tolist(), strict=True))


def drawn_generations(seed: int) -> list[Generation]:
    """Return generations with cut groups, a new one every other micro-batch; each looks as far back as rows live."""
    random = np.random.default_rng(seed)
    groups = first_generation(CORES).groups
    choices = [(0,), (1,), (0, 1), (1, 0)]
    return [
        Generation(
            number=number,
            first=2 * number,
            oldest=max(0, number - 3),
            owners=tuple(choices[at] for at in random.integers(0, len(choices), groups)),
            active=(0, 1),
            width=(4, 1, 4)[number % 3],
        )
        for number in range(1, 5)
    ]


@pytest.mark.parametrize("routing", ["hash", pytest.param("bucket", marks=pytest.mark.long)])
def test_pairs_stay_the_same_while_the_table_changes_and_the_query_restarts(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, balance_folder: Path, routing: str
) -> None:
    left, right = tables(1, 10, 0), tables(2, 10, 10_000)
    name = begin_query(tmp_path)
    files = GenerationFiles(balance_folder / name, CORES)
    for generation in drawn_generations(3):
        files.write(generation)
    seen: set[int] = set()
    for part in (slice(0, 5), slice(5, 10)):  # a restart in the middle of a reorganisation
        folders = [folder_of("left", left[part]), folder_of("right", right[part])]
        pairs = wm.join(*(stream(spark, folder) for folder in folders), CASES[routing], WINDOW, cores=CORES)
        query = run(pairs, tmp_path)
        seen |= {core["generation"] for metric in metrics_of(query) for core in metric.cores if core}
    expected = truth(left, right, *((0, 0) if routing == "hash" else (-3, 5)))
    assert committed(spark, tmp_path) == expected
    assert len(expected) > 10_000
    assert seen >= set(range(5))


@pytest.mark.long
def test_a_lost_routing_table_is_refused(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, balance_folder: Path
) -> None:
    left, right = tables(1, 4, 0), tables(2, 4, 10_000)
    name = begin_query(tmp_path)
    (generation, *_) = drawn_generations(3)
    GenerationFiles(balance_folder / name, CORES).write(generation)

    def join(balance: str) -> None:
        folders = [folder_of("left", left[:3]), folder_of("right", right[:3])]
        streams = [stream(spark, folder) for folder in folders]
        run(wm.join(*streams, CASES["hash"], WINDOW, cores=CORES, balance=balance), tmp_path)  # type: ignore[arg-type]

    join("auto")
    with pytest.raises(StreamingQueryException, match="one routing table for all tasks"):
        join("off")


def test_a_hot_key_is_shared_out_while_the_query_runs(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, balance_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balancing, "EPOCH", 2)
    left, right = tables(5, 10, 0, hot=0.7, rows=500), tables(6, 10, 10_000, hot=0.7, rows=500)
    folders = [folder_of("left", left), folder_of("right", right)]
    pairs = wm.join(*(stream(spark, folder) for folder in folders), CASES["hash"], WINDOW, cores=CORES)
    written = pairs.writeStream.format("noop").option("checkpointLocation", f"{tmp_path}/checkpoint")
    query = written.trigger(availableNow=True).start()
    query.awaitTermination()
    found = [sorted(core["pairs"] for core in metric.cores if core) for metric in metrics_of(query)]
    assert sum(map(sum, found)) == truth(left, right, 0, 0).total()
    (files,) = balance_folder.iterdir()
    generations = GenerationFiles(files, CORES).generations()
    hot = int(generations[0].group_of(np.array([7]))[0])
    assert set(generations[1].owners[hot]) == {0, 1}
    assert found[1][1] > 10 * found[1][0]
    with_rows = [core for core in found if sum(core)]
    assert with_rows[-1][1] < 3 * with_rows[-1][0]


def test_no_folder_no_balance(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    left, right = tables(1, 2, 0), tables(2, 2, 10_000)
    folders = [folder_of("left", left), folder_of("right", right)]
    query = run(wm.join(*(stream(spark, folder) for folder in folders), CASES["hash"], WINDOW, cores=CORES), tmp_path)
    assert committed(spark, tmp_path) == truth(left, right, 0, 0)
    assert {core["groups"] for metric in metrics_of(query) for core in metric.cores if core} == {"[[0,0,0,0]]"}


def test_another_balance_is_refused(spark: SparkSession) -> None:
    frame = spark.range(1).selectExpr("id AS k", "current_timestamp() AS ts")
    with pytest.raises(wm.SpecificationError, match="balance='on'"):
        wm.join(frame, frame, "left.k = right.k", WINDOW, balance="on")  # type: ignore[arg-type]
