"""Marks, against a set."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernels.marks import mark_all, mark_rows, unmarked_rows

NUMBERS = st.lists(st.integers(-5, 20))
"""Those before ``FIRST`` have no mark."""
FIRST = 3


@given(st.lists(st.tuples(NUMBERS, st.booleans())))
def test_each_row_is_new_once(calls: list[tuple[list[int], bool]]) -> None:
    marks, seen = np.zeros(21 - FIRST, np.bool_), set[int]()
    for numbers, all_at_once in calls:
        given, are_older = np.array(numbers, np.int64), any(number < FIRST for number in numbers)
        new = []
        for row, number in enumerate(numbers):
            if number >= FIRST and number not in seen:
                new.append(row)
                seen.add(number)
        if all_at_once:
            assert mark_all(given, FIRST, marks) == are_older
        else:
            rows, told = mark_rows(given, FIRST, marks)
            assert (rows.tolist(), told) == (new, are_older)
        assert set((FIRST + np.flatnonzero(marks)).tolist()) == seen


@given(NUMBERS, NUMBERS, st.data())
def test_unmarked_rows_are_found_between_two_rows(marked: list[int], numbers: list[int], data: st.DataObject) -> None:
    marks = np.zeros(21 - FIRST, np.bool_)
    mark_all(np.array(marked, np.int64), FIRST, marks)
    begin, end = sorted(data.draw(st.lists(st.integers(0, len(numbers)), min_size=2, max_size=2)))
    rows, are_older = unmarked_rows(np.array(numbers, np.int64), begin, end, FIRST, marks)
    between = range(begin, end)
    assert rows.tolist() == [row for row in between if numbers[row] >= FIRST and numbers[row] not in marked]
    assert are_older == any(numbers[row] < FIRST for row in between)


def test_numbers_of_32_bits_are_marked_too() -> None:
    marks = np.zeros(4, np.bool_)
    rows, are_older = mark_rows(np.array([2, 2, 0], np.int32), 0, marks)
    assert (rows.tolist(), are_older, marks.tolist()) == ([0, 2], False, [True, False, True, False])
