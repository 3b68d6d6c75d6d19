"""The edge of a window in a sorted array: how many entries of a range lie inside, whatever the range's length.

An entry has a *flag*, set while its row lies inside the window. Flags are counted on two levels: ``block`` has for each
block how many flags are set in its stretch before it, ``top`` for each stretch how many are set in all before that. So
the flags before a position are counted with two numbers and the words of one block. A flag that changes changes the
numbers behind it: those of one stretch, and one for each later stretch.

Cost. A bit an entry, so the flags of four million entries lie in a processor's own cache. A count takes as long for a
range of one entry as for one of millions.
"""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels.compile import kernel
from watersmeet.kernels.instructions import count_flags

__all__ = ["block_counts", "count_inside", "first_flags", "move_edge", "positions_of"]

WORD = 6
"""Each word has ``1 << WORD`` flags, each block ``1 << BLOCK`` and each stretch ``1 << STRETCH``."""
BLOCK = 9
STRETCH = 15


@kernel
def positions_of(row: Int32s, first: int, position: Int32s) -> None:
    """Write where the entry of each row stands: ``position[r]`` is that of row ``first + r``."""
    for i in range(len(row)):
        position[row[i] - first] = i


@kernel
def first_flags(row: Int32s, dropped: int) -> Int64s:
    """Return flags that are set for all rows but those that were dropped, the rows before ``dropped``."""
    n = len(row)
    flags = np.zeros((n >> WORD) + 1, np.int64)
    for i in range(n):
        flags[i >> WORD] |= np.int64(row[i] >= dropped) << np.int64(i & 63)
    return flags


@kernel
def _flip(flags: Int64s, at: int) -> None:
    flags[at >> WORD] ^= np.int64(1) << np.int64(at & 63)


@kernel
def move_edge(position: Int32s, place: Int64s, dropped: int, begun: int, bound: int, flags: Int64s) -> int:
    """Move the edge to ``bound``, in either direction: flags are set for the rows whose place is not less.

    Rows are in the order of their places. ``begun`` is the number of the first that has its flag set; the new one is
    returned. Rows before ``dropped`` never have theirs set again, and their places are not read.
    """
    while begun < len(place) and (begun < dropped or place[begun] < bound):
        _flip(flags, position[begun])
        begun += 1
    while begun > dropped and place[begun - 1] >= bound:
        begun -= 1
        _flip(flags, position[begun])
    return begun


@kernel
def block_counts(flags: Int64s) -> tuple[Int32s, Int64s]:
    """Return ``block`` and ``top``; see the module's header."""
    words = len(flags)
    block = np.zeros((words >> (BLOCK - WORD)) + 1, np.int32)
    top = np.zeros((words >> (STRETCH - WORD)) + 1, np.int64)
    total = 0
    begun = 0
    for w in range(words):
        if w & ((1 << (STRETCH - WORD)) - 1) == 0:
            top[w >> (STRETCH - WORD)] = total
            begun = total
        if w & ((1 << (BLOCK - WORD)) - 1) == 0:
            block[w >> (BLOCK - WORD)] = total - begun
        total += count_flags(flags[w])
    return block, top


@kernel
def _count_before(flags: Int64s, block: Int32s, top: Int64s, at: int) -> int:
    """Return how many flags are set before a position."""
    count = top[at >> STRETCH] + block[at >> BLOCK]
    last = at >> WORD
    for w in range((at >> BLOCK) << (BLOCK - WORD), last):
        count += count_flags(flags[w])
    below = (np.int64(1) << np.int64(at & 63)) - np.int64(1)
    return int(count + count_flags(flags[last] & below))


@kernel
def _clear(flags: Int64s, block: Int32s, top: Int64s, at: int) -> None:
    """Clear a flag that is set."""
    _flip(flags, at)
    end = min(len(block), ((at >> STRETCH) + 1) << (STRETCH - BLOCK))
    # Unsigned: an index that cannot count from the end needs no check, and several are decreased at once.
    for b in range(np.uint64((at >> BLOCK) + 1), np.uint64(end)):
        block[b] -= np.int32(1)
    for t in range(np.uint64((at >> STRETCH) + 1), np.uint64(len(top))):
        top[t] -= np.int64(1)


@kernel
def count_inside(
    position: Int32s,
    place: Int64s,
    begun: int,
    flags: Int64s,
    block: Int32s,
    top: Int64s,
    turn: Int64s,
    bound: Int64s,
    range_of: Int32s,
    start: Int64s,
    end: Int64s,
    but: bool,
    counts: Int64s,
) -> int:
    """Write how many rows of each range lie inside the window of its probing row; return how many do in all.

    With ``but`` those are counted that lie inside the window and not in the range.

    ``turn`` has the probing rows in the order of their ``bound``, the least place that they meet; ``range_of`` is the
    number of a probing row's range, or -1. The edge moves along with them: flags and counts are used up.
    """
    total = 0
    for i in range(len(turn)):
        w = turn[i]
        while begun < len(place) and place[begun] < bound[w]:
            _clear(flags, block, top, position[begun])
            begun += 1
        r = range_of[w]
        if r >= 0:
            inside = _count_before(flags, block, top, end[r]) - _count_before(flags, block, top, start[r])
            if but:
                inside = len(place) - begun - inside
            counts[r] = inside
            total += inside
    return total
