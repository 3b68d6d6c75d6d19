"""A push of a semi or anti join held every pair to say who met somebody: 1.2 GB for 6,000 rows that meet 6,000."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from topologies import TOPOLOGIES
from watersmeet.engine.unmatched import Unmatched

ROWS = 1_000
FEW = 20
"""Blocks of rows that meet each other, and so may each find the same left row."""


@pytest.mark.parametrize("how", ["semi", "anti"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_no_more_than_the_left_rows_are_held(topology: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    left = pa.table({"x": np.arange(ROWS)})
    right = pa.table({"x": np.full(ROWS, 3)})
    held, see = [0], Unmatched.see

    def noted(unmatched: Unmatched, pairs: list[pa.Table]) -> object:
        held.append(sum(some.num_rows for some in pairs))
        return see(unmatched, pairs)

    monkeypatch.setattr(Unmatched, "see", noted)
    window = wm.count_window(10 * ROWS)
    schemas = {"left": left.schema, "right": right.schema}
    join = wm.StreamJoin(**schemas, on="left.x >= right.x", window=window, how=how, topology=topology, cores=2)
    found = [join.push(left=left), join.push(right=right), join.push(left=left, right=right), join.finish()]
    met = sorted(2 * list(range(3, ROWS))) if how == "semi" else [0, 0, 1, 1, 2, 2]
    assert sorted(pa.concat_tables(found)["x"].to_pylist()) == met
    assert max(held) <= FEW * ROWS
