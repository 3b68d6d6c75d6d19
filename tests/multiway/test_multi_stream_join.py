"""``MultiStreamJoin`` as a user meets it: names, windows, late rows, nulls, refusals, metrics, stash, threads."""

from __future__ import annotations

import gc
import re
import threading
from itertools import permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm

SCHEMA = pa.schema([("ts", pa.timestamp("s")), ("k", pa.int64()), ("x", pa.int64())])
STREAMS = {"a": SCHEMA, "b": SCHEMA, "c": SCHEMA}
ON = "a.k = b.k AND b.x BETWEEN c.x - 5 AND c.x + 5"
WINDOW = wm.time_window("10 seconds", ts="ts")


def rows(*values: tuple[int | None, int | None, int | None]) -> pa.Table:
    return pa.table(
        {name: list(column) for name, column in zip(SCHEMA.names, zip(*values, strict=True), strict=True)}, SCHEMA
    )


def join_of(**options: Any) -> wm.MultiStreamJoin:
    return wm.MultiStreamJoin(**{"streams": STREAMS, "on": ON, "window": WINDOW, **options})


def test_columns_are_named_after_their_streams() -> None:
    assert join_of().schema.names == ["a_ts", "a_k", "a_x", "b_ts", "b_k", "b_x", "c_ts", "c_k", "c_x"]


def test_predicates_may_be_objects() -> None:
    on = wm.equal("a.k", "b.k") & wm.band("b.x", "c.x", 5)
    pushed = {"a": rows((0, 1, 0)), "b": rows((1, 1, 10)), "c": rows((2, 9, 15), (2, 9, 16))}
    assert join_of(on=on).push(**pushed).equals(join_of().push(**pushed))
    assert join_of(on=on).push(**pushed)["c_x"].to_pylist() == [15]


def test_every_window_reaches_to_its_last_moment() -> None:
    """Windows: a 4 s, b 2 s, c 9 s. The latest row decides, whichever it is; the last moment belongs to the window.

    seconds   0   1   2   3   4   5
    a         a0              ·   (gone after 4)
    b                 b0  ·   ·       (2 + 2: gone after 4)
    c                         c0  c1
    """
    window = wm.time_window({"a": "4 seconds", "b": "2 seconds", "c": "9 seconds"}, ts="ts")
    join = join_of(window=window)
    found = join.push(a=rows((0, 1, 0)), b=rows((2, 1, 0)), c=rows((4, 0, 0), (5, 0, 0)))
    assert found["c_ts"].cast(pa.int64()).to_pylist() == [4]


def test_count_window_counts_rows_of_its_own_stream() -> None:
    join = join_of(window=wm.count_window({"a": 1, "b": 3, "c": 3}))
    join.push(a=rows((0, 1, 0)))
    join.push(a=rows((0, 2, 0)))  # the first is no longer among the last 1
    assert join.push(b=rows((0, 1, 0), (0, 2, 0)), c=rows((0, 0, 0)))["b_k"].to_pylist() == [2]


@pytest.mark.parametrize("strategy", ["circular", "stashed"])
def test_rows_left_out_are_counted(strategy: str) -> None:
    join = join_of(strategy=strategy)
    join.push(a=rows((100, 1, 0), (None, 1, 0), (100, None, 0)), b=rows((100, 1, 0)), c=rows((100, 0, 0)))
    join.push(a=rows((99, 1, 0), (100, 1, 0)))
    metrics = join.metrics
    assert metrics.rows == {"a": 5, "b": 1, "c": 1}
    assert metrics.null == {"a": 2, "b": 0, "c": 0}
    assert metrics.late == {"a": 1, "b": 0, "c": 0}
    assert metrics.results == 2
    assert metrics.watermark == 100_000_000


