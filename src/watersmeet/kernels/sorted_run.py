"""Sorted runs: sort a batch, merge two runs; :mod:`watersmeet.kernels.ranges` finds ranges of keys in them.

A *run* is a sorted int64 array of ``size`` keys followed by ``BLOCK`` keys of padding (the largest int64), so that a
block may be read whole at the end; it begins on a cache line (:func:`empty_run`), and a block is one line. Its *index*
holds the first key of every block, and its *top* the first key of every block of the index. An optional ``group`` array
of the same length makes the order ``(group, key)``; it is ``None`` otherwise, and Numba then compiles the group code
away.
"""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels.compile import kernel
from watersmeet.kernels.instructions import BLOCK

__all__ = ["BLOCK", "SHIFT", "empty_run", "merge_runs", "sample_run", "sort_keys"]


SHIFT = BLOCK.bit_length() - 1
"""A position shifted by this is its block's number."""
CACHE_LINE = 64
INT64_MAX = np.int64(2**63 - 1)
DIGIT_BITS = 11


def empty_run(size: int) -> Int64s:
    """Return room for ``size`` keys and their padding, beginning on a cache line."""
    raw = np.empty(size + BLOCK + CACHE_LINE // 8, np.int64)
    first = (-raw.ctypes.data % CACHE_LINE) // raw.itemsize
    return raw[first : first + size + BLOCK]


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
    """Merge run *a* and run *b* into ``key``, ``row`` and ``group`` (with padding); ties: *a* first.

    The smallest and the largest row left are written in turn: two chains of comparisons that do not wait for each
    other. A run that has just given its last row to the front cannot give it to the back too: that row is no larger
    than any of the other run's.
    """
    first_a = 0
    first_b = 0
    last_a = size_a - 1
    last_b = size_b - 1
    front = 0
    back = size_a + size_b - 1
    while front < back:
        if first_a > last_a or first_b > last_b:
            break
        x = key_a[first_a]
        y = key_b[first_b]
        take_a = x <= y
        if group is not None:
            if group_a[first_a] != group_b[first_b]:
                take_a = group_a[first_a] < group_b[first_b]
        key[front] = x if take_a else y
        row[front] = row_a[first_a] if take_a else row_b[first_b]
        if group is not None:
            group[front] = group_a[first_a] if take_a else group_b[first_b]
        first_a += take_a
        first_b += not take_a
        front += 1
        x = key_a[last_a]
        y = key_b[last_b]
        take_b = x <= y
        if group is not None:
            if group_a[last_a] != group_b[last_b]:
                take_b = group_a[last_a] < group_b[last_b]
        key[back] = y if take_b else x
        row[back] = row_b[last_b] if take_b else row_a[last_a]
        if group is not None:
            group[back] = group_b[last_b] if take_b else group_a[last_a]
        last_b -= take_b
        last_a -= not take_b
        back -= 1
    # What is left is the rest of one run.
    end = front + last_a - first_a + 1
    key[front:end] = key_a[first_a : last_a + 1]
    row[front:end] = row_a[first_a : last_a + 1]
    if group is not None:
        group[front:end] = group_a[first_a : last_a + 1]
    front = end
    end = front + last_b - first_b + 1
    key[front:end] = key_b[first_b : last_b + 1]
    row[front:end] = row_b[first_b : last_b + 1]
    if group is not None:
        group[front:end] = group_b[first_b : last_b + 1]
    key[size_a + size_b :] = INT64_MAX
    if group is not None:
        group[size_a + size_b :] = INT64_MAX


def sample_run(keys: Int64s, size: int) -> Int64s:
    """Return the first key of every block of a run, as a run of its own: padded, and beginning on a cache line."""
    count = -(-size // BLOCK)
    sample = empty_run(count)
    sample[:count] = keys[0:size:BLOCK]
    sample[count:] = INT64_MAX
    return sample
