"""The join's own watermark on Spark: from the query's, which lies behind it, and with ``idle`` from what cores hear.

The cores and packers are the real ones; who calls them stands in for Spark (:mod:`stand_in`).
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oracle
import watersmeet as wm
from stand_in import Checkpoint, Query, pair_query
from watersmeet.spark.clock import Clock
from watersmeet.spec.sql import parse_predicate
from watersmeet.window.plan import plan_join

START = 1_700_000_000_000_000
SECOND = 1_000_000
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("x", pa.int64()), ("k", pa.int64())])
SCHEMAS = {"left": SCHEMA, "right": SCHEMA}
ON = "left.k = right.k AND left.x BETWEEN right.x - 4 AND right.x + 3"
ROUTINGS = ("hash", "bucket", "broadcast")
WINDOW = wm.time_window(left="3 seconds", right="2 seconds", ts="ts")
IDLE = wm.time_window(left="3 seconds", right="2 seconds", ts="ts", lateness="1 second", idle="2 seconds")
Batch = dict[str, pa.Table | None]


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))


def batches(seed: int, pauses: range = range(0), count: int = 12) -> list[Batch]:
    """Return micro-batches of a second; rows are up to three seconds old, and the right stream pauses in some."""
    random = np.random.default_rng(seed)
    given: list[Batch] = []
    for number in range(count):
        tables: Batch = {}
        for side in SCHEMAS:
            rows = 0 if side == "right" and number in pauses else int(random.integers(5, 15))
            moments = START + (number * 10 + random.integers(-30, 10, rows)) * SECOND // 10
            columns = {"id": 100 * number + np.arange(rows), "ts": moments}
            columns |= {"x": random.integers(0, 12, rows), "k": random.integers(0, 2, rows)}
            tables[side] = pa.table(columns).cast(SCHEMA) if rows else None
        given.append(tables)
    return given


def run(given: list[Batch], window: Any, **options: Any) -> tuple[Counter[Any], Counter[Any], Query]:
    """Run micro-batches, each by cores that know their state alone; return the pairs, the late rows, the query."""
    pairs, late, random = Counter[Any](), Counter[Any](), np.random.default_rng(5)
    checkpoint = options.pop("checkpoint", Checkpoint())
    for batch in given:
        query = pair_query(SCHEMAS, ON, window, checkpoint=checkpoint, **options)
        results = query.run(batch, random, random)
        checkpoint = query.checkpoint
        for row in results.to_pylist():
            stream = row.get("late")
            if stream is None:
                pairs[row["left_id"], row["right_id"]] += 1
            else:
                late[stream, row[f"{stream}_id"]] += 1
                other = "right" if stream == "left" else "left"
                assert all(row[f"{other}_{name}"] is None for name in SCHEMA.names)
    return pairs, late, query


def truth(given: list[Batch], window: Any) -> tuple[Counter[Any], Counter[Any]]:
    """Return the oracle's pairs, and its late rows."""
    pushes = [(batch["left"], batch["right"]) for batch in given]
    expected = oracle.pairs(parse_predicate(ON), window, SCHEMAS, pushes)
    history = [(oracle.rows_of("left", left), oracle.rows_of("right", right)) for left, right in pushes]
    kept, _ = oracle.on_time({"left": "ts", "right": "ts"}, window, history)
    late = Counter[Any]()
    for place, side in enumerate(SCHEMAS):
        came = Counter((side, row[side, "id"]) for push in history for row in push[place])
        late += came - Counter((side, row[side, "id"]) for row in kept[place])
    return expected, late


@pytest.mark.parametrize("behind", [0, 3000, 7001])
def test_oracle_the_join_does_not_feel_that_the_query_is_behind(behind: int) -> None:
    given = batches(1)
    pairs, late, query = run(given, WINDOW, behind=behind, late="keep")
    assert (pairs, late) == truth(given, WINDOW)
    assert late.total() > 20
    assert query.checkpoint.watermark == query.checkpoint.largest["left"] // 1000 - behind or behind == 0


@pytest.mark.parametrize("routing", ROUTINGS)
def test_oracle_a_late_row_leaves_once(routing: str) -> None:
    given = batches(2)
    found = run(given, WINDOW, routing=routing, late="keep", cores=3)
    assert found[:2] == truth(given, WINDOW)
    assert found[1].total() > 20


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("behind", [0, 3000])
def test_oracle_idle(routing: str, behind: int) -> None:
    given = batches(3, pauses=range(4, 9))
    pairs, late, query = run(given, IDLE, routing=routing, behind=behind, late="keep", cores=3)
    assert (pairs, late) == truth(given, IDLE)
    assert late.total() > 5
    assert query.checkpoint.watermark == max(query.checkpoint.largest.values()) // 1000 - 3_000 - behind


def test_a_long_pause_keeps_the_state_small() -> None:
    given = batches(4, pauses=range(2, 99), count=60)
    held = []
    checkpoint = Checkpoint()
    for batch in given:
        query = pair_query(SCHEMAS, ON, IDLE, checkpoint=checkpoint, behind=3000)
        query.run(batch)
        checkpoint = query.checkpoint
        held.append(sum(record["window_rows"] for record in query.metrics[-1]))
    assert max(held[20:]) <= 2 * max(held[:20]), "no more than in the first seconds, twice for runs that leave whole"


def test_a_checkpoint_from_before_goes_on_as_it_was() -> None:
    """The query's watermark does not go back, and nothing is added to it until it has come further.

    query, before the change    … 5 6 7
    query, after it                     7 7 7 7 8 9     three seconds behind
    what cores have heard               8 9 …           the join's own watermark goes by it
    """
    given = batches(5, count=16)
    pairs, late, query = run(given[:8], WINDOW, late="keep")
    old = query.checkpoint
    for cells in old.joined.values():
        for name, (content,) in cells.items():
            if name[0] == "manifest":
                cells[name] = (content.partition(', "clock"')[0] + "}",)
    more_pairs, more_late, query = run(given[8:], WINDOW, checkpoint=old, behind=3000, late="keep")
    assert (pairs + more_pairs, late + more_late) == truth(given, WINDOW)
    last = run(given, WINDOW, behind=3000)[2].checkpoint.watermark
    assert query.checkpoint.watermark == last, "in the end the query goes by the new rule"


def test_the_keeper_sees_which_stream_the_watermark_waits_for() -> None:
    given = batches(6, pauses=range(3, 11), count=12)
    checkpoint, seen = Checkpoint(), []
    for batch in given:
        query = pair_query(SCHEMAS, ON, WINDOW, checkpoint=checkpoint)
        query.run(batch)
        checkpoint = query.checkpoint
        seen.append(query.waiting_for)
    assert seen == [None] * 6 + ["right"] * 5 + [None], "three seconds later it is further behind than a row stays"


def test_a_clock_that_goes_by_another_rule_begins_anew() -> None:
    plan = plan_join(SCHEMA, SCHEMA, parse_predicate(ON), WINDOW, "auto")
    clock = Clock.at(5000, 3000, None)
    assert clock.advance(5000, plan) == 5_000_000, "as far as the query has come"
    assert clock.advance(5001, plan) == 8_001_000, "from here on the query is behind"
    again = Clock.at(6000, 3000, clock.to_json())
    assert again.advance(6000, plan) == 9_000_000
    assert Clock.at(6000, 0, clock.to_json()).advance(6000, plan) == 8_001_000, "it does not go back"
    assert Clock.at(-1, 3000, None).advance(-1, plan) is None
    assert timedelta(milliseconds=clock.behind) == timedelta(seconds=3)
