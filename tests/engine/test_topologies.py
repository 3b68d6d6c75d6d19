"""Every topology gives the oracle's pairs: structures, windows, cores, block sizes, disturbed threads, restarts."""

from __future__ import annotations

import itertools

import pytest
from topologies import (
    PREDICATES,
    TOPOLOGIES,
    WINDOWS,
    disturbed,
    expected,
    ids,
    join_of,
    run,
    small_windows,
    stream,
    threads_left,
)

import watersmeet as wm
from strategies import STRUCTURES

BLOCKS = (1, 7, 128)
CASES = list(itertools.product(STRUCTURES, WINDOWS, range(1, 9), BLOCKS))


@pytest.fixture(autouse=True)
def _no_thread_left() -> object:
    yield
    assert threads_left() == []


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("part", range(8))
def test_oracle_structures_windows_cores_and_blocks(topology: str, part: int) -> None:
    with small_windows():
        for number, (structure, window, cores, block_rows) in enumerate(CASES[part::8]):
            on = list(PREDICATES.values())[number % len(PREDICATES)]
            pushes = stream(seed=number)
            join = join_of(
                on, WINDOWS[window], topology=topology, structure=structure, cores=cores, block_rows=block_rows
            )
            assert run(join, pushes) == expected(on, WINDOWS[window], pushes), (structure, window, cores, block_rows)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("window", WINDOWS)
def test_oracle_disturbed_threads(topology: str, window: str) -> None:
    check_disturbed(topology, window, range(5))


@pytest.mark.long
@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("window", WINDOWS)
def test_oracle_disturbed_threads_hundreds_of_schedules(topology: str, window: str) -> None:
    check_disturbed(topology, window, range(100, 220))


def check_disturbed(topology: str, window: str, seeds: range) -> None:
    on = PREDICATES["band"]
    with small_windows():
        for seed in seeds:
            pushes = stream(seed, most_rows=20)
            options = {"cores": 2 + seed % 7, "block_rows": (1, 3, 7)[seed % 3], "structure": STRUCTURES[seed % 6]}
            with disturbed(seed):
                found = run(join_of(on, WINDOWS[window], topology=topology, **options), pushes)
            assert found == expected(on, WINDOWS[window], pushes), (seed, options)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(TOPOLOGIES, 2)))
def test_oracle_restored_into_another_topology(before: str, after: str, window: str) -> None:
    on = PREDICATES["band"]
    for seed in range(3):
        pushes = stream(seed)
        join = join_of(on, WINDOWS[window], topology=before, cores=3, block_rows=2)
        found = [pair for left, right in pushes[:3] for pair in ids(join.push(left=left, right=right))]
        blob = join.snapshot()
        join.close()
        restored = wm.StreamJoin.restore(blob, topology=after, cores=2)
        assert run(restored, pushes[3:]) + wm_counter(found) == expected(on, WINDOWS[window], pushes)
        assert restored.metrics.pairs == expected(on, WINDOWS[window], pushes).total()


def wm_counter(pairs: list[tuple[int, int]]) -> object:
    from collections import Counter

    return Counter(pairs)
