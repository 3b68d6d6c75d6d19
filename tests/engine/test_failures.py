"""Errors, slow callers and early ends: the caller gets the error or the result, and no thread is left."""

from __future__ import annotations

import gc
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from topologies import PREDICATES, TOPOLOGIES, WINDOWS, expected, ids, join_of, run, stream, threads_left
from watersmeet.engine.threads import Crew
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.stream_window import StreamWindow

THREADED = TOPOLOGIES[1:]


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    gc.collect()
    assert threads_left() == []


def rows(first: int, count: int) -> pa.Table:
    number = np.arange(first, first + count)
    moments = pa.array(number, pa.timestamp("us"))
    return pa.table({"id": number, "ts": moments, "x": number % 50, "k": number % 2})


def push_again_and_again(join: wm.StreamJoin) -> None:
    for number in range(1, 6):
        join.push(left=rows(40 * number, 40), right=rows(40 * number, 40))


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("where", ["insert", "_inside"])
def test_an_error_in_a_core_reaches_the_caller(topology: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    join = join_of(PREDICATES["band"], WINDOWS["count"], topology=topology, cores=4, block_rows=8)
    join.push(left=rows(0, 40), right=rows(0, 40))
    real = getattr(StreamWindow, where)
    left_to_do, lock = iter(range(5)), threading.Lock()

    def fail(window: StreamWindow, *given: Any) -> Any:
        with lock:
            if next(left_to_do, None) is None:
                raise MemoryError("no room")
        return real(window, *given)

    monkeypatch.setattr(StreamWindow, where, fail)
    with pytest.raises(MemoryError, match="no room"):
        push_again_and_again(join)
    assert threads_left() == []
    monkeypatch.undo()
    for call in (join.push, join.finish, join.snapshot):
        with pytest.raises(wm.SpecificationError, match="after a push that failed"):
            call()
    join.close()


@pytest.mark.parametrize("topology", THREADED)
def test_threads_begin_with_the_first_push_and_end_with_finish(topology: str) -> None:
    join = join_of(PREDICATES["band"], WINDOWS["time"], topology=topology, cores=4, structure="scan")
    assert threads_left() == []
    assert wm.StreamJoin.restore(join.snapshot()).metrics.left_rows == 0
    assert threads_left() == []
    join.push(left=rows(0, 500), right=rows(0, 500))
    assert len(threads_left()) >= 3
    join.finish()
    assert threads_left() == []
    assert wm.StreamJoin.restore(join.snapshot()).metrics.left_rows == 500


@pytest.mark.parametrize("topology", THREADED)
def test_threads_end_with_the_join_itself(topology: str) -> None:
    join = join_of(PREDICATES["band"], WINDOWS["time"], topology=topology, cores=4, structure="scan")
    join.push(left=rows(0, 500), right=rows(0, 500))
    del join
    gc.collect()
    assert threads_left() == []
    with join_of(PREDICATES["band"], WINDOWS["time"], topology=topology, cores=4, structure="scan") as join:
        join.push(left=rows(0, 500), right=rows(0, 500))
        assert threads_left() != []
    assert threads_left() == []
    with pytest.raises(wm.SpecificationError, match=r"close\(\)"):
        join.push(left=rows(500, 1))


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_finish_in_the_middle_gives_the_pairs_of_what_was_pushed(topology: str) -> None:
    on, pushes = PREDICATES["band"], stream(11, most_rows=20)
    for stop in range(len(pushes)):
        join = join_of(on, WINDOWS["count"], topology=topology, cores=3, block_rows=2)
        assert run(join, pushes[:stop]) == expected(on, WINDOWS["count"], pushes[:stop])


@pytest.mark.parametrize("topology", THREADED)
def test_while_a_caller_is_slow_nothing_runs_and_nothing_grows(topology: str) -> None:
    with join_of(PREDICATES["band"], wm.count_window(100), topology=topology, cores=4, structure="scan") as join:
        join.push(left=rows(0, 300), right=rows(0, 300))
        held = join.metrics.window_bytes
        begin = time.process_time()
        time.sleep(0.2)
        assert time.process_time() - begin < 0.1, "threads sleep while there is nothing to do"
        assert join.metrics.window_bytes == held


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize(
    "window", [wm.count_window(1000), wm.time_window("1 millisecond", ts="ts")], ids=["count", "time"]
)
def test_memory_is_bounded_by_the_windows(topology: str, window: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watersmeet.window.creation.SMALLEST_SEGMENT", 64)
    monkeypatch.setattr("watersmeet.engine.topologies.stretch.SMALLEST_WINDOW", 64)
    most = 0
    with join_of("left.x = right.x + 1000", window, topology=topology, cores=4) as join:
        for number in range(60):
            join.push(left=rows(500 * number, 500), right=rows(500 * number, 500))
            most = max(most, join.metrics.left_window_rows)
    assert 1000 <= most <= 4000, "of 30,000 rows pushed"


@pytest.mark.parametrize("topology", ["handshake", "splitjoin"])
def test_the_caller_waits_while_the_cores_are_behind(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    join = join_of(PREDICATES["band"], WINDOWS["count"], topology=topology, cores=2, block_rows=1)
    inboxes, waiting = join._topology._crew._inboxes, []  # type: ignore[attr-defined] # both have one
    real = StreamWindow.probe

    def slow(window: StreamWindow, batch: KeyedBatch) -> Any:
        time.sleep(0.0005)
        waiting.append(max(len(lane) for inbox in inboxes for lane in inbox._lanes))
        return real(window, batch)

    monkeypatch.setattr(StreamWindow, "probe", slow)
    join.push(left=rows(0, 200), right=rows(0, 200))
    join.close()
    assert 8 <= max(waiting) <= 80, "of 400 messages"


def test_a_crew_stops_its_senders_too() -> None:
    crew = Crew()

    def fail(_: int, message: int) -> None:
        raise ValueError(f"message {message}")

    inbox = crew.hire("watersmeet test", fail, capacity=1)
    with pytest.raises(ValueError, match="message 0"):
        deque(map(inbox.put, range(1000)))
    with pytest.raises(ValueError, match="message 0"):
        crew.wait_until_quiet()
    crew.close()
    crew.close()


def test_ids_are_unaffected_by_blocks_larger_than_a_push() -> None:
    join = join_of("left.id = right.id", WINDOWS["time"], topology="splitjoin", cores=2, block_rows=10**6)
    assert sorted(ids(join.push(left=rows(0, 9), right=rows(0, 9)))) == [(n, n) for n in range(9)]
    join.close()
