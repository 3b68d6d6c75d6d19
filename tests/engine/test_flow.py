"""Rows that flow between calls: submitted, joined beside the caller, their pairs polled whenever somebody asks."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import watersmeet as wm
from topologies import (
    PREDICATES,
    SCHEMA,
    TOPOLOGIES,
    WINDOWS,
    disturbed,
    expected,
    ids,
    join_of,
    small_windows,
    stream,
    threads_left,
)
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.stream_window import StreamWindow

THREADED = [topology for topology in TOPOLOGIES if topology != "kang"]
ORDERS = [None, "outer", "inner", wm.relaxed(rows=5), wm.relaxed(rows=3, comparisons=4)]


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    assert threads_left() == []


@given(
    seed=st.integers(0, 1000),
    window=st.sampled_from(sorted(WINDOWS)),
    order=st.sampled_from(ORDERS),
    cores=st.integers(1, 6),
    block_rows=st.sampled_from([1, 5, 100]),
    batch_rows=st.sampled_from([None, None, 20]),
)
@example(seed=0, window="count", order=None, cores=1, block_rows=1, batch_rows=20)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_oracle_each_pair_once_whatever_is_asked_for_between(
    topology: str, seed: int, window: str, order: Any, cores: int, block_rows: int, batch_rows: int | None
) -> None:
    """Submits, polls, pushes, portions and restarts at random: in the order asked for they give the oracle's pairs."""
    options = {"topology": topology, "cores": cores, "order": order, "block_rows": block_rows, "batch_rows": batch_rows}
    on, dice, found = PREDICATES["band"], random.Random(seed), []
    pushes = stream(seed % 40, pushes=8, most_rows=20)
    with small_windows(), disturbed(seed):
        join = join_of(on, WINDOWS[window], **options)
        for left, right in pushes:
            what = dice.random()
            if what < 0.75:
                join.submit(left=left, right=right)
            elif what < 0.9:
                found += ids(join.push(left=left, right=right))
            else:
                found += [pair for some in join.pushes(left=left, right=right) for pair in ids(some)]
            while dice.random() < 0.4:
                found += ids(join.poll())
            if dice.random() < 0.1:
                saved = join.snapshot()
                join.close()
                join = wm.StreamJoin.restore(saved)
        found += ids(join.finish())
        assert join.poll().num_rows == 0
    assert Counter(found) == expected(on, WINDOWS[window], pushes)
    if order in ("outer", "inner"):
        moments = _moments(found, pushes, ordered_by_time="ordered" in window)
        assert [later for later, _ in moments] == sorted(later for later, _ in moments)
        assert order == "outer" or moments == sorted(moments)


def _moments(found: list[tuple[int, int]], pushes: list[Any], *, ordered_by_time: bool) -> list[tuple[int, int]]:
    """Return for each pair when its later and its earlier row arrived."""
    arrived: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for push in pushes:
        rows = [
            (row["ts"] if ordered_by_time else 0, side, place, row["id"])
            for side, table in enumerate(push)
            if table is not None
            for place, row in enumerate(table.select(["id", "ts"]).to_pylist())
        ]
        for _, side, _, number in sorted(rows):
            arrived[side][number] = len(arrived[0]) + len(arrived[1])
    return [tuple(sorted((arrived[0][a], arrived[1][b]), reverse=True)) for a, b in found]  # type: ignore[misc] # two


def rows(first: int, count: int) -> pa.Table:
    number = first + np.arange(count)
    return pa.table({"id": number, "ts": number.astype("datetime64[us]"), "x": 0 * number, "k": number % 2})


