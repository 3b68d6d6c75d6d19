"""A team carries out every stretch of a job once, whoever takes it and whenever; who has nothing to do sleeps."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from watersmeet.arrays import Int64s
from watersmeet.kernels import team as teams
from watersmeet.kernels.atomic import add, array_at, load, relax
from watersmeet.kernels.gather import copy_stretch, copy_values
from watersmeet.kernels.sorted_keys import LINE, empty_keys
from watersmeet.kernels.sorting import (
    deal_stretch,
    look_at_stretch,
    merge_stretch,
    merge_stretch_by_two_keys,
    merge_together,
    sort_bucket,
    sort_together,
)
from watersmeet.kernels.team import ALONE, job, run

MEMBERS = [1, 2, 3, 8, 16]
LIMIT = np.iinfo(np.int64)


@job
def count_up(arguments: int, number: int) -> None:
    """Add one to the count of a stretch, and say how large the job's own number is."""
    given = array_at(arguments, 2, np.int64)
    add(given[0] + 8 * number, given[1])


@job
def wait_for_all(arguments: int, number: int) -> None:  # noqa: ARG001 -- all stretches do the same
    """Wait until all stretches have been begun, or for some seconds; count those that have seen it."""
    given = array_at(arguments, 3, np.int64)
    add(given[0], 1)
    for _ in range(1 << 27):
        if load(given[0]) == given[2]:
            add(given[1], 1)
            return
        relax()


@contextmanager
def team_of(members: int, *, shaken: int = 0, least_rows: int = 4) -> Iterator[int]:
    words = teams.new_team(members, least_rows)
    team = teams.address_of(words)
    teams.shake(team, shaken)
    threads = [threading.Thread(target=teams.serve, args=(team, number)) for number in range(1, members)]
    for thread in threads:
        thread.start()
    try:
        yield team
    finally:
        teams.stop(team)
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)


def counted(team: int, stretches: int, by: int) -> list[int]:
    counts = np.zeros(stretches + 1, np.int64)
    given = np.array([counts.ctypes.data, by])
    run(team, count_up(), given, stretches)
    return list(counts.tolist())


@pytest.mark.parametrize("members", MEMBERS)
@pytest.mark.parametrize("shaken", [0, 1, 7])
def test_every_stretch_is_carried_out_once(members: int, shaken: int) -> None:
    with team_of(members, shaken=shaken) as team:
        for number in range(300):
            stretches = number % 41
            assert counted(team, stretches, number) == [number] * stretches + [0]
            if number % 60 == 0:
                time.sleep(0.002)  # they fall asleep


@pytest.mark.parametrize("members", [2, 3])
def test_everybody_takes_part_in_every_job_awake_or_asleep(members: int) -> None:
    with team_of(members) as team:
        for pause in (0.02, 0, 0, 0.02):
            time.sleep(pause)
            begun, seen = np.zeros(1, np.int64), np.zeros(1, np.int64)
            given = np.array([begun.ctypes.data, seen.ctypes.data, members])
            run(team, wait_for_all(), given, members)
            assert seen[0] == members


