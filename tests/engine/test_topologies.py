"""Every topology gives the oracle's pairs: structures, windows, cores, block sizes, disturbed threads, restarts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from strategies import STRUCTURES
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

CORES, BLOCKS = range(1, 9), (1, 7, 128)
EVERYTHING = list(itertools.product(STRUCTURES, WINDOWS, CORES, BLOCKS))
SEVERAL = [case for number, case in enumerate(EVERYTHING) if number % 13 == 0]  # 13 is prime to all four


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    assert threads_left() == []


def check(topology: str, structure: str, window: str, cores: int, block_rows: int) -> None:
    number = EVERYTHING.index((structure, window, cores, block_rows))
    on = list(PREDICATES.values())[number % len(PREDICATES)]
    pushes = stream(seed=number)
    options = {"topology": topology, "structure": structure, "cores": cores, "block_rows": block_rows}
    with small_windows():
        found = run(join_of(on, WINDOWS[window], **options), pushes)
    assert found == expected(on, WINDOWS[window], pushes), (options, window)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_oracle_some_structures_windows_cores_and_blocks(topology: str) -> None:
    for structure, window, cores, block_rows in SEVERAL:
        check(topology, structure, window, cores, block_rows)


@pytest.mark.long
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_oracle_all_structures_windows_cores_and_blocks(topology: str, structure: str, window: str) -> None:
    for cores, block_rows in itertools.product(CORES, BLOCKS):
        check(topology, structure, window, cores, block_rows)


# --- disturbed threads ------------------------------------------------------------------------------------------------


def check_disturbed(topology: str, window: str, seeds: range) -> None:
    on = PREDICATES["band"]
    for seed in seeds:
        pushes = stream(seed, most_rows=20)
        options = {
            "cores": 2 + seed % 7,
            "block_rows": (1, 3, 7)[seed % 3],
            "structure": STRUCTURES[seed % len(STRUCTURES)],
        }
        with small_windows(), disturbed(seed):
            found = run(join_of(on, WINDOWS[window], topology=topology, **options), pushes)
        assert found == expected(on, WINDOWS[window], pushes), (seed, options)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("topology", TOPOLOGIES[1:])
def test_oracle_disturbed_threads(topology: str, window: str) -> None:
    check_disturbed(topology, window, range(3))


@pytest.mark.long
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("topology", TOPOLOGIES[1:])
def test_oracle_disturbed_threads_hundreds_of_schedules(topology: str, window: str) -> None:
    check_disturbed(topology, window, range(100, 200))


# --- shapes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", WINDOWS)
def test_oracle_handshake_with_unequal_segments(window: str) -> None:
    on, pushes = PREDICATES["band"], stream(seed=8, pushes=8, most_rows=20)
    join = join_of(on, WINDOWS[window], topology="handshake", cores=3, block_rows=1, weights=[1, 0.5, 6.0])
    assert run(join, pushes) == expected(on, WINDOWS[window], pushes)


def held(join: wm.StreamJoin) -> dict[str, list[int]]:
    """Return how many rows of each side lie on each core of the chain."""
    join._topology.windows("left")  # waits until nothing moves
    cores = join._topology._cores  # type: ignore[attr-defined] # that of the chain
    return {side: [core.stretches[side].rows for core in cores] for side in ("left", "right")}


def test_handshake_spreads_rows_by_weight_also_when_restored() -> None:
    number = np.arange(400)
    rows = pa.table({"id": number, "ts": number.astype("datetime64[us]"), "x": number, "k": number})
    options = {"topology": "handshake", "cores": 3, "block_rows": 1, "weights": (1, 2.0, 5)}
    with join_of("left.x = right.x", wm.count_window(80), **options) as join:
        join.push(left=rows, right=rows)
        assert held(join) == {"left": [10, 20, 50], "right": [10, 20, 50]}
        saved = join.snapshot()
    with wm.StreamJoin.restore(saved) as restored:
        assert held(restored) == {"left": [10, 20, 50], "right": [10, 20, 50]}
    with wm.StreamJoin.restore(saved, cores=4) as restored:
        assert held(restored) == {"left": [20] * 4, "right": [20] * 4}
    with wm.StreamJoin.restore(saved, topology="splitjoin") as restored:
        assert "weights" not in restored._options


@pytest.mark.parametrize(
    "weights",
    [
        (),
        (1, 2),
        (1, 2, 0),
        (1, 2, -1),
        (1, 2, True),
        (1, 2, "3"),
        (1, 2, float("inf")),
        (1, 2, 10**400),
        "123",
        3,
        {1, 2, 3},
    ],
)
def test_weights_that_are_no_shares_of_the_cores_are_refused(weights: Any) -> None:
    with pytest.raises(wm.SpecificationError, match=r"weights=.*\n.*a number for each core \(cores=3\)"):
        join_of(PREDICATES["band"], WINDOWS["time"], topology="handshake", cores=3, weights=weights)


@pytest.mark.parametrize("topology", [topology for topology in TOPOLOGIES if topology != "handshake"])
def test_a_topology_without_segments_refuses_weights(topology: str) -> None:
    with pytest.raises(wm.SpecificationError, match=r"handshake.*alone cuts windows into a segment for each core"):
        join_of(PREDICATES["band"], WINDOWS["time"], topology=topology, weights=[1.0])


@pytest.mark.parametrize("order", [None, "inner"])
@pytest.mark.parametrize("cores", [5, 9])
def test_oracle_splitjoin_with_deep_trees(cores: int, order: Any) -> None:
    on, pushes = PREDICATES["band"], stream(seed=9, most_rows=20)
    join = join_of(on, WINDOWS["time"], topology="splitjoin", cores=cores, block_rows=3, order=order, fanout=2)
    join.push()
    assert run(join, pushes) == expected(on, WINDOWS["time"], pushes)
    assert len(join._topology._roots) == 2  # type: ignore[attr-defined] # those the caller feeds


# --- restarts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", ["time, two lengths, late rows", "count, two lengths, ordered"])
@pytest.mark.parametrize(("before", "after"), list(itertools.product(TOPOLOGIES, TOPOLOGIES)))
def test_oracle_restored_into_another_topology(before: str, after: str, window: str) -> None:
    on, pushes = PREDICATES["band"], stream(seed=5, most_rows=20)
    join = join_of(on, WINDOWS[window], topology=before, cores=3, block_rows=2)
    found: Counter[tuple[int, int]] = Counter()
    for left, right in pushes[:3]:
        found.update(ids(join.push(left=left, right=right)))
    blob = join.snapshot()
    assert run(join, pushes[3:]) + found == expected(on, WINDOWS[window], pushes), "saving does not disturb the join"
    restored = wm.StreamJoin.restore(blob, topology=after, cores=2)
    assert run(restored, pushes[3:]) + found == expected(on, WINDOWS[window], pushes)
    assert restored.metrics.pairs == expected(on, WINDOWS[window], pushes).total()


def test_what_handshake_owes_is_in_its_snapshot() -> None:
    number = np.arange(16)
    rows = pa.table({"id": number, "ts": number.astype("datetime64[us]"), "x": 0 * number, "k": number})
    join = join_of("left.x = right.x", WINDOWS["time"], topology="handshake", cores=4, block_rows=1)
    at_once = join.push(left=rows, right=rows).num_rows
    restored = wm.StreamJoin.restore(join.snapshot(), topology="panjoin")
    owed = join.finish().num_rows
    assert at_once + owed == 16 * 16
    assert owed > 0
    assert restored.push().num_rows == owed
    assert restored.finish().num_rows == 0
    join = wm.StreamJoin.restore(join.snapshot(), topology="panjoin")
    assert join.finish().num_rows == 0, "what finish() returned is owed no more"


# --- collected batches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_oracle_collected_batches(topology: str, window: str) -> None:
    on, pushes = PREDICATES["band"], stream(seed=6, pushes=12, most_rows=5)
    for batch_rows in (1, 15, 1000):
        join = join_of(on, WINDOWS[window], topology=topology, cores=2, block_rows=3, batch_rows=batch_rows)
        found: Counter[tuple[int, int]] = Counter()
        for number, (left, right) in enumerate(pushes):
            if number == 7:  # in the middle of a batch
                saved = join.snapshot()
                join.close()
                join = wm.StreamJoin.restore(saved)
            found.update(ids(join.push(left=left, right=right)))
        assert run(join, []) + found == expected(on, WINDOWS[window], pushes)


def test_a_batch_is_due_by_count_or_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("watersmeet.engine.collector.time.monotonic", lambda: now)
    number = np.arange(4)
    rows = pa.table({"id": number, "ts": number.astype("datetime64[us]"), "x": 0 * number, "k": number})
    window = wm.time_window("8 seconds", ts="ts", lateness="1 second")
    join = join_of("left.x = right.x", window, batch_rows=20, batch_seconds=2.5)
    assert join.push(left=rows, right=rows).num_rows == 0
    assert join.metrics.left_rows == 4
    now += 2.4
    assert join.push().num_rows == 0
    now += 0.2
    assert join.push().num_rows == 16, "the first row has waited long enough"
    assert join.push(left=rows, right=rows).num_rows == 0
    assert join.push(left=rows, right=rows).num_rows == 0
    assert join.push(left=rows).num_rows == 16 * 12 - 16, "20 rows have come: 16 left and 12 right ones in all"
    assert join.push(right=rows).num_rows == 0
    assert join.finish().num_rows == 4 * 16, "what waits is joined at the end"
