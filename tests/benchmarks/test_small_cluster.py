"""What experiments on a small cluster make of what they have measured."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.experiments.spark import cluster_delay
from benchmarks.experiments.spark.cluster_delay import delays
from benchmarks.experiments.spark.workers import parts_of


def _task(milliseconds: int, written: int = 0, write_ns: int = 0, wait: int = 0) -> dict[str, Any]:
    return {
        "Executor Run Time": milliseconds,
        "Shuffle Write Metrics": {"Shuffle Bytes Written": written, "Shuffle Write Time": write_ns},
        "Shuffle Read Metrics": {"Fetch Wait Time": wait},
    }


def test_parts_add_up_to_all_tasks() -> None:
    tasks = [_task(900, 10, 100_000_000), _task(600, 10, 50_000_000), _task(2000, wait=300), _task(1000, wait=100)]
    cores: list[Any] = [{"work_seconds": 1.1}, None, {"work_seconds": 0.4}]
    taken: list[Any] = [{"rows": 500_000, "cores": cores}]
    parts = parts_of(tasks, taken)
    assert parts == pytest.approx({"partition": 2.7, "send": 0.3, "receive": 0.8, "join": 3.0, "rest": 2.2})
    assert sum(parts.values()) == pytest.approx(2 * 4.5)


def test_rows_wait_for_the_micro_batches_before_theirs() -> None:
    assert delays([3.0, 1.0, 1.0, 1.0], 2.0) == [4.0, 3.0, 2.0, 2.0]
    assert delays([1.0], 2.0) == [2.0]


def test_the_last_delays_are_compared() -> None:
    def batches(seconds: list[float]) -> list[Any]:
        return [
            {"seconds": took, "cores": [{"rows_in": 9, "pairs": 3}, {"rows_in": 9, "pairs": 1}]} for took in seconds
        ]

    result = cluster_delay._report(
        {"off": batches([9.0] + [2.0] * 35), "auto": batches([9.0] + [2.0] * 14 + [1.0] * 21)}
    )
    (table,) = result.tables
    assert [row[:3] for row in table.rows] == [
        ("off", "before", 2.0),
        ("off", "window after", 2.0),
        ("off", "then", 2.0),
        ("auto", "before", 2.0),
        ("auto", "window after", 1.0),
        ("auto", "then", 1.0),
    ]
    assert {row[4] for row in table.rows} == {1.5}
    (goal,) = result.goals
    assert goal.reached
