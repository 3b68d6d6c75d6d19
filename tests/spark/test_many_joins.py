"""Several joins in one query: side by side, and one on the results of another; their names, metrics and balance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it

import watersmeet as wm
from streams import committed, ids, run, stream
from watersmeet.balance.files import GenerationFiles
from watersmeet.balance.generation import first_generation
from watersmeet.spark import balancing
from watersmeet.spark.metrics import join_name

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

Streams = Callable[[str, list[pa.Table]], Path]
ROWS, SPACING = 200, 500_000
WINDOW = wm.time_window("700 milliseconds", ts="ts")
IN_TIME = "l.ts BETWEEN r.ts - INTERVAL 700 MILLISECONDS AND r.ts + INTERVAL 700 MILLISECONDS"
SAME, NEAR = "left.k = right.k", "left.k BETWEEN right.k - 1 AND right.k + 2"


def tables(seed: int, batches: int, first_id: int = 0, rows: int = ROWS, hot: int | None = None) -> list[pa.Table]:
    """Return micro-batches of half a second each; of a hot key there are six rows in ten."""
    random = np.random.default_rng(seed)
    result = []
    for number in range(batches):
        times = random.integers(number * SPACING, (number + 1) * SPACING, rows)
        keys = random.integers(0, 100, rows)
        result.append(
            pa.table(
                {
                    "id": np.arange(rows) + number * rows + first_id,
                    "ts": pa.array(times, pa.timestamp("us", "UTC")),
                    "k": keys if hot is None else np.where(random.random(rows) < 0.6, hot, keys),
                }
            )
        )
    return result


def truth(spark: SparkSession, left: Path, right: Path, on: str) -> Counter[tuple[int, int]]:
    sides = [spark.read.parquet(str(folder)).alias(name) for name, folder in (("l", left), ("r", right))]
    condition = on.replace("left.", "l.").replace("right.", "r.")
    both = sides[0].join(sides[1], F.expr(f"{condition} AND {IN_TIME}"))
    return ids(both.selectExpr("l.id left_id", "r.id right_id"))


@pytest.mark.long
def test_joins_side_by_side_have_their_own_metrics_across_a_restart(
    spark: SparkSession, folder_of: Streams, tmp_path: Path
) -> None:
    """The second start has other names: those of joins without a name go on counting."""
    left, right = tables(1, 3), tables(2, 3, 10_000)
    seen: dict[str, int] = {}
    for part in (slice(0, 2), slice(2, 3)):
        folders = [folder_of("left", left[part]), folder_of("right", right[part])]
        one, other = ([stream(spark, folder) for folder in folders] for _ in range(2))
        pairs = wm.join(*one, SAME, WINDOW, cores=2, name="same").unionByName(wm.join(*other, NEAR, WINDOW, cores=2))
        query = run(pairs, tmp_path)
        for progress in query.recentProgress:
            for name, metrics in wm.metrics(progress).items():
                assert metrics.pairs == sum(core.pairs for core in metrics.cores)
                seen[name] = seen.get(name, 0) + metrics.pairs
        last = wm.metrics(query)["same"]
        assert last.window_rows == sum(core.window_rows for core in last.cores) > 0
    expected = {on: truth(spark, *folders, on) for on in (SAME, NEAR)}
    assert committed(spark, tmp_path) == expected[SAME] + expected[NEAR]
    assert seen.pop("same") == expected[SAME].total() > 100
    assert len(seen) == 2
    assert all(name.startswith("watersmeet") for name in seen)
    assert sum(seen.values()) == expected[NEAR].total()


def test_joins_of_one_batch(spark: SparkSession, folder_of: Streams) -> None:
    folders = [folder_of("left", tables(1, 2)), folder_of("right", tables(2, 2, 10_000))]
    frames = [spark.read.parquet(str(folder)) for folder in folders]
    both = wm.join(*frames, SAME, WINDOW).unionByName(wm.join(*frames, NEAR, WINDOW))
    assert ids(both) == truth(spark, *folders, SAME) + truth(spark, *folders, NEAR)


@pytest.mark.long
def test_each_join_of_a_query_is_balanced_by_what_it_does_itself(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two joins with one hot key each: each shares out its own, in routing tables of its own."""
    monkeypatch.setattr(balancing, "EPOCH", 2)
    spark.conf.set(balancing.FOLDER, str(tmp_path / "tables"))
    sides = {
        f"{name}{hot}": folder_of(f"{name}{hot}", tables(seed + hot, 6, 10_000 * seed, 400, hot))
        for seed, name in enumerate(("left", "right"))
        for hot in (7, 8)
    }

    def joined(hot: int, on: str) -> DataFrame:
        return wm.join(*(stream(spark, sides[f"{name}{hot}"]) for name in ("left", "right")), on, WINDOW, cores=2)

    try:
        pairs = joined(7, SAME).unionByName(joined(8, f"{SAME} AND left.id >= 0"))
    finally:
        spark.conf.unset(balancing.FOLDER)
    run(pairs, tmp_path)
    expected = [truth(spark, sides[f"left{hot}"], sides[f"right{hot}"], SAME) for hot in (7, 8)]
    assert committed(spark, tmp_path) == expected[0] + expected[1]
    (query,) = (tmp_path / "tables").iterdir()
    shared = []
    for folder in query.iterdir():
        newest = GenerationFiles(folder, 2).live()[-1]
        groups = first_generation(2).group_of(np.array([7, 8]))
        shared.append([len(newest.owners[int(group)]) for group in groups])
    assert sorted(shared) == [[1, 2], [2, 1]]


