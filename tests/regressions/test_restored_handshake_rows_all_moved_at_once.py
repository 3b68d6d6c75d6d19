"""Restored rows were spread evenly over the chain, but no core knew its share: the first message of either stream made
a core send all rows of the other one on. Pairs were right; two cores then held what eight should.
"""

from __future__ import annotations

import pyarrow as pa

import watersmeet as wm
from watersmeet.engine.topologies.handshake import Handshake

ROWS = 64
CORES = 8


def _rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"t": pa.array(numbers, pa.timestamp("s")), "x": pa.array(numbers, pa.int64())})


def test_a_push_after_restoring_moves_a_block_per_core() -> None:
    schema = _rows(0, 0).schema
    join = wm.StreamJoin(
        left=schema, right=schema, on=wm.equal("x"), window=wm.count_window(ROWS), topology="kang", block_rows=1
    )
    join.push(_rows(0, ROWS), _rows(0, ROWS))
    restored = wm.StreamJoin.restore(join.snapshot(), topology="handshake", cores=CORES)
    restored.push(_rows(ROWS, 1), _rows(ROWS, 1))
    topology = restored._topology
    assert isinstance(topology, Handshake)
    held = {segment.rows for core in topology._cores for segment in core.stretches.values()}
    restored.close()
    assert held <= {ROWS // CORES - 1, ROWS // CORES, ROWS // CORES + 1}
