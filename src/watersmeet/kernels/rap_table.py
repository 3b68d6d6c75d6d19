"""RaP-Table: find partitions, insert into them, adjust the splitters.

Partition ``p`` holds the keys with ``splitters[p - 1] < key <= splitters[p]``. The first has no lower bound and the
last no upper one, so P partitions have P - 1 splitters. Splitters may be equal; then partitions are empty.
"""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels.compile import kernel
from watersmeet.kernels.instructions import prefetch
from watersmeet.kernels.llat import Table, link_entry

__all__ = ["adjust_splitters", "find_partitions", "insert_rows"]


AHEAD = 16
LARGEST_STEP = 2.0**63 - 1024.0  # the largest float that an int64 can take


@kernel
def find_partitions(splitters: Int64s, bound: Int64s) -> Int32s:
    """Return the partition of every (sorted) bound by rebounding search (PanJoin, section III-E, Figure 6)."""
    n = len(splitters)
    partition = np.empty(len(bound), np.int32)
    p = 0  # splitters known to be below the bound
    for q in range(len(bound)):
        b = bound[q]
        step = 1
        # forward phase: double the step
        while p + step <= n and splitters[p + step - 1] < b:
            p += step
            step <<= 1
        # backward phase: halve it
        step >>= 1
        while step > 0:
            if p + step <= n and splitters[p + step - 1] < b:
                p += step
            step >>= 1
        partition[q] = p
    return partition


@kernel
def insert_rows(
    table: Table,
    width: int,
    used: int,
    count: Int64s,
    minimum: Int64s,
    maximum: Int64s,
    new_key: Int64s,
    new_row: Int32s,
    partition: Int32s,
) -> int:
    """Append sorted rows to their partitions and update the histograms.

    Returns
    -------
    The first unused entry (the paper's PtrG); ``used`` is the first one before the call.
    """
    key, row, start, fill, _, last = table
    n = len(new_key)
    i = 0
    while i < n:
        p = partition[i]
        j = i + 1
        while j < n and partition[j] == p:
            j += 1
        if j + AHEAD < n:
            later = last[partition[j + AHEAD]]
            prefetch(key, start[later] + fill[later])
            prefetch(row, start[later] + fill[later])
        count[p] += j - i
        minimum[p] = min(minimum[p], new_key[i])
        maximum[p] = max(maximum[p], new_key[j - 1])
        while i < j:
            entry = last[p]
            room = width - fill[entry]
            if room == 0:
                link_entry(table, p, used)
                used += 1
                continue
            take = min(room, j - i)
            at = start[entry] + fill[entry]
            for u in range(take):
                key[at + u] = new_key[i + u]
                row[at + u] = new_row[i + u]
            fill[entry] += take
            i += take
    return used


@kernel
def _interpolate(smallest: int, largest: int, fraction: float) -> int:
    """Return ``smallest + fraction * (largest - smallest)``, although the difference may not fit into an int64.

    The step is measured from the nearer end: it is at most half of the difference, which does fit.
    """
    fits = (smallest < 0) == (largest < 0)  # then exact even for a short range of huge keys, such as times
    span = float(largest - smallest) if fits else float(largest) - float(smallest)
    if fraction <= 0.5:
        value = smallest + int(min(fraction * span, LARGEST_STEP))
    else:
        value = largest - int(min((1.0 - fraction) * span, LARGEST_STEP))
    return int(max(smallest, min(largest, value)))


@kernel
def adjust_splitters(count: Int64s, minimum: Int64s, maximum: Int64s, partitions: int) -> Int64s:
    """Return splitters that would have cut the histogram evenly (PanJoin, Algorithm 1).

    The histogram may have another number of partitions than are asked for. Splitter ``j``, counted from 0, belongs to
    the paper's ``bal_{j+1} = N / P * (j + 1)``. All comparisons are multiplied by ``P`` and so exact.
    """
    total = np.sum(count)
    splitters = np.empty(partitions - 1, np.int64)
    sum_before = 0  # the paper's sum_{i-1}
    j = 0
    value = minimum[0]
    for i in range(len(count)):  # line 3
        if count[i] == 0:
            continue
        sum_here = sum_before + count[i]  # line 4
        while j < partitions - 1 and (j + 1) * total <= sum_here * partitions:  # lines 5 and 6
            fraction = ((j + 1) * total - sum_before * partitions) / (count[i] * partitions)
            here = _interpolate(minimum[i], maximum[i], fraction)  # line 7, with the "+ min_i" it lacks
            value = here if j == 0 else max(value, here)  # rounding must not swap two splitters
            splitters[j] = value
            j += 1  # line 8
        sum_before = sum_here
    return splitters