def test_late_rows_refuse_the_push_if_wanted() -> None:
    join = join_of(late="error")
    join.push(a=rows((100, 1, 0)), b=rows((100, 1, 0)), c=rows((100, 0, 0)))
    with pytest.raises(wm.LateRowError, match="a stream"):
        join.push(a=rows((99, 1, 0)), b=rows((100, 1, 0)))
    assert join.metrics.rows == {"a": 1, "b": 1, "c": 1}
    assert join.push(b=rows((100, 1, 0))).num_rows == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"streams": {"a": SCHEMA}}, "2 to 8 streams"),
        ({"streams": {f"s{i}": SCHEMA for i in range(9)}}, "2 to 8 streams"),
        ({"streams": {"a": SCHEMA, "A": SCHEMA, "c": SCHEMA}}, "case"),
        ({"streams": {"a": SCHEMA, "b": SCHEMA, "not a name": SCHEMA}}, "letters"),
        ({"streams": [SCHEMA]}, "mapping"),
        ({"on": "a.k = b.k"}, "no condition connects c with a, b"),
        ({"on": "a.k = b.k AND c.x > 3"}, "no condition connects c"),
        ({"on": "a.k = b.k AND b.k = d.k"}, "write a.k or b.k or c.k"),
        ({"on": "a.k = b.nothing AND b.k = c.k"}, "no column 'nothing' in the b stream"),
        ({"on": wm.equal("k")}, "STREAM.COLUMN"),
        ({"on": wm.equal("a.k", "z.k")}, "STREAM.COLUMN"),
        ({"on": 5}, "Spark SQL text"),
        ({"window": "1 minute"}, "time_window"),
        ({"window": wm.time_window("1 minute", ts="x")}, "a.x has type int64"),
        ({"window": wm.time_window(left="1 minute", right="2 minutes", ts="ts")}, "each stream's name"),
        ({"window": wm.time_window({"a": "1 minute"}, ts="ts")}, "a, b, c"),
        ({"window": wm.count_window(5, order_by="nothing")}, "nothing"),
        ({"strategy": "handshake"}, "'auto', 'circular', 'stashed'"),
        ({"structure": "tree"}, "bi_sort"),
        ({"late": "hold"}, "'drop', 'error', 'keep'"),
        ({"cores": 0}, "at least 1"),
        ({"stash_rows": 0}, "at least 1"),
        ({"wiring": ("a", "b")}, "each of the streams' names once: a, b, c"),
        ({"wiring": "abc"}, "each of the streams' names once"),
        ({"wiring": ["a", "b", 3]}, "each of the streams' names once"),
        ({"streams": {"a": SCHEMA.append(pa.field("b_k", pa.int64())), "a_b": SCHEMA}, "on": "a.k = a_b.k"}, "'a_b_k'"),
    ],
)
def test_refusals_say_what_is_allowed_and_the_next_step(options: dict[str, Any], says: str) -> None:
    with pytest.raises(wm.WatersmeetError) as caught:
        join_of(**options)
    text = str(caught.value)
    assert says in text
    assert "allowed: " in text
    assert "next step: " in text


def test_pushes_are_refused_kindly() -> None:
    join = join_of()
    with pytest.raises(wm.SchemaError, match="streams of the join: a, b, c"):
        join.push(d=rows((0, 1, 1)))
    with pytest.raises(wm.SchemaError, match="the schema the join was built with"):
        join.push(a=rows((0, 1, 1)).drop_columns(["x"]))
    join.finish()
    with pytest.raises(wm.SpecificationError, match="after finish"):
        join.push(a=rows((0, 1, 1)))


def test_two_streams_are_many_too() -> None:
    for strategy in ("auto", "circular", "stashed"):
        join = join_of(streams={"a": SCHEMA, "b": SCHEMA}, on="a.k = b.k", strategy=strategy)
        assert join.push(a=rows((0, 1, 2)), b=rows((3, 1, 4))).num_rows == 1


def test_conditions_of_three_streams_alone_connect_them() -> None:
    join = join_of(on="a.k + b.k = c.k")
    found = join.push(a=rows((0, 1, 0), (0, 2, 0)), b=rows((0, 4, 0)), c=rows((0, 5, 0)))
    assert found["a_k"].to_pylist() == [1]


