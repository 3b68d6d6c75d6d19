"""Balance on a real local Spark: the same pairs while the routing table changes, across restarts, and by itself."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from shutil import rmtree
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import watersmeet as wm
from streams import begin_query, committed, metrics_of, run, stream
from watersmeet.balance.balancer import Settings
from watersmeet.balance.files import GenerationFiles
from watersmeet.balance.generation import Generation, RoutingTable, first_generation
from watersmeet.spark import balancing
from watersmeet.spark import tables as routing_tables
from watersmeet.spark.tables import Tables
from watersmeet.spec.options import Balance

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

Streams = Callable[[str, list[pa.Table]], Path]
Pairs = Counter[tuple[int, int]]
MOST = pd.Timedelta(milliseconds=1200)
CORES = 2
MANY_CORES = 4
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


def generations_in(folder: Path, cores: int = CORES) -> list[list[Generation]]:
    """Return all generations of each join that has any."""
    files = [GenerationFiles(join, cores) for query in folder.iterdir() for join in sorted(query.iterdir())]
    return [[own._generation(number) for number in range(own.live()[-1].number + 1)] for own in files]


def shown_by(query: StreamingQuery) -> list[str]:
    """Return the decisions that a query's progress shows."""
    return [reason for metric in metrics_of(query) for reason in metric.balance["decisions"]]


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


@pytest.mark.long
@pytest.mark.parametrize("routing", ["hash", "bucket"])
def test_pairs_stay_the_same_while_the_table_changes_and_the_query_restarts(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, balance_folder: Path, routing: str
) -> None:
    left, right = tables(1, 10, 0), tables(2, 10, 10_000)
    name = begin_query(tmp_path)
    files = GenerationFiles(balance_folder / name, CORES)
    for generation in drawn_generations(3):
        files.write(generation)
    seen: set[int] = set()
    starts: list[tuple[slice, Balance]] = [(slice(0, 5), "auto"), (slice(5, 8), "off"), (slice(8, 10), "auto")]
    for part, balance in starts:  # restarts in the middle of a reorganisation; balance may be turned off, and on again
        folders = [folder_of("left", left[part]), folder_of("right", right[part])]
        streams = [stream(spark, folder) for folder in folders]
        pairs = wm.join(*streams, CASES[routing], WINDOW, cores=CORES, balance=balance)
        query = run(pairs, tmp_path)
        seen |= {core["generation"] for metric in metrics_of(query) for core in metric.cores if core}
    expected = truth(left, right, *((0, 0) if routing == "hash" else (-3, 5)))
    assert committed(spark, tmp_path) == expected
    assert len(expected) > 10_000
    assert seen >= set(range(5))


@pytest.mark.parametrize("routing", [pytest.param("hash", marks=pytest.mark.long), "bucket"])
def test_results_of_many_streams_stay_the_same_while_the_table_changes(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, balance_folder: Path, routing: str
) -> None:
    names = ("a", "b", "c")
    sides = {name: tables(seed, 8, 10_000 * seed, hot=0.05, rows=60) for seed, name in enumerate(names)}
    name = begin_query(tmp_path)
    files = GenerationFiles(balance_folder / name, CORES)
    for generation in drawn_generations(3):
        files.write(generation)
    reach = 0 if routing == "hash" else 1
    on = " AND ".join(f"{one}.k BETWEEN {other}.k - {reach} AND {other}.k + {reach}" for one, other in ("ab", "bc"))
    on = "a.k = b.k AND b.k = c.k" if routing == "hash" else on
    window = wm.time_window("1200 milliseconds", ts="ts")
    seen: set[int] = set()
    elsewhere = 0
    for part in (slice(0, 5), slice(5, 8)):  # a restart in the middle of a reorganisation
        frames = {own: stream(spark, folder_of(own, some[part])) for own, some in sides.items()}
        query = run(wm.multijoin(frames, on, window, cores=CORES, routing=routing), tmp_path)  # type: ignore[arg-type]
        cores = [core for metric in metrics_of(query) for core in metric.cores if core]
        seen |= {core["generation"] for core in cores}
        elsewhere += sum(core["given_elsewhere"] for core in cores)
    found = spark.read.parquet(f"{tmp_path}/pairs").select(*(f"{own}_id" for own in names)).collect()
    whole = {own: pa.concat_tables(some).to_pandas() for own, some in sides.items()}
    expected: Counter[tuple[int, ...]] = Counter()
    partners = [whole["a"], *(whole[own].rename(columns=lambda column: f"{column}_") for own in "bc")]
    for row in partners[0].itertuples():  # the results of each row of a
        near = [
            some[(abs(some["k_"] - row.k) <= at * reach) & (abs(some["ts_"] - row.ts) <= MOST)]
            for at, some in ((1, partners[1]), (2, partners[2]))
        ]
        both = near[0].merge(near[1], how="cross", suffixes=("b", "c"))
        both = both[(abs(both["k_b"] - both["k_c"]) <= reach) & (abs(both["ts_b"] - both["ts_c"]) <= MOST)]
        expected.update((row.id, b, c) for b, c in zip(both["id_b"], both["id_c"], strict=True))
    assert Counter(map(tuple, found)) == expected
    assert len(expected) > 500
    assert seen >= set(range(4))
    assert elsewhere > 0


