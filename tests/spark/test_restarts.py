"""Restarts in a new process, with nothing remembered and no cache, for generated schemas and every kind of join.

The cores, packers and the unpacker are the real ones; who calls them stands in for Spark (:mod:`stand_in`), which
``test_the_stand_in_is_like_spark`` compares with real queries.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import watersmeet as wm
from drawn_streams import SHAPES
from dressed import UTC, Case, multi_cases, pair_cases, possible, texts
from stand_in import Checkpoint, Query, forget, multi_query, pair_query, run_in_a_new_process
from strategies import KINDS
from streams import metrics_of, run, stream

Streams = Callable[[str, list[pa.Table]], Path]
SUPPRESSED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
ON = "left.price BETWEEN right.bid - 5 AND right.bid + 5 AND left.symbol = right.symbol"
WINDOW = wm.time_window("2 seconds", ts="ts")


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give cores a folder for their cache; runs are merged often."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "scratch"))
    monkeypatch.setattr("watersmeet.spark.state.FAN_IN", 2)
    return tmp_path / "scratch"


def joined(case: Case, make: Any, data: st.DataObject, scratch: Path) -> Counter[str]:
    """Run all micro-batches of a case, most of them in a new process; return the results."""
    found: Counter[str] = Counter()
    checkpoint = Checkpoint()
    forget(scratch)
    random = np.random.default_rng(data.draw(st.integers(0, 99), label="tasks"))
    for batch in case.batches:
        if all(rows is None for rows in batch.values()):  # Spark runs none
            continue
        if data.draw(st.integers(0, 2), label="restart"):
            forget(scratch)
        query: Query = make(checkpoint=checkpoint)
        found.update(texts(query.run(batch, random, random)))
        if query.checkpoint.watermark > checkpoint.watermark and query.ts is not None:
            query.run({})  # as Spark does when the watermark has moved
        assert sum(record["window_rows"] for record in query.metrics[-1]) == _held(query)
        checkpoint = query.checkpoint
    return found


def _held(query: Query) -> int:
    """Return how many rows the state holds."""
    manifests = [json.loads(cells["manifest", None][0]) for cells in query.checkpoint.joined.values()]
    return sum(run["rows"] for manifest in manifests for runs in manifest["runs"].values() for run in runs)


def _two_streams(kind: str, data: st.DataObject, scratch: Path) -> None:
    case = data.draw(pair_cases(kind))
    make = partial(pair_query, case.schemas, case.on, case.window, cores=data.draw(st.integers(1, 3)))
    routings = possible(("hash", "bucket", "broadcast"), lambda routing: make(routing=routing))
    routing = data.draw(st.sampled_from(routings), label="routing")
    assert joined(case, partial(make, routing=routing), data, scratch) == case.expected


def _many_streams(shape: str, count: int, data: st.DataObject, scratch: Path) -> None:
    case = data.draw(multi_cases(shape, count))
    make = partial(multi_query, case.schemas, case.on, case.window, cores=data.draw(st.integers(1, 3)))
    routings = possible(("hash", "bucket", "replicate"), lambda routing: make(routing=routing))
    routing = data.draw(st.sampled_from(routings), label="routing")
    assert joined(case, partial(make, routing=routing), data, scratch) == case.expected


@settings(suppress_health_check=SUPPRESSED)
@given(data=st.data())
def test_oracle_two_streams_go_on_in_a_new_process(data: st.DataObject, scratch: Path) -> None:
    for kind in data.draw(st.permutations(KINDS))[:3]:
        _two_streams(kind, data, scratch)


@settings(suppress_health_check=SUPPRESSED)
@given(data=st.data())
def test_oracle_many_streams_go_on_in_a_new_process(data: st.DataObject, scratch: Path) -> None:
    _many_streams(data.draw(st.sampled_from(SHAPES)), data.draw(st.integers(2, 3)), data, scratch)


def test_processes_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every micro-batch in another process, with the folder of its cache removed."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "scratch"))
    lefts, rights = _ticks(1, "price"), _ticks(2, "bid")
    make = partial(pair_query, {"left": lefts[0].schema, "right": rights[0].schema}, ON, WINDOW)
    checkpoint, found = Checkpoint(), 0
    for left, right in zip(lefts[:3], rights[:3], strict=True):
        pairs, checkpoint = run_in_a_new_process(make, checkpoint, {"left": left, "right": right})
        forget(tmp_path / "scratch")
        found += pairs.num_rows
    alone = make()
    assert found == sum(alone.run({"left": left, "right": right}).num_rows for left, right in _pairs_of(3)) > 0
    assert checkpoint == alone.checkpoint


@pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend
def test_the_stand_in_is_like_spark(spark: SparkSession, folder_of: Streams, tmp_path: Path) -> None:
    """Pairs and metrics, micro-batch by micro-batch, are those of a real query, down to the bytes of the state."""
    lefts, rights = _ticks(1, "price"), _ticks(2, "bid")
    left, right = folder_of("left", lefts), folder_of("right", rights)
    query = run(wm.join(stream(spark, left), stream(spark, right), ON, WINDOW, cores=2), tmp_path)
    alone = pair_query({"left": lefts[0].schema, "right": rights[0].schema}, ON, WINDOW)
    found = [alone.run({"left": left, "right": right}) for left, right in _pairs_of(len(lefts))] + [alone.run({})]
    names = ["price", "left_symbol", "bid", "right_symbol"]
    real = spark.read.parquet(str(tmp_path / "pairs")).select(*names).collect()
    assert Counter(map(tuple, real)) == Counter(
        tuple(row[name] for name in names) for row in pa.concat_tables(found).to_pylist()
    )
    totals = ("rows_in", "pairs", "late_rows", "null_rows", "window_rows", "state_bytes")
    assert [[metrics[name] for name in totals] for metrics in metrics_of(query)] == [
        [sum(record[name] for record in records) for name in totals] for records in alone.metrics
    ]


def _ticks(seed: int, value: str) -> list[pa.Table]:
    """Return five micro-batches of a second each; some rows are late, some null."""
    random = np.random.default_rng(seed)
    return [
        pa.table(
            {
                "ts": pa.array((random.uniform(-0.5, 1, 40) + second) * 1e6 // 1000 * 1000, pa.int64()).cast(UTC),
                value: pa.array(random.integers(0, 50, 40), pa.int64(), mask=random.random(40) < 0.05),
                "symbol": random.choice(["a", "b"], 40),
            }
        )
        for second in range(1, 6)
    ]


def _pairs_of(count: int) -> list[tuple[pa.Table, pa.Table]]:
    return list(zip(_ticks(1, "price")[:count], _ticks(2, "bid")[:count], strict=True))


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=SUPPRESSED)
@given(data=st.data())
def test_oracle_two_streams_of_every_kind(kind: str, data: st.DataObject, scratch: Path) -> None:
    _two_streams(kind, data, scratch)


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [2, 3, 4])
@settings(suppress_health_check=SUPPRESSED)
@given(data=st.data())
def test_oracle_many_streams_of_every_shape(shape: str, count: int, data: st.DataObject, scratch: Path) -> None:
    _many_streams(shape, count, data, scratch)
