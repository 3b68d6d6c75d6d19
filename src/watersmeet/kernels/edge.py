"""The edge of a window in a sorted array: how many entries of a range lie inside, whatever the range's length.

An entry has a *flag*, set while its row lies inside the window. ``FAN`` flags are a word, ``FAN`` words a block,
``FAN`` blocks a stretch. Counts say how many flags are set before each word in its block, before each block in its
stretch, and before each stretch. So the flags before a position are three counts and a few bits of a word. When a flag
is cleared, the counts behind it change: those of one block, of one stretch, and of the later stretches.

Cost. A bit an entry, so the flags of four million entries lie in a processor's own cache. A count takes as long for a
range of one entry as for one of millions, and there is no branch in it that must be predicted.
"""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Int16s, Int32s, Int64s
from watersmeet.kernels.compile import kernel
from watersmeet.kernels.instructions import count_flags

__all__ = ["count_flags_before", "count_inside", "first_flags", "move_edge", "positions_of"]

FAN = 64
WORD = 6
BLOCK = 12
STRETCH = 18
"""A word has ``1 << WORD`` flags, a block ``1 << BLOCK`` and a stretch ``1 << STRETCH``."""


@kernel
def positions_of(row: Int32s, first: int, position: Int32s) -> None:
    """Write where the entry of each row stands: ``position[r]`` is that of row ``first + r``."""
    for i in range(len(row)):
        position[row[i] - first] = i


@kernel
def first_flags(row: Int32s, dropped: int) -> Int64s:
    """Return flags that are set for all rows but those that were dropped, the rows before ``dropped``."""
    n = len(row)
    flags = np.zeros(((n >> BLOCK) + 1) * FAN, np.int64)
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
def count_flags_before(flags: Int64s) -> tuple[Int16s, Int32s, Int64s]:
    """Return how many flags are set before each word in its block, each block in its stretch, and each stretch."""
    blocks = len(flags) >> (BLOCK - WORD)
    stretches = (blocks >> (STRETCH - BLOCK)) + 1
    in_block = np.zeros(len(flags), np.int16)
    in_stretch = np.zeros(stretches * FAN, np.int32)
    before = np.zeros((stretches + 15) & ~15, np.int64)
    total = 0
    stretch_began = 0
    for b in range(blocks):
        if b & (FAN - 1) == 0:
            stretch_began = total
            before[b >> (STRETCH - BLOCK)] = total
        in_stretch[b] = total - stretch_began
        count = 0
        for w in range(b << (BLOCK - WORD), (b + 1) << (BLOCK - WORD)):
            in_block[w] = count
            count += count_flags(flags[w])
        total += count
    return in_block, in_stretch, before


@kernel
def _count_before(flags: Int64s, in_block: Int16s, in_stretch: Int32s, before: Int64s, at: int) -> int:
    """Return how many flags are set before a position."""
    below = (np.int64(1) << np.int64(at & 63)) - np.int64(1)
    counts = before[at >> STRETCH] + in_stretch[at >> BLOCK] + in_block[at >> WORD]
    return int(counts + count_flags(flags[at >> WORD] & below))


@kernel
def _clear(flags: Int64s, in_block: Int16s, in_stretch: Int32s, before: Int64s, at: int) -> None:
    """Clear a flag that is set."""
    _flip(flags, at)
    # Unsigned: an index that cannot count from the end needs no check. Always FAN steps: several at once, no branch.
    word = np.uint64((at >> BLOCK) << (BLOCK - WORD))
    own = np.uint64((at >> WORD) & (FAN - 1))
    for w in range(np.uint64(FAN)):
        in_block[word + w] -= np.int16(w > own)
    block = np.uint64((at >> STRETCH) << (STRETCH - BLOCK))
    own = np.uint64((at >> BLOCK) & (FAN - 1))
    for b in range(np.uint64(FAN)):
        in_stretch[block + b] -= np.int32(b > own)
    own = np.uint64(at >> STRETCH)
    for s in range(np.uint64(len(before))):
        before[s] -= np.int64(s > own)


@kernel
def count_inside(
    position: Int32s,
    place: Int64s,
    begun: int,
    flags: Int64s,
    in_block: Int16s,
    in_stretch: Int32s,
    before: Int64s,
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
            _clear(flags, in_block, in_stretch, before, position[begun])
            begun += 1
        r = range_of[w]
        if r >= 0:
            inside = _count_before(flags, in_block, in_stretch, before, end[r])
            inside -= _count_before(flags, in_block, in_stretch, before, start[r])
            if but:
                inside = len(place) - begun - inside
            counts[r] = inside
            total += inside
    return total