def test_memory_stays_bounded_as_rows_expire() -> None:
    join = join_of(window=wm.count_window(1_000), on="a.k = b.k AND b.k = c.k")
    random = np.random.default_rng(3)
    sizes = []
    for _ in range(60):
        tables = {name: numbers(random, 2_000, 100_000) for name in STREAMS}
        join.push(**tables)
        sizes.append(join.metrics.window_bytes)
    assert max(sizes[30:]) < 2 * max(sizes[10:30])
    assert all(held <= 20_000 for held in join.metrics.window_rows.values())


def numbers(random: np.random.Generator, count: int, keys: int) -> pa.Table:
    values = {
        "ts": np.zeros(count, np.int64),
        "k": random.integers(0, keys, count),
        "x": random.integers(0, keys, count),
    }
    return pa.table({name: pa.array(own, SCHEMA.field(name).type) for name, own in values.items()}, SCHEMA)


# --- the way through the stages ---------------------------------------------------------------------------------------


def test_a_wiring_says_the_way_of_every_row_and_changes_no_result() -> None:
    """a, b and c in a chain: of b's neighbours the next in the ring comes first, and a row of c can only go to b."""
    pushed = {"a": rows((0, 1, 0), (1, 2, 0)), "b": rows((1, 1, 10), (1, 2, 20)), "c": rows((2, 9, 15), (2, 9, 12))}
    expected = join_of().push(**pushed)
    ways = {}
    for wiring in permutations("abc"):
        join = join_of(wiring=wiring)
        found = join.push(**pushed)
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))
        restored = wm.MultiStreamJoin.restore(join.snapshot())
        for text in (join.explain(), restored.explain()):
            ways[wiring] = [line.partition(";")[0] for line in text.splitlines() if line.endswith("work expected")]
        assert ways[wiring][0] == "  a: b (meeting a), c (meeting b)"
        assert ways[wiring][2] == "  c: b (meeting c), a (meeting b)"
    assert ways["a", "b", "c"][1] == "  b: c (meeting b), a (meeting b)"
    assert ways["b", "a", "c"][1] == "  b: a (meeting b), c (meeting b)"


def skewed(random: np.random.Generator, few: bool) -> pa.Table:
    """Return rows whose keys are among 500, or among 100,000."""
    return numbers(random, 1_000, 100_000 if few else 500)


def test_an_equality_that_follows_is_used_where_it_saves_work() -> None:
    """A row of a meets 10 of b, and hardly one of c: with a.k = c.k it looks at c first."""
    on, window = "a.k = b.k AND b.k = c.k", wm.count_window(5_000)
    join, plain = (join_of(on=on, window=window, strategy="circular") for _ in range(2))
    plain._plan.derived.clear()
    random = np.random.default_rng(8)
    assert "a and c, derived: a.k = c.k" in join.explain()
    for _ in range(10):
        tables = {name: skewed(random, few=name == "c") for name in STREAMS}
        found, expected = join.push(**tables), plain.push(**tables)
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))
    assert join.metrics.results > 100
    assert "  a: c (meeting a), b (meeting" in join.explain()
    assert "  a: b (meeting a), c (meeting b)" in plain.explain()
    assert "  index for c" in join.explain().partition("window of c:")[0].partition("window of a:")[2]


# --- the stash -------------------------------------------------------------------------------------------------------


def test_explain_says_why_matches_are_stashed() -> None:
    """a and b hardly ever match, and a row of c meets 20 rows of a: looking at the matches is less work."""
    join = join_of(on="a.k = b.k AND a.x BETWEEN c.x - 500 AND c.x + 500", window=wm.count_window(20_000))
    random = np.random.default_rng(5)
    for _ in range(12):
        join.push(**{name: numbers(random, 2_000, 1_000_000) for name in STREAMS})
    text = join.explain()
    assert "matches of a and b are stashed" in text
    assert "c: the stash of a and b (meeting c)" in text
    assert join.metrics.stash_hits > 0
    assert join.metrics.stash_recomputed == 0