@pytest.mark.parametrize("topology", THREADED)
def test_submit_returns_while_rows_are_joined(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    real = StreamWindow.probe

    def held_up(window: StreamWindow, batch: KeyedBatch) -> Any:
        assert go_on.wait(30)
        return real(window, batch)

    monkeypatch.setattr(StreamWindow, "probe", held_up)
    with join_of("left.x = right.x", WINDOWS["time"], topology=topology, cores=2) as join:
        join.submit(left=rows(0, 10), right=rows(0, 10))
        assert join.poll().num_rows == 0
        go_on.set()
        assert join.finish().num_rows == 100


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_pairs_are_there_to_be_polled_when_rows_have_met(topology: str) -> None:
    with join_of("left.x = right.x", WINDOWS["time"], topology=topology, cores=2, block_rows=1) as join:
        join.submit(left=rows(0, 10), right=rows(0, 10))
        found, begin = 0, time.monotonic()
        while found < 100 and time.monotonic() - begin < 10 and not (topology == "handshake" and found):
            found += join.poll().num_rows
        assert found == 100 or (topology == "handshake" and found)
        assert found + join.finish().num_rows == 100
        assert join.metrics.pairs == 100


def flow_until_it_raises(join: wm.StreamJoin) -> None:
    join.submit(left=rows(0, 10), right=rows(0, 10))
    for _ in range(1000):
        time.sleep(0.01)
        assert join.poll().num_rows == 0


@pytest.mark.parametrize("topology", THREADED)
def test_an_error_in_a_core_is_raised_by_the_next_call(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: StreamWindow, batch: KeyedBatch) -> Any:
        raise MemoryError(f"{len(batch)} rows")

    monkeypatch.setattr(StreamWindow, "probe", fail)
    join = join_of("left.x = right.x", WINDOWS["time"], topology=topology, cores=2)
    with pytest.raises(MemoryError, match="10 rows"):
        flow_until_it_raises(join)
    for call in (join.submit, join.poll, join.finish, join.snapshot):
        with pytest.raises(wm.SpecificationError, match="after a push that failed"):
            call()
    join.close()


@pytest.mark.parametrize("topology", THREADED)
def test_submit_waits_while_too_much_is_under_way(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.engine.topologies.low_latency_handshake.EPOCH_BLOCKS", 8)
    probed = 0
    real = StreamWindow.probe

    def slow(window: StreamWindow, batch: KeyedBatch) -> Any:
        nonlocal probed
        time.sleep(0.001)
        probed += 1
        return real(window, batch)

    monkeypatch.setattr(StreamWindow, "probe", slow)
    with join_of("left.x = right.x + 1", WINDOWS["time"], topology=topology, cores=2, block_rows=1) as join:
        for number in range(200):
            join.submit(left=rows(number, 1), right=rows(number, 1))
        assert probed > 100, "most rows have been looked at before the last ones were let in"
        assert join.finish().num_rows == 0


def test_what_is_looked_at_is_at_rest() -> None:
    for topology in TOPOLOGIES:
        with join_of("left.x = right.x", WINDOWS["count"], topology=topology, cores=3, block_rows=2) as join:
            for number in range(20):
                join.submit(left=rows(50 * number, 50), right=rows(50 * number, 50))
                metrics = join.metrics
                assert metrics.left_rows == metrics.right_rows == 50 * (number + 1)
                assert metrics.left_window_rows >= 9
                assert join.explain()
                assert wm.StreamJoin.restore(join.snapshot()).metrics.left_rows == metrics.left_rows


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_poll_lets_rows_in_that_have_waited_long_enough(topology: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("watersmeet.engine.collector.time.monotonic", lambda: now)
    rows = pa.table(
        {"id": range(9), "ts": pa.array(range(9), pa.timestamp("us")), "x": range(9), "k": [0] * 9}, schema=SCHEMA
    )
    with join_of("left.x = right.x", wm.count_window(99), topology=topology, cores=2, batch_seconds=5.0) as join:
        join.submit(left=rows, right=rows)
        assert join.poll().num_rows == 0
        assert join.metrics.left_window_rows == 0, "they wait"
        now = 5.0
        found = join.poll().num_rows
        assert join.metrics.left_window_rows == 9
        found += join.finish().num_rows
    assert found == 9
