"""The nested loop: compare every stored key with every probe.

Design. Stored keys are taken in tiles of ``TILE`` keys, which stay in the first-level cache while all probes pass over
them. For each tile and probe the matches are counted without a branch, which LLVM turns into vector instructions. Only
a tile that has a match is walked a second time, row by row. Keys and probes may come in any order.

Cost. stored * probes comparisons, four to eight per instruction, for any number of matches.

``count_between``, ``locate_between``, ``write_between`` and ``reserve`` are the inner loops of every structure with
unsorted partitions.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels.compile import kernel

__all__ = ["COUNT_BITS", "count_between", "locate_between", "nested_loop", "reserve", "write_between"]

Array = TypeVar("Array", Int32s, Int64s)

TILE = 512
COUNT_BITS = 32


@kernel
def count_between(key: Int64s, lo: int, hi: int) -> int:
    """Return how many keys lie in ``[lo, hi]``."""
    count = 0
    if lo == hi:  # one comparison instead of two
        for i in range(len(key)):
            count += key[i] == lo
    else:
        for i in range(len(key)):
            count += (key[i] >= lo) & (key[i] <= hi)
    return count


@kernel
def locate_between(key: Int64s, lo: int, hi: int) -> int:
    """Return the number of keys in ``[lo, hi]`` in the low 32 bits, and the sum of their positions in the high bits.

    With one match, the usual case, the sum is its position: found without a branch and without a second walk.
    """
    both = 0
    if lo == hi:
        for i in range(len(key)):
            both += ((i << COUNT_BITS) + 1) if key[i] == lo else 0
    else:
        for i in range(len(key)):
            both += ((i << COUNT_BITS) + 1) if (key[i] >= lo) & (key[i] <= hi) else 0
    return both


@kernel
def write_between(
    key: Int64s, row: Int32s, lo: int, hi: int, who: int, pair_who: Int32s, pair_row: Int32s, found: int
) -> int:
    """Write the pairs of one probe from position ``found`` on; return the position behind the last pair."""
    for i in range(len(key)):
        if key[i] >= lo and key[i] <= hi:
            pair_who[found] = who
            pair_row[found] = row[i]
            found += 1
    return found


@kernel
def reserve(array: Array, used: int, more: int) -> Array:
    """Return ``array``, or a larger copy of its ``used`` elements, with room for ``more``."""
    if used + more <= len(array):
        return array
    larger = np.empty(max(used + more, 2 * len(array)), array.dtype)
    larger[:used] = array[:used]
    return larger


@kernel
def nested_loop(
    key: Int64s, row: Int32s, lo: Int64s, hi: Int64s, who: Int32s, at: int, most: int
) -> tuple[Int32s, Int32s, int]:
    """Return index pairs of the probes with the stored rows, about ``most`` at a time.

    The loop begins at step ``at`` (0 at first) and returns the next step, or -1 when all rows were compared. There is a
    step for each tile and probe: the tile's number times ``len(lo)``, plus the probe's number.
    """
    m = len(lo)
    pair_who = np.empty(m, np.int32)
    pair_row = np.empty(m, np.int32)
    found = 0
    first = at % m
    for begin in range(at // m * TILE, len(key), TILE):
        tile = key[begin : begin + TILE]
        rows = row[begin : begin + TILE]
        for q in range(first, m):
            count = count_between(tile, lo[q], hi[q])
            if count:
                if found > 0 and found + count > most:
                    return pair_who[:found], pair_row[:found], begin // TILE * m + q
                pair_who = reserve(pair_who, found, count)
                pair_row = reserve(pair_row, found, count)
                found = write_between(tile, rows, lo[q], hi[q], who[q], pair_who, pair_row, found)
        first = 0
    return pair_who[:found], pair_row[:found], -1
