"""Marks of rows that have met another: a byte for each number, of which the first stands for the number ``first``.

Rows with numbers before that have no mark here: kernels leave them out, and tell that there are some.
"""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.kernels.compile import kernel

__all__ = ["mark_all", "mark_rows", "unmarked_rows"]


@kernel
def mark_all(numbers: Int64s, first: int, marks: Bools) -> bool:
    """Mark rows; return whether some have no mark here."""
    are_older = False
    for i in range(len(numbers)):
        at = numbers[i] - first
        if at >= 0:
            marks[at] = True
        else:
            are_older = True
    return are_older


@kernel
def mark_rows(numbers: Int64s | Int32s, first: int, marks: Bools) -> tuple[Int64s, bool]:
    """Mark rows; return which were not marked before, each by its first place, and whether some have no mark here."""
    new = np.empty(len(numbers), np.int64)
    found, are_older = 0, False
    for i in range(len(numbers)):
        at = numbers[i] - first
        if at < 0:
            are_older = True
        else:
            new[found] = i  # the next one goes over it, if it was marked: a branch would be guessed wrong too often
            found += not marks[at]
            marks[at] = True
    return new[:found], are_older


@kernel
def unmarked_rows(numbers: Int64s, begin: int, end: int, first: int, marks: Bools) -> tuple[Int64s, bool]:
    """Return which rows from ``begin`` to ``end`` are not marked, and whether some have no mark here."""
    rows = np.empty(end - begin, np.int64)
    found, are_older = 0, False
    for i in range(begin, end):
        at = numbers[i] - first
        if at < 0:
            are_older = True
        else:
            rows[found] = i
            found += not marks[at]
    return rows[:found], are_older
