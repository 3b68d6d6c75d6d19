"""Every kind of predicate with every routing that applies: equal to Spark SQL's batch join however rows are cut.

Count windows, which Spark SQL does not have, are compared with the oracle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import oracle
import watersmeet as wm
from streams import Pairs, committed, ids, run, stream
from watersmeet.spark.routing.choose import RoutingName
from watersmeet.spec.sql import parse_predicate

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

Streams = Callable[[str, list[pa.Table]], Path]
ROWS: Final = 420
WINDOW: Final = wm.time_window(left="700 milliseconds", right="450 milliseconds", ts="ts")
WINDOW_SQL: Final = (
    "((l.ts >= r.ts AND l.ts <= r.ts + INTERVAL 450 MILLISECONDS)"
    " OR (l.ts < r.ts AND r.ts <= l.ts + INTERVAL 700 MILLISECONDS))"
)
BAND: Final = "left.k BETWEEN right.k - 20 AND right.k + 35"
PREDICATES: Final = {
    "equality": ("left.s = right.s", ["hash", "broadcast"]),
    "band": (BAND, ["bucket", "broadcast"]),
    "one-sided": ("left.k < right.k - 400", ["broadcast"]),
    "not-equal": ("left.s <> right.s", ["broadcast"]),
    "conjunction with residual": (
        "left.s = right.s AND left.k BETWEEN right.k - 200 AND right.k + 200 AND left.v * right.v > 0.1D",
        ["hash", "bucket", "broadcast"],
    ),
    "disjunction of bands": (
        f"{BAND} OR left.k BETWEEN right.k + 200 AND right.k + 230",
        ["bucket", "broadcast"],
    ),
    "two bands": (
        "left.k BETWEEN right.k - 100 AND right.k + 100 AND ABS(left.v - right.v) <= 0.2D",
        ["bucket", "broadcast"],
    ),
    "residual": ("left.v * right.v > 0.7D", ["broadcast"]),
    "null-safe": ("left.s <=> right.s AND (left.k = right.k OR left.k IS NULL)", ["hash", "broadcast"]),
}
ROUTED: Final = [(kind, routing) for kind, (_, routings) in PREDICATES.items() for routing in routings]
FAST: Final = {kind: 1 + number % 3 for number, kind in enumerate(PREDICATES)} | {"conjunction with residual": 7}
"""One number of micro-batches per kind; the long tests try three for each routing, and all from 1 to 7 among them."""


def _rows(seed: int, count: int) -> pa.Table:
    """Return rows by time, some with nulls or NaN."""
    random = np.random.default_rng(seed)
    value = random.random(count)
    return pa.table(
        {
            "id": np.arange(count),
            "ts": pa.array(np.sort(random.integers(0, 3_000_000, count)), pa.timestamp("us", "UTC")),
            "k": pa.array(random.integers(0, 1_000, count), mask=random.random(count) < 0.05),
            "s": pa.array(random.choice([f"s{n}" for n in range(12)], count), mask=random.random(count) < 0.05),
            "v": pa.array(np.where(random.random(count) < 0.03, np.nan, value)),
        }
    )


def _cut(table: pa.Table, batches: int, seed: int) -> list[pa.Table]:
    """Cut rows by time into micro-batches, in each of them in no order."""
    random = np.random.default_rng(seed)
    edges = np.linspace(0, len(table), batches + 1).astype(int)
    return [table.take(pa.array(begin + random.permutation(end - begin))) for begin, end in pairwise(edges.tolist())]


LEFT, RIGHT = _rows(51, ROWS), _rows(52, ROWS)


@pytest.fixture(scope="module")
def truth_of(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pairs]:
    folder = tmp_path_factory.mktemp("truth")
    frames = []
    for name, table in (("l", LEFT), ("r", RIGHT)):
        pq.write_table(table, folder / name)
        frames.append(spark.read.parquet(str(folder / name)).alias(name))

    @cache
    def truth(kind: str) -> Pairs:
        on = PREDICATES[kind][0].replace("left.", "l.").replace("right.", "r.")
        both = frames[0].crossJoin(frames[1]).where(f"({on}) AND {WINDOW_SQL}")
        return ids(both.selectExpr("l.id left_id", "r.id right_id"))

    return truth


@pytest.mark.parametrize(
    ("kind", "routing", "batches"),
    [
        *((kind, "auto", batches) for kind, batches in FAST.items()),
        *(
            pytest.param(kind, routing, batches, marks=pytest.mark.long)
            for number, (kind, routing) in enumerate(ROUTED)
            for batches in sorted({1 + number % 7, 1 + (number + 3) % 7, 1 + (number + 5) % 7})
        ),
    ],
)
def test_streaming_equals_spark_sql(
    spark: SparkSession,
    folder_of: Streams,
    tmp_path: Path,
    truth_of: Callable[[str], Pairs],
    kind: str,
    routing: RoutingName,
    batches: int,
) -> None:
    left, right = folder_of("left", _cut(LEFT, batches, 1)), folder_of("right", _cut(RIGHT, batches, 2))
    on = PREDICATES[kind][0]
    run(wm.join(stream(spark, left), stream(spark, right), on, WINDOW, routing=routing, cores=3), tmp_path)
    truth = truth_of(kind)
    assert len(truth) > 100
    assert committed(spark, tmp_path) == truth


@pytest.mark.parametrize(("kind", "routing"), ROUTED)
def test_batch_equals_spark_sql(
    spark: SparkSession,
    folder_of: Streams,
    truth_of: Callable[[str], Pairs],
    kind: str,
    routing: RoutingName,
) -> None:
    folders = [folder_of("left", _cut(LEFT, 3, 1)), folder_of("right", _cut(RIGHT, 2, 2))]
    frames = [spark.read.parquet(str(folder)) for folder in folders]
    found = ids(wm.join(frames[0], frames[1], PREDICATES[kind][0], WINDOW, routing=routing, cores=3))
    assert found == truth_of(kind)


@pytest.mark.parametrize(
    ("kind", "routing", "batches", "order_by"),
    [
        ("one-sided", "broadcast", 3, "ts"),
        ("disjunction of bands", "bucket", 4, None),
        *(
            pytest.param(kind, routing, batches, order_by, marks=pytest.mark.long)
            for number, (kind, routing) in enumerate(ROUTED)
            for batches, order_by in (((1, None), (7, "v")) if number % 2 else ((2, "ts"), (5, None)))
        ),
    ],
)
def test_oracle_count_windows(
    spark: SparkSession,
    folder_of: Streams,
    tmp_path: Path,
    kind: str,
    routing: RoutingName,
    batches: int,
    order_by: str | None,
) -> None:
    lefts, rights = _cut(LEFT.slice(0, 140), batches, 1), _cut(RIGHT.slice(0, 140), batches, 2)
    left, right = folder_of("left", lefts), folder_of("right", rights)
    on, window = PREDICATES[kind][0], wm.count_window(left=50, right=35, order_by=order_by)
    run(wm.join(stream(spark, left), stream(spark, right), on, window, routing=routing, cores=3), tmp_path)
    schemas = {"left": LEFT.schema, "right": RIGHT.schema}
    truth = oracle.pairs(parse_predicate(on), window, schemas, list(zip(lefts, rights, strict=True)))
    assert len(truth) > 50
    assert committed(spark, tmp_path) == truth