def test_tables_hold_when_balance_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decided stays; a query that was never balanced leaves no trace in the folder."""
    properties = {"sql.streaming.queryId": "a query", "streaming.sql.batchId": "7"}
    context = SimpleNamespace(getLocalProperty=properties.get)
    monkeypatch.setattr(routing_tables, "TaskContext", SimpleNamespace(get=lambda: context))
    first = RoutingTable((first_generation(CORES),))
    assert Tables(CORES, str(tmp_path)).current() == first
    assert not list(tmp_path.iterdir())
    (generation, *_) = drawn_generations(3)
    GenerationFiles(tmp_path / "a query", CORES).write(generation)
    assert Tables(CORES, str(tmp_path)).current().newest == generation
    assert Tables(CORES, str(tmp_path), balances=True).current().newest == generation


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
    rmtree(balance_folder / name)
    with pytest.raises(StreamingQueryException, match="one routing table for all tasks"):
        join("off")


@pytest.mark.long
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
    metrics = [metric for metric in metrics_of(query) if metric.rows_in]  # not the last, which has no rows
    found = [sorted(core["pairs"] for core in metric.cores if core) for metric in metrics]
    assert sum(map(sum, found)) == truth(left, right, 0, 0).total()
    (generations,) = generations_in(balance_folder)
    for metric in metrics:  # every micro-batch shows the generation that it was done by, and why there is one
        (number,) = {core["generation"] for core in metric.cores if core}
        assert metric.balance["generation"] == number
        assert tuple(metric.balance["decisions"]) == generations[number].reasons
    assert "times a core's fair share" in generations[1].reasons[0]
    assert metrics[-1].balance["generation"] > 0
    hot = int(generations[0].group_of(np.array([7]))[0])
    assert set(generations[1].owners[hot]) == {0, 1}
    assert found[1][1] > 10 * found[1][0]
    with_rows = [core for core in found if sum(core)]
    assert with_rows[-1][1] < 3 * with_rows[-1][0]


@pytest.mark.long
def test_fewer_cores_while_the_query_waits_and_more_when_it_does_not(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, balance_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a slow trigger and few rows some cores are left out; when micro-batches know no break, they come back."""
    monkeypatch.setattr(balancing, "EPOCH", 2)
    left, right = tables(7, 30, 0, hot=0.0, rows=50), tables(8, 30, 10_000, hot=0.0, rows=50)
    folders = [folder_of("left", left), folder_of("right", right)]

    def begin(trigger: dict[str, Any]) -> StreamingQuery:
        pairs = wm.join(*(stream(spark, folder) for folder in folders), CASES["hash"], WINDOW, cores=MANY_CORES)
        written = pairs.writeStream.format("parquet").option("path", f"{tmp_path}/pairs")
        return written.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(**trigger).start()

    def cores_of(query: StreamingQuery) -> list[int]:
        return [len([core for core in metric.cores if core]) for metric in metrics_of(query) if metric.rows_in]

    waiting = begin({"processingTime": "3 seconds"})
    deadline = time.monotonic() + 120
    while not any(cores < MANY_CORES for cores in cores_of(waiting)) and time.monotonic() < deadline:
        waiting.awaitTermination(1)
    waiting.stop()
    fewest = cores_of(waiting)[-1]  # the others are empty, and not even asked
    assert fewest < cores_of(waiting)[0] == MANY_CORES
    assert any("no core is busy" in reason for reason in shown_by(waiting))
    hurrying = begin({"availableNow": True})
    hurrying.awaitTermination()
    assert cores_of(hurrying)[-1] > fewest
    assert any("busy or full, 0 idle" in reason for reason in shown_by(hurrying))
    (generations,) = generations_in(balance_folder, MANY_CORES)
    degrees = [len(generation.active) for generation in generations]
    lowest = degrees.index(min(degrees))
    assert degrees == [*sorted(degrees[:lowest], reverse=True), *sorted(degrees[lowest:])]
    assert committed(spark, tmp_path) == truth(left, right, 0, 0)