@pytest.mark.parametrize("strategy", ["stashed", "auto"])
def test_a_stash_without_room_for_all_matches_has_the_newest(strategy: Any) -> None:
    """A row of a meets 1 of b, and one of c 400 of a: what the stash has is found there, the rest again."""
    on, window = "a.k = b.k AND a.x BETWEEN c.x - 1000 AND c.x + 1000", wm.count_window(5_000)
    rests = join_of(on=on, window=window, strategy="circular")
    join = join_of(on=on, window=window, strategy=strategy, stash_rows=4_000)
    random = np.random.default_rng(6)
    for _ in range(12):
        tables = {name: numbers(random, 1_000, 25_000).set_column(1, "k", keys(random, 1_000)) for name in STREAMS}
        assert join.push(**tables).num_rows == rests.push(**tables).num_rows
    metrics = join.metrics
    assert 0 < metrics.stash_pairs <= 4_000
    assert metrics.stash_hits > 0
    assert metrics.stash_overwritten > 0
    assert metrics.stash_recomputed > 0
    assert re.search(r"it has room for \d\d% of the matches", join.explain())


def keys(random: np.random.Generator, count: int) -> pa.Array:
    return pa.array(random.integers(0, 5_000, count), SCHEMA.field("k").type)


def test_a_stash_that_is_not_worth_its_while_rests() -> None:
    on, window = "a.k = b.k AND b.k = c.k", wm.count_window(5_000)
    joins = {name: join_of(on=on, window=window, strategy=name, stash_rows=100) for name in ("auto", "stashed")}
    random = np.random.default_rng(6)
    for _ in range(10):
        tables = {name: numbers(random, 1_000, 5_000) for name in STREAMS}
        assert len({join.push(**tables).num_rows for join in joins.values()}) == 1
    assert joins["auto"].metrics.stash_pairs == 0
    assert "no matches are stashed" in joins["auto"].explain()
    assert 0 < joins["stashed"].metrics.stash_pairs <= 100


# --- threads ---------------------------------------------------------------------------------------------------------


def ring_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("watersmeet ring")]


def test_no_thread_is_left() -> None:
    pushed = {"a": rows((0, 1, 0)), "b": rows((1, 1, 10)), "c": rows((2, 9, 15))}
    joins = [join_of(cores=3) for _ in range(3)]
    for join in joins:
        assert join.push(**pushed).num_rows == 1
    assert len(ring_threads()) == 9
    joins[0].finish()
    joins[1].close()
    del joins, join
    gc.collect()
    assert not ring_threads()


def test_an_error_in_a_thread_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no more")

    join = join_of(cores=2)
    join.push(a=rows((0, 1, 0)), b=rows((1, 1, 10)))
    monkeypatch.setattr("watersmeet.engine.multiway.stage.Stages.tables", fail)
    with pytest.raises(MemoryError, match="no more"):
        join.push(c=rows((2, 9, 15)))
    assert not ring_threads()
    with pytest.raises(wm.SpecificationError, match="after a push that failed"):
        join.push(c=rows((2, 9, 15)))


# --- snapshots -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "window", [WINDOW, wm.count_window({"a": 2, "b": 3, "c": 4}, order_by="ts")], ids=["time", "count"]
)
def test_a_restored_join_goes_on_with_any_strategy_and_cores(window: Any) -> None:
    join = join_of(window=window, strategy="stashed", stash_rows=5)
    join.push(a=rows((0, 1, 0), (1, 2, 0)), b=rows((1, 1, 10), (2, 2, 10)))
    saved = join.snapshot()
    expected = join.push(c=rows((2, 9, 15), (30, 9, 15)))
    assert expected.num_rows > 0
    for options in ({}, {"strategy": "circular"}, {"strategy": "auto", "cores": 3}):
        restored = wm.MultiStreamJoin.restore(saved, **options)
        found = restored.push(c=rows((2, 9, 15), (30, 9, 15)))
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))
        assert restored.metrics.rows == join.metrics.rows
        restored.close()


def test_anything_but_a_snapshot_is_refused() -> None:
    saved = join_of().snapshot()
    pair = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on=wm.equal("k"), window=WINDOW).snapshot()
    for blob in (b"", saved[:-1], saved[:50] + b"?" + saved[51:], pair):
        with pytest.raises(wm.SnapshotError):
            wm.MultiStreamJoin.restore(blob)
    with pytest.raises(wm.SnapshotError):
        wm.StreamJoin.restore(saved)
