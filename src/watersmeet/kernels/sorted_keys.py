"""Sorted keys: sort a batch, merge two arrays.

:mod:`watersmeet.kernels.ranges` finds ranges of keys in them, :mod:`watersmeet.kernels.sorting` lets a team make them.

*Sorted keys* are a sorted int64 array of ``size`` keys, followed by ``LINE`` keys of padding (the largest int64), so
that the last line can be read as a whole. The array begins on a cache line (:func:`empty_keys`). Its *index* has the
first key of every line, and its *top* the first key of every line of the index. An optional ``equality`` array of the
same length makes the order ``(equality, key)``. Without one it is ``None``, and Numba compiles its code away.
"""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels.compile import kernel
from watersmeet.kernels.instructions import LINE
from watersmeet.kernels.team import address_of

__all__ = ["LINE", "SHIFT", "empty_keys", "merge_keys", "sort_keys"]


SHIFT = LINE.bit_length() - 1
"""A position shifted right by this is the number of its line."""
CACHE_LINE = 64
INT64_MAX = np.int64(2**63 - 1)
DIGIT_BITS = 11


def empty_keys(size: int) -> Int64s:
    """Return an array for ``size`` keys and their padding that begins on a cache line."""
    raw = np.empty(size + LINE + CACHE_LINE // 8, np.int64)
    first = (-address_of(raw) % CACHE_LINE) // raw.itemsize
    return raw[first : first + size + LINE]


@kernel
def sort_keys(key: Int64s, order: Int32s) -> Int32s:
    """Return ``order`` permuted so that ``key[result]`` is sorted. It is stable, so sorting twice sorts by two keys.

    It is a least-significant-digit radix sort of ``key - min(key)``, with one pass per digit of the keys' span.
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
    next_at = np.empty(1 << DIGIT_BITS, np.int64)
    mask = np.uint64((1 << DIGIT_BITS) - 1)
    for shift in range(0, 64, DIGIT_BITS):
        s = np.uint64(shift)
        if span >> s == np.uint64(0):
            break
        next_at[:] = 0
        for i in range(n):
            next_at[(digits[i] >> s) & mask] += 1
        total = 0
        for d in range(len(next_at)):
            count = next_at[d]
            next_at[d] = total
            total += count
        for i in range(n):
            d = (digits[i] >> s) & mask
            at = next_at[d]
            next_at[d] = at + 1
            digits_there[at] = digits[i]
            there[at] = here[i]
        digits, digits_there = digits_there, digits
        here, there = there, here
    return here


@kernel
def merge_keys(
    key_a: Int64s,
    row_a: Int32s,
    equality_a: Int64s | None,
    size_a: int,
    key_b: Int64s,
    row_b: Int32s,
    equality_b: Int64s | None,
    size_b: int,
    key: Int64s,
    row: Int32s,
    equality: Int64s | None,
) -> None:
    """Merge *a* and *b* into ``key``, ``row`` and ``equality``, with padding; of equal keys those of *a* come first.

    Each step writes the smallest and the largest row that is left: two chains of comparisons that do not wait for each
    other. A row that has just been written to the front is never written to the back again: it is no larger than any
    row of the other array.
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
        if equality is not None:
            if equality_a[first_a] != equality_b[first_b]:
                take_a = equality_a[first_a] < equality_b[first_b]
        key[front] = x if take_a else y
        row[front] = row_a[first_a] if take_a else row_b[first_b]
        if equality is not None:
            equality[front] = equality_a[first_a] if take_a else equality_b[first_b]
        first_a += take_a
        first_b += not take_a
        front += 1
        x = key_a[last_a]
        y = key_b[last_b]
        take_b = x <= y
        if equality is not None:
            if equality_a[last_a] != equality_b[last_b]:
                take_b = equality_a[last_a] < equality_b[last_b]
        key[back] = y if take_b else x
        row[back] = row_b[last_b] if take_b else row_a[last_a]
        if equality is not None:
            equality[back] = equality_b[last_b] if take_b else equality_a[last_a]
        last_b -= take_b
        last_a -= not take_b
        back -= 1
    # What is left is the rest of one array.
    end = front + last_a - first_a + 1
    key[front:end] = key_a[first_a : last_a + 1]
    row[front:end] = row_a[first_a : last_a + 1]
    if equality is not None:
        equality[front:end] = equality_a[first_a : last_a + 1]
    front = end
    end = front + last_b - first_b + 1
    key[front:end] = key_b[first_b : last_b + 1]
    row[front:end] = row_b[first_b : last_b + 1]
    if equality is not None:
        equality[front:end] = equality_b[first_b : last_b + 1]
    key[size_a + size_b :] = INT64_MAX
    if equality is not None:
        equality[size_a + size_b :] = INT64_MAX
