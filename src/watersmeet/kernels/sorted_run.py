"""Sorted runs: sort a batch, merge two runs, find ranges of keys, turn ranges into index pairs.

A *run* is a sorted int64 array of ``size`` keys followed by ``BLOCK`` keys of padding (the largest int64), so that a
block may be read whole at the end. Its *index* holds every ``BLOCK``-th key. An optional ``group`` array of the same
length makes the order ``(group, key)``; it is ``None`` otherwise, and Numba then compiles the group code away.

Cost. Finding a range is two steps (PanJoin, sections III-D and III-E):

1. a rebounding search on the index, which walks forward with the sorted batch and stays in the cache, then
2. one block of ``BLOCK`` keys (two cache lines), counted without a branch.

Step 1 runs for many probes before step 2 starts, so step 2 knows its addresses early and prefetches ``AHEAD`` probes
ahead: the memory's latency is paid once for several probes instead of once for each. The upper end of a narrow range
lies in the same block and costs nothing more.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from watersmeet.kernels.compile import kernel, prefetch

__all__ = ["BLOCK", "expand_ranges", "find_ranges", "merge_runs", "sample_run", "sort_keys"]

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

SHIFT = 4
BLOCK = 1 << SHIFT
AHEAD = 16
INT64_MAX = np.int64(2**63 - 1)
DIGIT_BITS = 11


@kernel
def sort_keys(key: Int64s, order: Int32s) -> Int32s:
    """Return ``order`` permuted so that ``key[result]`` is sorted; stable, so that sorting twice sorts by two keys.

    Least-significant-digit radix sort on ``key - min(key)``: as many passes as the span of the keys has digits.
    """
    n = len(order)
    if n == 0:
        return order.copy()
    smallest = key[order[0]]
    largest = smallest
    for i in range(n):
        k = key[order[i]]
        smallest = min(smallest, k)
        largest = max(largest, k)
    span = np.uint64(largest) - np.uint64(smallest)
    digits = np.empty(n, np.uint64)
    for i in range(n):
        digits[i] = np.uint64(key[order[i]]) - np.uint64(smallest)
    here = order.copy()
    there = np.empty(n, np.int32)
    digits_there = np.empty(n, np.uint64)
    place = np.empty(1 << DIGIT_BITS, np.int64)
    mask = np.uint64((1 << DIGIT_BITS) - 1)
    for shift in range(0, 64, DIGIT_BITS):
        s = np.uint64(shift)
        if span >> s == np.uint64(0):
            break
        place[:] = 0
        for i in range(n):
            place[(digits[i] >> s) & mask] += 1
        total = 0
        for d in range(len(place)):
            count = place[d]
            place[d] = total
            total += count
        for i in range(n):
            d = (digits[i] >> s) & mask
            at = place[d]
            place[d] = at + 1
            digits_there[at] = digits[i]
            there[at] = here[i]
        digits, digits_there = digits_there, digits
        here, there = there, here
    return here


@kernel
def merge_runs(
    key_a: Int64s,
    row_a: Int32s,
    group_a: Int64s | None,
    size_a: int,
    key_b: Int64s,
    row_b: Int32s,
    group_b: Int64s | None,
    size_b: int,
    key: Int64s,
    row: Int32s,
    group: Int64s | None,
) -> None:
    """Merge run *a* and run *b* into ``key``, ``row`` and ``group`` (with padding); ties: *a* first."""
    i = 0
    j = 0
    o = 0
    while i < size_a and j < size_b:
        if group_a is not None:
            first = group_a[i] < group_b[j] or (group_a[i] == group_b[j] and key_a[i] <= key_b[j])
            group[o] = group_a[i] if first else group_b[j]
        else:
            first = key_a[i] <= key_b[j]
        key[o] = key_a[i] if first else key_b[j]
        row[o] = row_a[i] if first else row_b[j]
        i += first
        j += not first
        o += 1
    rest = size_a - i
    key[o : o + rest] = key_a[i:size_a]
    row[o : o + rest] = row_a[i:size_a]
    if group_a is not None:
        group[o : o + rest] = group_a[i:size_a]
    o += rest
    rest = size_b - j
    key[o : o + rest] = key_b[j:size_b]
    row[o : o + rest] = row_b[j:size_b]
    if group_a is not None:
        group[o : o + rest] = group_b[j:size_b]
    o += rest
    key[o:] = INT64_MAX
    if group_a is not None:
        group[o:] = INT64_MAX


@kernel
def sample_run(key: Int64s, size: int) -> Int64s:
    """Return the index of a run: every ``BLOCK``-th of its ``size`` keys."""
    return key[0:size:BLOCK].copy()


@kernel
def _blocks_below(
    index: Int64s, group_index: Int64s | None, bound: Int64s, group: Int64s | None, block: Int64s
) -> None:
    """Write to ``block`` the first position of the block in which each (sorted) bound's lower end lies."""
    n = len(index)
    p = 0  # index entries known to be below the bound
    for q in range(len(bound)):
        b = bound[q]
        step = 1
        # forward phase: double the step
        while p + step <= n:
            at = p + step - 1
            if group_index is not None:
                below = group_index[at] < group[q] or (group_index[at] == group[q] and index[at] < b)
            else:
                below = index[at] < b
            if not below:
                break
            p += step
            step <<= 1
        # backward phase: halve it
        step >>= 1
        while step > 0:
            at = p + step - 1
            if at < n:
                if group_index is not None:
                    below = group_index[at] < group[q] or (group_index[at] == group[q] and index[at] < b)
                else:
                    below = index[at] < b
                if below:
                    p += step
            step >>= 1
        block[q] = (p - 1) << SHIFT if p > 0 else 0