def test_those_who_find_a_team_busy_work_alone() -> None:
    with team_of(3, shaken=5) as team:
        wrong: list[object] = []

        def work() -> None:
            wrong.extend(number for number in range(200) if counted(team, 9, number) != [number] * 9 + [0])

        callers = [threading.Thread(target=work) for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(60)
        assert wrong == []


def test_idle_members_take_no_time_and_a_stopped_team_is_its_caller() -> None:
    with team_of(4) as team:
        counted(team, 9, 1)
        time.sleep(0.05)
        begin = time.process_time()
        time.sleep(0.2)
        assert time.process_time() - begin < 0.05
        teams.stop(team)
        assert counted(team, 9, 3) == [3] * 9 + [0]
    assert counted(ALONE, 5, 2) == [2] * 5 + [0]


def drawn(seed: int, size: int) -> Int64s:
    """Return keys of some distribution: all alike, few, one frequent, far apart, or with both ends."""
    random = np.random.default_rng(seed)
    return [
        np.full(size, 5, np.int64),
        random.integers(0, 3, size),
        np.where(random.random(size) < 0.9, 7, random.integers(-9, 99, size)),
        random.integers(LIMIT.min, LIMIT.max, size),
        random.choice(np.array([LIMIT.min, -1, 0, LIMIT.max]), size),
    ][seed % 5]


@pytest.mark.parametrize("members", MEMBERS)
def test_oracle_sorting_is_stable_whoever_sorts(members: int) -> None:
    functions = look_at_stretch(), deal_stretch(), sort_bucket()
    with team_of(members, shaken=3) as team:
        for seed in range(15):
            keys = drawn(seed, [0, 1, 9, 200, 3000][seed // 5 + seed % 3])
            order = np.random.default_rng(seed).permutation(len(keys)).astype(np.int32)
            row, in_order = sort_together(team, functions, keys, order)
            assert row.tolist() == order[np.argsort(keys[order], kind="stable")].tolist()
            assert in_order.tolist() == sorted(keys.tolist())


@pytest.mark.parametrize("has_equality", [False, True])
@pytest.mark.parametrize("members", MEMBERS)
def test_oracle_two_arrays_become_one_with_its_index(members: int, has_equality: bool) -> None:
    with team_of(members, shaken=3) as team:
        for seed, (left, right) in enumerate([(0, 0), (0, 70), (1, 0), (64, 64), (700, 5), (5, 700), (900, 1500)] * 3):
            parts = [(drawn(seed + 1, size), drawn(seed, size)) for size in (left, right)]
            runs = []
            for key, equality in parts:
                order = np.lexsort((key, equality)) if has_equality else np.argsort(key, kind="stable")
                runs.append((key[order], equality[order]))
            (key_a, equality_a), (key_b, equality_b) = runs
            size = left + right
            lines = -(-size // LINE)
            sizes = (size, lines, -(-lines // LINE))
            key, index, top = (empty_keys(some) for some in sizes)
            others = [empty_keys(some) for some in sizes] if has_equality else []
            row, rows = np.empty(size, np.int32), np.arange(size, dtype=np.int32)
            words = [
                left,
                right,
                0,
                *map(teams.address_of, (key_a, key_b, rows[:left], rows[left:], key, row, index, top)),
            ]
            if has_equality:
                words += map(teams.address_of, (equality_a, equality_b, *others))
            job_of = merge_stretch_by_two_keys if has_equality else merge_stretch
            merge_together(team, job_of(), np.array(words, np.int64))
            together, by = np.concatenate((key_a, key_b)), np.concatenate((equality_a, equality_b))
            order = np.lexsort((together, by)) if has_equality else np.argsort(together, kind="stable")
            assert row.tolist() == order.tolist()
            padding = [LIMIT.max] * LINE
            for values, levels in ((together, [key, index, top]), (by, others)):
                for step, level in zip((1, LINE, LINE * LINE), levels, strict=False):
                    assert level.tolist() == values[order][::step].tolist() + padding


@pytest.mark.parametrize("members", MEMBERS)
def test_columns_are_copied_whole(members: int) -> None:
    random = np.random.default_rng(3)
    with team_of(members, shaken=3) as team:
        for rows in (1, 5, 1000):
            sources = [np.frombuffer(random.bytes(rows * width), np.uint8) for width in (1, 8, 16)]
            targets = [np.zeros(len(source) + 1, np.uint8) for source in sources]
            words = [
                (source.ctypes.data, target.ctypes.data, len(source) // rows)
                for source, target in zip(sources, targets, strict=True)
            ]
            copy_values(team, copy_stretch(), np.array(words, np.int64), rows)
            for source, target in zip(sources, targets, strict=True):
                assert target.tobytes() == source.tobytes() + b"\0"
