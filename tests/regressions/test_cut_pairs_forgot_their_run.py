"""Pairs that were cut to fill a table forgot where their stored rows lie: a core that found more than a million failed.

In joins that mark rows, with a ``KeyError``; with ``order=`` and a count window, with an ``AssertionError``.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import stand_in
import watersmeet as wm
from stand_in import forget, pair_query
from watersmeet.columns.hidden import with_hidden
from watersmeet.spark.identity import Identity
from watersmeet.spark.ordering import EARLIER, LATER, ResultOrder
from watersmeet.spark.processor import JoinProcessor
from watersmeet.spec.kinds import How
from watersmeet.subwindow import contract
from watersmeet.window.plan import JoinPlan

ROWS = 30
MET = [(left, right) for left in range(ROWS) for right in range(ROWS) if left >= right]


def rows() -> pa.Table:
    """Return rows of one key."""
    return pa.table(
        {
            "id": np.arange(ROWS),
            "ts": pa.array(np.arange(ROWS), pa.timestamp("us", "UTC")),
            "k": np.ones(ROWS, np.int64),
        }
    )


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give cores a folder, and let a table have so few pairs that those of two runs have to be cut."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(contract, "PAIRS_AT_ONCE", 100)
    return tmp_path


@pytest.mark.parametrize("how", ["left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("first", ["left", "right"])
def test_pairs_of_a_cut_match_are_marked(first: str, how: How, scratch: Path) -> None:
    on, window = "left.k = right.k AND left.id >= right.id", wm.time_window("1 hour", ts="ts")
    query = pair_query(dict.fromkeys(("left", "right"), rows().schema), on, window, cores=1, how=how)
    second = "right" if first == "left" else "left"
    found = [query.run({first: rows()}), query.run({first: None, second: rows()})]
    together = pa.concat_tables(found)
    expected = {"semi": [(left,) for left in range(ROWS)], "anti": []}.get(how, MET)
    names = ["id"] if how in ("semi", "anti") else ["left_id", "right_id"]
    assert Counter(zip(*(together[name].to_pylist() for name in names), strict=True)) == Counter(expected)
    forget(scratch)


def test_pairs_of_a_cut_match_know_their_places(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ordered(plan: JoinPlan, identity: Identity, **more: Any) -> JoinProcessor:
        return JoinProcessor(plan, identity, order=ResultOrder.of("outer", plan, more["result"]), **more)

    monkeypatch.setattr(stand_in, "JoinProcessor", ordered)
    window = wm.count_window(ROWS, order_by="id")
    query = pair_query(dict.fromkeys(("left", "right"), rows().schema), "left.k = right.k", window, cores=1)
    query.result = with_hidden(query.result, (LATER, EARLIER))  # nobody puts the sorted tables together here
    assert query.run({"left": rows(), "right": rows()}).num_rows == ROWS * ROWS
    forget(scratch)