@pytest.mark.long
def test_the_results_of_one_join_are_used_twice(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    """Its last rows come in a micro-batch without input, in which both uses have to hear of the watermark."""
    left, right = folder_of("left", tables(11, 3, 0, 40)), folder_of("right", tables(12, 3, 10_000, 40))

    def counted(joined: DataFrame) -> DataFrame:
        """Count rows by the time of the left one, and those without one by that of the right one."""
        counts = [
            joined.filter(condition).groupBy(F.window(ts, "100 milliseconds")).count().withColumn("by", F.lit(ts))
            for condition, ts in (("left_ts IS NOT NULL", "left_ts"), ("left_ts IS NULL", "right_ts"))
        ]
        return counts[0].unionByName(counts[1])

    def told(frame: DataFrame) -> dict[tuple[str, int], int]:
        rows = frame.selectExpr("by", "unix_millis(window.start) AS start", "count").collect()
        return {(row.by, row.start): row["count"] for row in rows}

    run(counted(wm.join(stream(spark, left), stream(spark, right), NEAR, WINDOW, how="full", cores=2)), tmp_path)
    found = told(spark.read.parquet(str(tmp_path / "pairs")))
    whole = [spark.read.parquet(str(folder)) for folder in (left, right)]
    closed = {start for by, start in found if by == "left_ts"}
    expected = told(counted(wm.join(*whole, NEAR, WINDOW, how="full")))
    assert len(closed) > 3
    assert found == {key: count for key, count in expected.items() if key[1] <= max(closed)}


def test_a_name_is_given_out_once() -> None:
    names = [join_name(None) for _ in range(3)]
    assert len(set(names)) == 3
    assert join_name("near") == join_name("near") == "near"


@pytest.mark.parametrize("given", ["", " ", 5])
def test_another_name_is_refused(given: object) -> None:
    with pytest.raises(wm.SpecificationError, match="name="):
        join_name(given)  # type: ignore[arg-type]


def test_metrics_of_something_else_are_refused(spark: SparkSession) -> None:
    with pytest.raises(wm.SpecificationError, match=r"metrics of a DataFrame(?s:.*)recentProgress"):
        wm.metrics(spark.range(1))  # type: ignore[arg-type]
