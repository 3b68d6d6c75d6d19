"""A routing task that was run again, its rows in another order, stored them elsewhere: pairs lost or found twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.balance.generation import Generation, RoutingTable, first_generation
from watersmeet.spark.routing.choose import choose_routing
from watersmeet.spark.routing.contract import Routing
from watersmeet.window.plan import plan_join

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", pa.timestamp("us"))])
ROWS = pa.record_batch(
    [np.arange(200), np.arange(200) % 3, pa.array(np.arange(200), pa.timestamp("us"))], schema=SCHEMA
)


def _stored(routing: Routing[Any], rows: pa.RecordBatch, table: RoutingTable) -> dict[int, set[int]]:
    ids = np.asarray(rows.column("id"))
    return {
        route.core: set(ids[route.rows if route.stored is None else route.rows[route.stored]].tolist())
        for route in routing.route("left", rows, 0, table)
    }


@pytest.mark.parametrize("kind", ["broadcast", "hash"])
def test_order_of_rows_does_not_matter(kind: str) -> None:
    window = wm.time_window("1 second", ts="ts")
    plan = plan_join(SCHEMA, SCHEMA, wm.equal("k") if kind == "hash" else wm.less("k"), window, "auto")
    cut = Generation(0, 0, 0, owners=((0, 1, 2),) * first_generation(3).groups, active=(0, 1, 2))
    shuffled = ROWS.take(pa.array(np.random.default_rng(1).permutation(ROWS.num_rows)))
    routing = choose_routing(kind, plan, 3)  # type: ignore[arg-type]
    found = _stored(routing, ROWS, RoutingTable((cut,)))
    assert found == _stored(routing, shuffled, RoutingTable((cut,)))
    assert min(map(len, found.values())) > 40, "shared out evenly"
