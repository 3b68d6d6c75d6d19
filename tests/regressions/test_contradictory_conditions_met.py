"""Conditions that contradict each other on an axis that is not the index's own were no check at all: all rows met."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from topologies import TOPOLOGIES

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("x", pa.int64()), ("f", pa.float64()), ("k", pa.int64())])
CONTRADICTIONS = [
    "left.x <= right.x AND left.x >= right.x + 1",
    "left.x BETWEEN right.x + 1 AND right.x - 1",
    "left.f < right.f AND left.f > right.f + 2",
    "NOT (CAST(left.k AS DOUBLE) = right.k OR left.x NOT BETWEEN right.x + 1 AND right.x - 1)",
]


def rows(seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    columns = {
        "ts": pa.array(1_000_000 * (np.arange(40) + 20 * seed), pa.timestamp("us")),
        "x": random.integers(0, 5, 40),
        "f": random.integers(0, 5, 40).astype(float),
        "k": random.integers(0, 3, 40),
    }
    return pa.table(columns, schema=SCHEMA)


@pytest.mark.parametrize("beside", ["", " AND left.k = right.k", " AND ABS(left.k - right.k) <= 1"])
@pytest.mark.parametrize("window", [wm.time_window("3 seconds", ts="ts"), wm.count_window(7)], ids=["time", "count"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_nothing_meets(topology: str, window: Any, beside: str) -> None:
    for contradiction, structure, how in product(CONTRADICTIONS, ("auto", "bi_sort"), ("inner", "anti")):
        with wm.StreamJoin(
            left=SCHEMA,
            right=SCHEMA,
            on=contradiction + beside,
            window=window,
            topology=topology,  # type: ignore[arg-type]
            structure=structure,  # type: ignore[arg-type]
            how=how,  # type: ignore[arg-type]
            cores=2,
        ) as join:
            found = sum(join.push(left=rows(seed), right=rows(seed)).num_rows for seed in (0, 2))
            found += join.finish().num_rows
        assert found == (0 if how == "inner" else 80)
