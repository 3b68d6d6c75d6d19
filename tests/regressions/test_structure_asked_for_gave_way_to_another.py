"""A structure that was asked for was taken for one chosen automatically: with keys of texts, and after a restart.

So a RaP-Table whose texts gathered in one partition became a WiB+-Tree, and a run mapped from the cache could not tell
that its structure had been asked for.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.spark.runs import Content, Index, _from_cache, _to_cache
from watersmeet.subwindow import rap_table
from watersmeet.subwindow.choose import Choice, IndexOrder
from watersmeet.subwindow.contract import Entries

SCHEMA = pa.schema([("s", pa.string())])


def test_a_table_of_texts_that_was_asked_for_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rap_table, "FULLEST", 50)
    window = wm.count_window(1000)
    join = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on="left.s <= right.s", window=window, structure="rap_table")
    for first in range(0, 900, 100):
        join.push(right=pa.table({"s": [f"customer-{number:08d}" for number in range(first, first + 100)]}))
    explained = join.explain()
    assert "newest subwindow: rap_table;" in explained
    assert "structure rap_table was asked for; keys of text begin" in explained


@pytest.mark.parametrize(
    "choice",
    [
        Choice("scan", IndexOrder((0,), 1, ("a", "b")), "because", asked_for=True),
        Choice("wib_tree", IndexOrder((), 0), "because", outgrown=True),
    ],
)
def test_the_cache_gives_a_choice_back_whole(choice: Choice) -> None:
    rows = pa.record_batch({"s": ["b", "a"]}, SCHEMA)
    entries = Entries(np.array([3, 5]), np.array([1, 0], np.int32), None)
    found = _from_cache(_to_cache(Content(rows, {}, {"": Index(choice, entries)})), SCHEMA)
    assert found is not None
    assert found.indexes[""].choice == choice
