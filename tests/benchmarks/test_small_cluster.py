"""What experiments on a small cluster make of what they have measured."""

from __future__ import annotations

from typing import Any

import pytest

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
