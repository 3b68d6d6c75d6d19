"""Results do not depend on a join's threads: not on their number, not on who does what, and not on other joins."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from topologies import PREDICATES, WINDOWS, disturbed, expected, join_of, run, small_windows, stream, threads_left
from watersmeet.engine.team import LEAST_ROWS, Team
from watersmeet.kernels.team import stretches
from watersmeet.spec.window import Window
from watersmeet.window.stream_window import StreamWindow

BY_KEYS = ["band", "equality", "equality and band"]
CHECKED = {
    "band": PREDICATES["band"],
    "equality and band": PREDICATES["equality and band"],
    "a check after the search": f"{PREDICATES['band']} AND left.k = right.k",
    "ranges of which one must hold": f"{PREDICATES['band']} AND left.k <> right.k",
}


def found(join: wm.StreamJoin, pushes: list[tuple[pa.Table, pa.Table]]) -> list[pa.Table]:
    with join:
        return [*(join.push(left=left, right=right).combine_chunks() for left, right in pushes), join.finish()]


@pytest.mark.parametrize("window", ["time", "count"])
def test_thousands_of_schedules_give_the_same_results_in_the_same_order(window: str) -> None:
    """One to sixteen threads, each delayed at random before every stretch of a few rows."""
    with small_windows():
        for seed in range(12):
            pushes = stream(seed, most_rows=60)
            for name in BY_KEYS:
                options: dict[str, Any] = {"topology": "panjoin", "structure": "bi_sort"}
                alone = found(join_of(PREDICATES[name], WINDOWS[window], **options, cores=1), pushes)
                for cores in (2, 5, 16)[seed % 3 :: 3]:
                    with disturbed(seed):
                        together = found(join_of(PREDICATES[name], WINDOWS[window], **options, cores=cores), pushes)
                    assert together == alone, (name, seed, cores)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("on", CHECKED)
def test_oracle_sorted_arrays_meet_a_batch_together(on: str, window: str) -> None:
    """Every check, in arrays of several segments, by threads that have a few probes each."""
    for seed in range(3):
        pushes = stream(seed, most_rows=30)
        with small_windows(), disturbed(seed):
            join = join_of(CHECKED[on], WINDOWS[window], topology="panjoin", structure="bi_sort", cores=1 + seed)
            assert run(join, pushes) == expected(CHECKED[on], WINDOWS[window], pushes)


def same_keys(first: int, count: int, second: int) -> pa.Table:
    """Return rows of one key and one timestamp, as :func:`stream` gives them."""
    times = pa.array([second * 1_000_000] * count, pa.timestamp("us"))
    return pa.table({"id": np.arange(first, first + count), "ts": times, "x": [1] * count, "k": [1] * count})


ORDERED = wm.count_window(left=5, right=12, order_by="ts")


@pytest.mark.parametrize(
    ("window", "pushes"),
    [
        pytest.param(ORDERED, [(same_keys(0, 1, 2), same_keys(0, 30, 1))], id="a left row directly behind many right"),
        pytest.param(ORDERED, [(same_keys(0, 30, 1), same_keys(0, 1, 2))], id="a right row directly behind many left"),
        pytest.param(
            WINDOWS["time"],
            [
                (same_keys(0, 6, 0), same_keys(0, 1, 0)),  # a segment to learn from: the next one has small steps
                (same_keys(6, 6, 7), None),
                (same_keys(12, 6, 20), None),
                (same_keys(18, 6, 40), same_keys(1, 1, 40)),
                (None, same_keys(2, 6, 40)),
            ],
            id="rows that have left the segment of others",
        ),
    ],
)
def test_oracle_rows_at_the_end_of_a_window(
    window: Window, pushes: list[tuple[pa.Table | None, pa.Table | None]]
) -> None:
    with small_windows():
        for cores in (1, 3):
            join = join_of(PREDICATES["band"], window, topology="panjoin", structure="bi_sort", cores=cores)
            assert run(join, pushes) == expected(PREDICATES["band"], window, pushes)


def test_a_team_cuts_rows_into_stretches_until_it_is_closed() -> None:
    for members in (1, 2, 5):
        team = Team(members)
        assert stretches(team.address, 10**6) == (4 * members if members > 1 else 1)
        assert stretches(team.address, 2 * LEAST_ROWS - 1) == 1
        team.close()
        assert stretches(team.address, 10**6) == 1


def rows(first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    return pa.table({"key": (numbers * 7919) % 1000, "ts": pa.array(numbers, pa.timestamp("us")), "at": numbers})


def join_of_keys(cores: int) -> wm.StreamJoin:
    schema = rows(0, 1).schema
    window = wm.time_window("5 milliseconds", ts="ts")
    return wm.StreamJoin(
        left=schema, right=schema, on=wm.band("key", "key", 1), window=window, structure="bi_sort", cores=cores
    )


def pairs(cores: int, pushes: int = 4) -> list[pa.Table]:
    given = [(rows(4000 * number, 4000), rows(4000 * number, 4000)) for number in range(pushes)]
    return found(join_of_keys(cores), given)


def test_large_pushes_give_the_same_bytes_on_any_number_of_cores() -> None:
    alone = pairs(1)
    assert sum(table.num_rows for table in alone) > 10_000
    for cores in range(2, 17, 2):
        assert pairs(cores) == alone


def test_rows_that_meet_hundreds_are_found_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """More candidates than a piece of work gives at once, in a window that rows have left."""
    monkeypatch.setattr("watersmeet.engine.team.LEAST_ROWS", 2)  # eight pieces for two cores
    counts = {}
    for structure, cores in (("wib_tree", 1), ("bi_sort", 1), ("bi_sort", 2)):
        window = wm.time_window("300 microseconds", ts="ts")
        schema = rows(0, 1).schema
        join = wm.StreamJoin(
            left=schema, right=schema, on="left.key >= right.key - 400 AND left.key <= right.key + 400",
            window=window, structure=structure, cores=cores,
        )  # fmt: skip
        given = [(rows(200 * number, 200), rows(200 * number, 200)) for number in range(4)]
        together = pa.concat_tables(found(join, given))
        counts[structure, cores] = sorted(
            zip(together["left_at"].to_pylist(), together["right_at"].to_pylist(), strict=True)
        )
    assert len(counts["wib_tree", 1]) > 16 * 200 * 2 * 4 + 4096
    assert counts["bi_sort", 1] == counts["wib_tree", 1] == counts["bi_sort", 2]


def test_two_joins_in_two_threads_do_not_disturb_each_other() -> None:
    alone = pairs(1)
    different: list[int] = []

    def work() -> None:
        different.extend(number for number in range(3) if pairs(3) != alone)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert different == []
    assert threads_left() == []


def test_a_child_forked_while_threads_exist_joins_by_itself() -> None:
    alone = pairs(2)
    with join_of_keys(4) as join:
        join.push(left=rows(0, 4000), right=rows(0, 4000))
        assert len(threads_left()) >= 3
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os._exit(0 if pairs(2) == alone else 1)
        assert os.waitpid(child, 0)[1] == 0
        join.push(left=rows(4000, 4000), right=rows(4000, 4000))
    assert threads_left() == []


def test_an_error_inside_a_push_ends_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    join = join_of_keys(4)
    join.push(left=rows(0, 4000), right=rows(0, 4000))
    assert threads_left() != []

    def fail(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(StreamWindow, "insert", fail)
    with pytest.raises(MemoryError, match="no room"):
        join.push(left=rows(4000, 4000), right=rows(4000, 4000))
    assert threads_left() == []


def test_threads_sleep_between_pushes_and_end_with_a_forgotten_join() -> None:
    join = join_of_keys(4)
    join.push(left=rows(0, 4000), right=rows(0, 4000))
    time.sleep(0.05)
    begin = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - begin < 0.1
    assert len(threads_left()) >= 3
    join.close()
    assert threads_left() == []
    join = join_of_keys(4)
    join.push(left=rows(0, 4000), right=rows(0, 4000))
    del join
    gc.collect()
    assert threads_left() == []
