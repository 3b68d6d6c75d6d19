"""Marks, against a set."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernels.marks import mark_rows


@given(st.lists(st.lists(st.integers(0, 20))))
def test_each_row_is_new_once(calls: list[list[int]]) -> None:
    marks, seen = np.zeros(21, np.bool_), set[int]()
    for at in calls:
        new = []
        for number, row in enumerate(at):
            if row not in seen:
                new.append(number)
                seen.add(row)
        assert mark_rows(np.array(at, np.int64), marks).tolist() == new
        assert set(np.flatnonzero(marks).tolist()) == seen
