"""Outer, semi and anti joins: what meets nobody comes out once, and as soon as it is certain."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import watersmeet as wm
from topologies import (
    PREDICATES,
    SCHEMA,
    TOPOLOGIES,
    WINDOWS,
    disturbed,
    expected,
    ids_of_kind,
    join_of,
    small_windows,
    stream,
    threads_left,
)
from watersmeet.engine import sections as layout
from watersmeet.engine import snapshot
from watersmeet.spec.kinds import How
from watersmeet.spec.window import TimeWindow, Window

KINDS = get_args(How)
OUTER = [how for how in KINDS if how not in ("inner", "semi")]
SCHEMAS = {"left": SCHEMA, "right": SCHEMA}
ORDERS = [None, None, "outer", "inner", wm.relaxed(rows=5), wm.relaxed(rows=3, comparisons=4)]
CONDITIONS = {**PREDICATES, "conditions of each side": "left.x = right.x AND left.k = 0 AND right.x > 2"}


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    assert threads_left() == []


def truth(how: str, on: str, window: Window, pushes: list[Any]) -> Counter[tuple[Any, Any]]:
    return oracle.of_kind(how, expected(on, window, pushes), window, pushes)


@given(
    seed=st.integers(0, 1000),
    how=st.sampled_from(KINDS),
    window=st.sampled_from(sorted(WINDOWS)),
    on=st.sampled_from(sorted(CONDITIONS)),
    order=st.sampled_from(ORDERS),
    cores=st.integers(1, 5),
    block_rows=st.sampled_from([1, 5, 100]),
    batch_rows=st.sampled_from([None, None, 20]),
    values=st.sampled_from([4, 12, 40]),
)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_oracle_every_result_once_whatever_is_asked_for_between(
    topology: str, seed: int, how: str, window: str, on: str, order: Any, cores: int, values: int, **given: Any
) -> None:
    """Submits, polls, pushes, portions and restarts, also as another topology, at random."""
    options = {"topology": topology, "cores": cores, "order": order, **given}
    dice, found = random.Random(seed), []
    pushes = stream(seed % 40, pushes=7, most_rows=14, values=values)
    with small_windows(), disturbed(seed), pytest.MonkeyPatch.context() as patch:
        patch.setattr("watersmeet.engine.waiting.FAN_IN", 2)
        patch.setattr("watersmeet.engine.waiting.NEWEST_PUSHES", dice.choice([1, 2]))
        patch.setattr("watersmeet.engine.unmatched.FLOWING_ROWS", dice.choice([1, 30, 1 << 17]))
        patch.setattr("watersmeet.engine.marks.LEAST_NUMBERS", dice.choice([1, 64]))
        patch.setattr("watersmeet.engine.marks.SPARSE", dice.choice([0, 2]))
        join = join_of(CONDITIONS[on], WINDOWS[window], how=how, **options)
        for left, right in pushes:
            what = dice.random()
            if what < 0.6:
                found += ids_of_kind(join.push(left=left, right=right))
            elif what < 0.85:
                join.submit(left=left, right=right)
            else:
                found += [pair for some in join.pushes(left=left, right=right) for pair in ids_of_kind(some)]
            while dice.random() < 0.3:
                found += ids_of_kind(join.poll())
            if dice.random() < 0.15:
                saved = join.snapshot()
                other = dice.choice([{}, {"topology": dice.choice(TOPOLOGIES), "cores": dice.randint(1, 3)}])
                if dice.random() < 0.5:
                    join.close()
                    join = wm.StreamJoin.restore(saved, **other)
        found += ids_of_kind(join.finish())
        assert join.poll().num_rows == 0
        assert join.metrics.pairs == len(found)
    assert Counter(found) == truth(how, CONDITIONS[on], WINDOWS[window], pushes)


# --- when -------------------------------------------------------------------------------------------------------------


def certain_after(window: Window, pushes: list[Any], watermarks: list[int | None]) -> dict[tuple[Any, Any], int]:
    """Return for each row, as a result without a partner, after how many pushes no row to come can meet it."""
    history = [tuple(oracle.rows_of(side, table) for side, table in zip(SCHEMAS, push, strict=True)) for push in pushes]
    lengths = {"left": window.left, "right": window.right}
    came = oracle.in_order({side: getattr(window, "order_by", None) for side in SCHEMAS}, history)
    after = {}
    for i, side in enumerate(SCHEMAS):
        counts = np.cumsum([len(push[i]) for push in history])
        pushed = {row[side, "id"]: number for number, push in enumerate(history) for row in push[i]}
        for row in came[i]:
            if row[side, "x"] is None or row[side, "ts"] is None:
                when = pushed[row[side, "id"]]
            elif isinstance(window, TimeWindow):
                end = (row[side, "ts"] + oracle.constant(lengths[side])) * 10**6
                when = sum(watermark is None or watermark <= end for watermark in watermarks)
            else:
                when = int(np.sum(counts - row[side, "#"][i] <= lengths[side]))
            after[(row[side, "id"], None) if i == 0 else (None, row[side, "id"])] = when + 1
    return after


@given(
    topology=st.sampled_from(TOPOLOGIES),
    seed=st.integers(0, 1000),
    how=st.sampled_from(OUTER),
    window=st.sampled_from(sorted(WINDOWS)),
    order=st.sampled_from([None, "outer"]),
)
def test_oracle_a_row_comes_out_with_the_push_after_which_it_is_certain(
    topology: Any, seed: int, how: Any, window: str, order: Any
) -> None:
    """No push sooner, and no push later; in ``handshake``, where rows meet as they move, no sooner."""
    pushes = stream(seed % 40, pushes=7, most_rows=14, values=40)
    came: dict[tuple[Any, Any], int] = {}
    watermarks: list[int | None] = []
    with small_windows(), join_of(PREDICATES["band"], WINDOWS[window], how=how, topology=topology, order=order) as join:
        for number, (left, right) in enumerate(pushes, 1):
            came |= dict.fromkeys(ids_of_kind(join.push(left=left, right=right)), number)
            watermarks.append(join.metrics.watermark)
    after = certain_after(WINDOWS[window], pushes, watermarks)
    alone = [result for result in truth(how, PREDICATES["band"], WINDOWS[window], pushes) if None in result]
    for result in alone:
        now, due = came.get(result, len(pushes) + 1), after[result]  # the rest would come with finish
        assert now == due if topology != "handshake" else now >= due


def rows(moments: list[int], x: int | None = 0, first: int = 0) -> pa.Table:
    count = len(moments)
    ids = range(first, first + count)
    moments = [moment * 1_000_000 for moment in moments]
    return pa.table({"id": ids, "ts": moments, "x": [x] * count, "k": [0] * count}, schema=SCHEMA)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_match_at_the_last_possible_moment_in_time(topology: str) -> None:
    """A left row stays for 8 seconds, both ends included.

    seconds      0  1  2  3  4  5  6  7  8  9
    left         L                       l        l and r only move the watermark
    right                                R r
    watermark                            ^        at 8, L can still be met: R comes, and does
    """
    options = {"how": "full", "topology": topology, "cores": 2, "block_rows": 1}
    for meets in (True, False):
        with join_of("left.x = right.x", WINDOWS["time"], **options) as join:
            found = ids_of_kind(join.push(left=rows([0])))
            found += ids_of_kind(join.push(left=rows([8], x=1, first=1), right=rows([8], x=2, first=1)))
            assert found == [], "the watermark is 8"
            found += ids_of_kind(join.push(right=rows([8], x=0 if meets else 3, first=2)))
            found += ids_of_kind(join.push(left=rows([9], x=4, first=3), right=rows([9], x=5, first=3)))
            if topology != "handshake":
                assert found == ([(0, 2)] if meets else [(0, None)])
            found += ids_of_kind(join.finish())
        assert ((0, 2) in found) == meets
        assert ((0, None) in found) == (not meets)
        assert len(found) == (5 if meets else 6)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_match_at_the_last_possible_moment_by_count(topology: str) -> None:
    """The window holds the last two left rows.

    arrival      0  1  2  3
    left         L  l     l      after the third left row, L can be met no more
    right              R         comes while L is the oldest of two
    """
    options = {"how": "full", "topology": topology, "cores": 2, "block_rows": 1}
    for meets in (True, False):
        with join_of("left.x = right.x", wm.count_window(2), **options) as join:
            found = ids_of_kind(join.push(left=rows([0])))
            found += ids_of_kind(join.push(left=rows([0], x=1, first=1)))
            assert found == []
            found += ids_of_kind(join.push(right=rows([0], x=0 if meets else 3, first=2)))
            found += ids_of_kind(join.push(left=rows([0], x=4, first=3)))
            if topology != "handshake":
                assert found == ([(0, 2)] if meets else [(0, None)])
            found += ids_of_kind(join.finish())
        assert ((0, 2) in found) == meets
        assert ((0, None) in found) == (not meets)


# --- order, and results that nobody took ------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("how", ["full", "semi"])
def test_pairs_keep_their_order_and_rows_without_a_partner_follow(topology: str, how: str) -> None:
    """A semi join's rows come in the order of their first matches."""
    for seed in range(3):
        pushes = stream(seed, pushes=4, most_rows=20, values=30)
        on, window = PREDICATES["band"], WINDOWS["time"]
        with disturbed(seed), join_of(on, window, how=how, topology=topology, order="inner", cores=3) as join:
            tables = [ids_of_kind(join.push(left=left, right=right)) for left, right in pushes]
            tables.append(ids_of_kind(join.finish()))
        arrived = oracle.in_order(
            {"left": None, "right": None},
            [[oracle.rows_of(s, t) for s, t in zip(SCHEMAS, push, strict=True)] for push in pushes],
        )
        moment = [{row[side, "id"]: sum(row[side, "#"]) for row in arrived[i]} for i, side in enumerate(SCHEMAS)]
        pairs = expected(on, window, pushes)
        in_order = sorted(pairs, key=lambda pair: sorted((moment[0][pair[0]], moment[1][pair[1]]), reverse=True))
        if how == "semi":
            assert [a for table in tables for a, _ in table] == list(dict.fromkeys(a for a, _ in in_order))
            continue
        assert [pair for table in tables for pair in table if None not in pair] == in_order
        for table in tables:
            met = [None not in pair for pair in table]
            assert met == sorted(met, reverse=True), "pairs come first"


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_with_an_order_rows_without_a_partner_come_as_they_arrived(topology: str) -> None:
    """Those of each side, behind rows that could meet nobody; in time they lie in another order."""
    pushes = stream(seed=5, pushes=4, most_rows=20, values=400)
    options = {"how": "full", "topology": topology, "order": "outer", "cores": 2}
    with join_of("left.x = right.x", WINDOWS["time"], **options) as join:
        tables = [ids_of_kind(join.push(left=left, right=right)) for left, right in pushes]
        tables.append(ids_of_kind(join.finish()))
    for i, side in enumerate(SCHEMAS):
        rows = [row for push in pushes for row in oracle.rows_of(side, push[i])]
        could_meet = {row[side, "id"] for row in rows if row[side, "x"] is not None}
        for table in tables:
            alone = [pair[i] for pair in table if None in pair and pair[i] is not None]
            could = [number in could_meet for number in alone]
            assert could == sorted(could)
            arrived = [number for number in alone if number in could_meet]
            assert arrived == sorted(arrived), "ids grow as rows arrive"
        assert sum(None in pair and pair[i] is not None for table in tables for pair in table) > 10


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_what_flows_on_and_is_never_polled_gives_out_its_rows(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that met nobody are not held until the end, however long it is that nothing comes to rest."""
    monkeypatch.setattr("watersmeet.engine.unmatched.FLOWING_ROWS", 200)
    with join_of("left.x = right.x", wm.count_window(50), how="anti", topology=topology, cores=2) as join:
        for number in range(40):
            join.submit(left=rows([0] * 20, first=20 * number), right=rows([0] * 20, x=1))
        held = len(join._pairing._unmatched._waiting["left"].numbers())  # type: ignore[union-attr]
        assert held <= 50 + 200 + (256 if topology == "handshake" else 0)
        assert len(set(ids_of_kind(join.poll()) + ids_of_kind(join.finish()))) == 800


@pytest.mark.parametrize("how", OUTER)
def test_an_interrupt_leaves_the_join_failed(how: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that met nobody are owed as pairs are: nobody gets them twice, and a failed join says so."""
    join = join_of(PREDICATES["band"], WINDOWS["time"], how=how)
    join.push(left=rows([0, 1]), right=rows([20, 21], x=9))

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("watersmeet.engine.unmatched.unmatched_rows", interrupted)
    with pytest.raises(KeyboardInterrupt):
        join.push(left=rows([40], x=5, first=7), right=rows([60], x=7, first=7))
    monkeypatch.undo()
    with pytest.raises(wm.SpecificationError, match="after a push that failed"):
        join.finish()


def test_portions_that_nobody_took_come_with_the_next_push() -> None:
    with join_of("left.x = right.x", WINDOWS["time"], how="full") as join:
        join.pushes(left=rows([0, 1], x=None, first=5), right=rows([0], x=3))
        later = join.push(left=rows([50], x=4, first=9), right=rows([50], x=6, first=9))
        found = ids_of_kind(later) + ids_of_kind(join.finish())
    assert sorted(map(str, found)) == sorted(map(str, [(5, None), (6, None), (None, 0), (9, None), (None, 9)]))


# --- snapshots --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_snapshot_changes_nothing_and_says_who_waits(topology: str) -> None:
    """A chain finds pairs for its snapshot that it finds once more itself: no row of a semi join is lost by that."""
    for how in KINDS:
        pushes = stream(3, pushes=6, most_rows=20, values=12)
        on, window = PREDICATES["band"], WINDOWS["count"]
        with join_of(on, window, how=how, topology=topology, cores=3, block_rows=2) as join:
            found: Counter[Any] = Counter()
            for left, right in pushes:
                found.update(ids_of_kind(join.push(left=left, right=right)))
                blob = join.snapshot()
                assert wm.StreamJoin.restore(blob).schema == join.schema
            found.update(ids_of_kind(join.finish()))
            assert found == truth(how, on, window, pushes)
            assert wm.StreamJoin.restore(join.snapshot()).finish().num_rows == 0, "all has been given out"


def test_a_kind_that_does_not_fit_its_format_is_refused() -> None:
    join = join_of(PREDICATES["band"], WINDOWS["time"], how="left")
    join.push(left=rows([0]), right=rows([0]))
    blob = join.snapshot()
    _, sections = layout.read_sections(snapshot.MAGIC, (snapshot.WAITING_VERSION,), blob)
    for how in ("inner", "outer"):
        other = [sections[0].replace(b'"how":"left"', f'"how":"{how}"'.encode()), *sections[1:]]
        with pytest.raises(wm.SnapshotError, match="how="):
            wm.StreamJoin.restore(layout.write_sections(snapshot.MAGIC, snapshot.WAITING_VERSION, other))
    with pytest.raises(wm.SnapshotError):
        wm.StreamJoin.restore(layout.write_sections(snapshot.MAGIC, snapshot.VERSION, sections))


@pytest.mark.parametrize("topology", ["splitjoin", "low_latency_handshake", "panjoin"])
def test_cores_whose_rows_have_numbers_in_any_order_are_restored(topology: str) -> None:
    """The first core's rows need not be the oldest: those of the others still wait."""
    options = {"how": "anti", "topology": topology, "cores": 3}
    with join_of("left.x = right.x", wm.count_window(9), **options) as join:
        join.push(left=rows([0] * 8))
        saved = snapshot.read_snapshot(join.snapshot())
    turned = replace(
        saved,
        segments={side: some[::-1] for side, some in saved.segments.items()},
        waiting={side: some[::-1] for side, some in saved.waiting.items()},
    )
    for other in TOPOLOGIES:
        with wm.StreamJoin.restore(snapshot.write_snapshot(turned), topology=other) as restored:
            assert sorted(restored.finish()["id"].to_pylist()) == list(range(8))


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_numbers_of_slices_of_time_come_in_any_order(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an order rows are numbered as they arrive, and then joined in the order of time: here backwards."""
    monkeypatch.setattr("watersmeet.engine.marks.LEAST_NUMBERS", 1)
    monkeypatch.setattr("watersmeet.engine.marks.SPARSE", 0)
    pushes = [(rows(list(range(60, 0, -1))), rows(list(range(60, 0, -2))))]
    for topology in TOPOLOGIES:
        window = wm.time_window("1 microsecond", ts="ts")
        with small_windows(), join_of("left.x = right.x", window, how=how, topology=topology, order="inner") as join:
            found = Counter(ids_of_kind(join.push(left=pushes[0][0], right=pushes[0][1])))
            found.update(ids_of_kind(join.finish()))
        assert found == truth(how, "left.x = right.x", window, pushes)