@pytest.mark.long
@pytest.mark.usefixtures("balance_folder")
def test_a_core_that_holds_too_much_yields_groups(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All keys are alike, but the rows of core 0's keys are wide. How busy cores are is no reason here."""
    monkeypatch.setattr(balancing, "EPOCH", 2)
    monkeypatch.setattr(balancing, "Settings", partial(Settings, tolerance=9.0, cut=False))
    first = first_generation(CORES)
    wide = first.first_owner[first.group_of(np.arange(200))] == 0
    sides = []
    for side, seed in (("left", 9), ("right", 10)):
        keys = np.random.default_rng(seed).integers(0, len(wide), (18, ROWS))
        some = [
            table.set_column(2, "k", pa.array(own))
            for table, own in zip(tables(seed, len(keys), 10_000 * (side == "right")), keys, strict=True)
        ]
        text = [pa.array(["w" * 2000 if wide[key] else "" for key in table["k"].to_pylist()]) for table in some]
        sides.append([table.append_column("text", own) for table, own in zip(some, text, strict=True)])
    folders = [folder_of(name, some) for name, some in zip(("left", "right"), sides, strict=True)]
    spark.conf.set("spark.watersmeet.coreBytes", "1100000")
    try:
        pairs = wm.join(*(stream(spark, folder) for folder in folders), CASES["hash"], WINDOW, cores=CORES)
        query = run(pairs, tmp_path)
    finally:
        spark.conf.unset("spark.watersmeet.coreBytes")
    metrics = [metric for metric in metrics_of(query) if metric.rows_in]
    held = [sorted(core["state_bytes"] for core in metric.cores if core) for metric in metrics]
    assert max(core for some in held[:4] for core in some) > 1_100_000
    assert held[3][1] > 10 * held[3][0]
    assert any("and may hold 1.1e+06" in reason for reason in shown_by(query))
    assert held[-1][1] <= 1_100_000
    assert committed(spark, tmp_path) == truth(*sides, 0, 0)


@pytest.mark.long
def test_buckets_become_narrower_and_wider_while_the_query_runs(
    spark: SparkSession, folder_of: Streams, tmp_path: Path, balance_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At first all values lie in a few buckets; then they spread, and narrow buckets mean copies and nothing else."""
    monkeypatch.setattr(balancing, "EPOCH", 2)
    sides = []
    for seed, first_id in ((11, 0), (12, 10_000)):
        random = np.random.default_rng(seed)
        sides.append(
            [
                table.set_column(2, "k", pa.array(random.integers(0, 20 if number < 12 else 4000, ROWS)))
                for number, table in enumerate(tables(seed, 22, first_id))
            ]
        )
    folders = [folder_of(name, some) for name, some in zip(("left", "right"), sides, strict=True)]
    pairs = wm.join(*(stream(spark, folder) for folder in folders), CASES["bucket"], WINDOW, cores=CORES)
    query = run(pairs, tmp_path)
    (generations,) = generations_in(balance_folder)
    widths = [generation.width for generation in generations]
    narrowest = widths.index(min(widths))
    assert widths[0] > widths[narrowest] < widths[-1]
    assert any(reason.startswith("rows lie as in") for reason in shown_by(query))
    assert any(reason.startswith("right rows are stored 1.") for reason in shown_by(query))
    assert committed(spark, tmp_path) == truth(*sides, -3, 5)


@pytest.mark.parametrize("given", ["1g", "-5"])
def test_a_limit_that_is_no_number_of_bytes_is_refused(
    spark: SparkSession, folder_of: Streams, balance_folder: Path, given: str
) -> None:
    folder = folder_of("left", tables(1, 1, 0))
    spark.conf.set("spark.watersmeet.coreBytes", given)
    try:
        with pytest.raises(wm.SpecificationError, match=f"coreBytes is '{given}'"):
            wm.join(stream(spark, folder), stream(spark, folder), CASES["hash"], WINDOW, cores=CORES)
    finally:
        spark.conf.unset("spark.watersmeet.coreBytes")
    assert not balance_folder.exists()


def test_a_switch_that_is_neither_true_nor_false_is_refused(
    spark: SparkSession, folder_of: Streams, balance_folder: Path
) -> None:
    folder = folder_of("left", tables(1, 1, 0))
    spark.conf.set("spark.watersmeet.decluster", "never")
    try:
        with pytest.raises(wm.SpecificationError, match="decluster is 'never'"):
            wm.join(stream(spark, folder), stream(spark, folder), CASES["hash"], WINDOW, cores=CORES)
        spark.conf.set("spark.watersmeet.decluster", "False")
        with patch.object(balancing, "Settings") as chosen:
            wm.join(stream(spark, folder), stream(spark, folder), CASES["hash"], WINDOW, cores=CORES)
        assert chosen.call_args.kwargs["decluster"] is False
    finally:
        spark.conf.unset("spark.watersmeet.decluster")
    assert not balance_folder.exists()


def test_no_folder_no_balance(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    left, right = tables(1, 2, 0), tables(2, 2, 10_000)
    folders = [folder_of("left", left), folder_of("right", right)]
    query = run(wm.join(*(stream(spark, folder) for folder in folders), CASES["hash"], WINDOW, cores=CORES), tmp_path)
    assert committed(spark, tmp_path) == truth(left, right, 0, 0)
    records = [core for metric in metrics_of(query) if metric.rows_in for core in metric.cores if core]
    assert {core["groups"] for core in records} == {"[[0,0,0,0],0]"}


def test_another_balance_is_refused(spark: SparkSession) -> None:
    frame = spark.range(1).selectExpr("id AS k", "current_timestamp() AS ts")
    with pytest.raises(wm.SpecificationError, match="balance='on'"):
        wm.join(frame, frame, "left.k = right.k", WINDOW, balance="on")  # type: ignore[arg-type]
