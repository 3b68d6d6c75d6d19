"""Marks of rows that have met another: a byte for each."""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Bools, Int64s
from watersmeet.kernels.compile import kernel

__all__ = ["mark_rows"]


@kernel
def mark_rows(at: Int64s, marks: Bools) -> Int64s:
    """Mark the rows at these places; return which of the places, each row's first one, were not marked before."""
    first = np.empty(len(at), np.int64)
    found = 0
    for i in range(len(at)):
        if not marks[at[i]]:
            marks[at[i]] = True
            first[found] = i
            found += 1
    return first[:found]
