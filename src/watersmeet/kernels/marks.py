"""Marks of rows that have met another: a byte for each."""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.kernels.compile import kernel

__all__ = ["mark_rows"]


@kernel
def mark_rows(at: Int32s | Int64s, marks: Bools) -> Int64s:
    """Mark the rows at these places; return which of the places, each row's first one, were not marked before."""
    first = np.empty(len(at), np.int64)
    found = 0
    for i in range(len(at)):  # whether a row is marked cannot be foretold: counting needs no branch
        first[found] = i
        found += not marks[at[i]]
        marks[at[i]] = True
    return first[:found]
