"""A condition that is compared was saved without its brackets, so a restored join went on with another predicate.

``(left.f AND left.g) = right.h`` came back as ``left.f AND (left.g = right.h)``.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm

LEFT = pa.schema([("f", pa.bool_()), ("g", pa.bool_())])
RIGHT = pa.schema([("h", pa.bool_())])
L = pa.table({"f": [False], "g": [True]}, schema=LEFT)
R = pa.table({"h": [False]}, schema=RIGHT)


@pytest.mark.parametrize(
    ("on", "pairs"),
    [
        ("(left.f AND left.g) = right.h", 1),
        ("left.f AND left.g = right.h", 0),
        ("(left.f OR left.g) IS NULL", 0),
        ("(left.f = left.g) = right.h", 1),
        ("NOT (left.g) = (right.h OR left.f)", 1),
    ],
)
def test_two_streams(on: str, pairs: int) -> None:
    join = wm.StreamJoin(left=LEFT, right=RIGHT, on=on, window=wm.count_window(5))
    restored = wm.StreamJoin.restore(join.snapshot())
    assert [j.push(left=L, right=R).num_rows for j in (join, restored)] == [pairs, pairs]
    assert restored._plan.predicate == join._plan.predicate


def test_many_streams() -> None:
    on = "(a.f AND a.g) = b.h"
    join = wm.MultiStreamJoin(streams={"a": LEFT, "b": RIGHT}, on=on, window=wm.count_window(5))
    restored = wm.MultiStreamJoin.restore(join.snapshot())
    assert [j.push(a=L, b=R).num_rows for j in (join, restored)] == [1, 1]