@kernel
def find_ranges(
    key: Int64s,
    group: Int64s | None,
    size: int,
    index: Int64s,
    group_index: Int64s | None,
    lo: Int64s,
    hi: Int64s,
    probe_group: Int64s | None,
    start: Int64s,
    end: Int64s,
) -> int:
    """Write the half-open range of every probe to ``start`` and ``end``; return the number of matches."""
    m = len(lo)
    _blocks_below(index, group_index, lo, probe_group, start)
    open_ended = 0
    for q in range(m):
        if q + AHEAD < m:
            at = start[q + AHEAD]
            prefetch(key, at)
            prefetch(key, at + 8)
            if group is not None:
                prefetch(group, at)
                prefetch(group, at + 8)
        base = start[q]
        block = key[base : base + BLOCK]
        a = lo[q]
        b = hi[q]
        below = 0
        up_to = 0
        if group is not None:
            g = probe_group[q]
            groups = group[base : base + BLOCK]
            for u in range(BLOCK):
                below += (groups[u] < g) | ((groups[u] == g) & (block[u] < a))
                up_to += (groups[u] < g) | ((groups[u] == g) & (block[u] <= b))
        else:
            for u in range(BLOCK):
                below += block[u] < a
                up_to += block[u] <= b
        start[q] = min(base + below, size)
        if up_to == BLOCK and base + BLOCK < size:
            end[q] = -1 - base  # continues in a later block: the block is kept for the second search
            open_ended += 1
        else:
            end[q] = max(min(base + up_to, size), start[q])
    if open_ended:
        _close_ranges(key, group, size, index, group_index, hi, probe_group, end, start)
    total = 0
    for q in range(m):
        total += end[q] - start[q]
    return total


@kernel
def _close_ranges(
    key: Int64s,
    group: Int64s | None,
    size: int,
    index: Int64s,
    group_index: Int64s | None,
    hi: Int64s,
    probe_group: Int64s | None,
    end: Int64s,
    start: Int64s,
) -> None:
    """Find the upper end of the ranges that leave their first block (``end < 0``), the same way as the lower."""
    n = len(index)
    m = len(hi)
    p = 0  # index entries known to be at most the bound
    for q in range(m):
        if end[q] >= 0:
            continue
        p = max(p, ((-1 - end[q]) >> SHIFT) + 1)
        b = hi[q]
        step = 1
        while p + step <= n:
            at = p + step - 1
            if group_index is not None:
                below = group_index[at] < probe_group[q] or (group_index[at] == probe_group[q] and index[at] <= b)
            else:
                below = index[at] <= b
            if not below:
                break
            p += step
            step <<= 1
        step >>= 1
        while step > 0:
            at = p + step - 1
            if at < n:
                if group_index is not None:
                    below = group_index[at] < probe_group[q] or (group_index[at] == probe_group[q] and index[at] <= b)
                else:
                    below = index[at] <= b
                if below:
                    p += step
            step >>= 1
        end[q] = -1 - ((p - 1) << SHIFT)
    for q in range(m):
        if q + AHEAD < m and end[q + AHEAD] < 0:
            at = -1 - end[q + AHEAD]
            prefetch(key, at)
            prefetch(key, at + 8)
            if group is not None:
                prefetch(group, at)
                prefetch(group, at + 8)
        if end[q] >= 0:
            continue
        base = -1 - end[q]
        block = key[base : base + BLOCK]
        b = hi[q]
        up_to = 0
        if group is not None:
            g = probe_group[q]
            groups = group[base : base + BLOCK]
            for u in range(BLOCK):
                up_to += (groups[u] < g) | ((groups[u] == g) & (block[u] <= b))
        else:
            for u in range(BLOCK):
                up_to += block[u] <= b
        end[q] = max(min(base + up_to, size), start[q])


@kernel
def expand_ranges(
    start: Int64s, end: Int64s, count: int, who: Int32s, row: Int32s
) -> tuple[Int32s, Int32s]:
    """Return the ``count`` index pairs that the ranges stand for."""
    pair_who = np.empty(count, np.int32)
    pair_row = np.empty(count, np.int32)
    o = 0
    for q in range(len(start)):
        for j in range(start[q], end[q]):
            pair_who[o] = who[q]
            pair_row[o] = row[j]
            o += 1
    return pair_who, pair_row
