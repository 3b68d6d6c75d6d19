"""The lock-step model: a second witness for the threads' handshake join, and the paper's throughput formula."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from benchmarks.models.lock_step import LockStep, throughput
from topologies import disturbed, ids


def values(seed: int, rows: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], list[Any]]:
    rng = np.random.default_rng(seed)
    arrivals = [("left", "right")[int(side)] for side in rng.integers(0, 2, rows)]
    return rng.integers(0, 12, rows), rng.integers(0, 12, rows), arrivals


@pytest.mark.parametrize("cores", range(1, 9))
@pytest.mark.parametrize(("left_window", "right_window"), [(16, 16), (7, 20), (1, 5)])
def test_threads_and_lock_step_find_the_same_pairs(left_window: int, right_window: int, cores: int) -> None:
    left, right, arrivals = values(seed=cores, rows=120)
    model = LockStep({"left": left_window, "right": right_window}, cores, lambda a, b: abs(left[a] - right[b]) <= 1)
    model.run(arrivals)
    model.finish()

    schema = pa.schema([("id", pa.int64()), ("x", pa.int64()), ("t", pa.int64())])
    join = wm.StreamJoin(
        left=schema,
        right=schema,
        on=wm.band("x", "x", 1),
        window=wm.count_window(left=left_window, right=right_window, order_by="t"),
        topology="handshake",
        structure="scan",
        cores=cores,
        block_rows=1,
    )
    found: list[tuple[int, int]] = []
    with disturbed(seed=cores):
        for begin in range(0, 120, 24):
            tables = {}
            for side, given in (("left", left), ("right", right)):
                moments = [at for at, whose in enumerate(arrivals) if whose == side]
                here = [(number, at) for number, at in enumerate(moments) if begin <= at < begin + 24]
                numbers = np.array([number for number, _ in here], np.int64)
                tables[side] = pa.table(
                    {"id": numbers, "x": given[numbers], "t": np.array([at for _, at in here], np.int64)}, schema=schema
                )
            found += ids(join.push(**tables))
    found += ids(join.finish())
    assert Counter(found) == Counter(model.pairs)
    assert max(Counter(model.pairs).values()) == 1


@pytest.mark.parametrize("cores", [1, 3, 10, 64, 100, 150, 200])
def test_cycles_follow_the_formula_of_appendix_a(cores: int) -> None:
    model = LockStep({"left": 1000, "right": 1000}, cores, lambda a, _: np.zeros(len(a), bool))
    model.run(["left", "right"] * 1000)
    warm = model.cycles
    model.run(["left", "right"] * 50)
    rows_per_cycle = 100 / (model.cycles - warm)
    assert rows_per_cycle == pytest.approx(throughput(1000, 1000, cores, clock=1.0))
