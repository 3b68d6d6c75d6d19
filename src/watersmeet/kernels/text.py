"""Strings as int64: a hash for equality; for order the first eight bytes, or those behind a shared prefix.

String *i* is ``data[offset[i]:offset[i+1]]``.
"""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Bytes, Int32s, Int64s
from watersmeet.kernels.compile import kernel

__all__ = ["hash_strings", "mix_hashes", "prefix_strings", "rank_strings"]

Offsets = Int32s | Int64s

FIRST = np.uint64(0xCBF29CE484222325)
FACTOR = np.uint64(0x9E3779B97F4A7C15)
SIGN = np.uint64(1 << 63)


@kernel
def _scramble(h: np.uint64) -> np.uint64:
    """Spread every bit of ``h`` over all others (the finaliser of SplitMix64)."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@kernel
def hash_strings(offset: Offsets, data: Bytes) -> Int64s:
    """Return a 64-bit hash of every string; each step takes eight bytes."""
    n = len(offset) - 1
    result = np.empty(n, np.int64)
    for i in range(n):
        h = FIRST ^ np.uint64(offset[i + 1] - offset[i])
        word = np.uint64(0)
        filled = 0
        for j in range(offset[i], offset[i + 1]):
            word = (word << np.uint64(8)) | np.uint64(data[j])
            filled += 1
            if filled == 8:
                h = _scramble(h ^ word) * FACTOR
                word = np.uint64(0)
                filled = 0
        result[i] = np.int64(_scramble(h ^ word))
    return result


@kernel
def prefix_strings(offset: Offsets, data: Bytes) -> Int64s:
    """Return the first eight bytes of every string as a number: ``a < b`` implies ``prefix(a) <= prefix(b)``."""
    n = len(offset) - 1
    result = np.empty(n, np.int64)
    for i in range(n):
        word = np.uint64(0)
        for j in range(8):
            at = offset[i] + j
            byte = np.uint64(data[at]) if at < offset[i + 1] else np.uint64(0)
            word = (word << np.uint64(8)) | byte
        result[i] = np.int64(word ^ SIGN)
    return result


@kernel
def rank_strings(
    offset: Offsets, data: Bytes, border_offset: Int64s, border_data: Bytes, shared: Int64s, bits: int
) -> Int64s:
    """Return numbers in the order of the strings: ``a < b`` implies ``rank(a) <= rank(b)``, with any borders.

    The upper ``bits`` are the number *i* of sorted borders that are not above the string. The others are the string's
    bytes behind the prefix of ``shared[i]`` bytes that the borders next to it share. They are all zeros (or all ones)
    for a string that lies below (or above) all strings with that prefix.
    """
    n = len(offset) - 1
    borders = len(border_offset) - 1
    result = np.empty(n, np.int64)
    for i in range(n):
        begin = np.int64(offset[i])
        size = np.int64(offset[i + 1]) - begin
        low = 0
        high = borders
        while low < high:
            middle = (low + high) // 2
            other = border_offset[middle]
            other_size = border_offset[middle + 1] - other
            at = 0
            while at < size and at < other_size and data[begin + at] == border_data[other + at]:
                at += 1
            if at == other_size or (at < size and data[begin + at] > border_data[other + at]):
                low = middle + 1
            else:
                high = middle
        other = border_offset[max(low - 1, 0)]
        skip = shared[low]
        at = 0
        while at < skip and at < size and data[begin + at] == border_data[other + at]:
            at += 1
        word = np.uint64(0)
        if at == skip:
            for j in range(skip, skip + 8):
                byte = np.uint64(data[begin + j]) if j < size else np.uint64(0)
                word = (word << np.uint64(8)) | byte
        elif at < size and data[begin + at] > border_data[other + at]:
            word = ~word
        result[i] = np.int64(((np.uint64(low) << np.uint64(64 - bits)) | (word >> np.uint64(bits))) ^ SIGN)
    return result


@kernel
def mix_hashes(seed: Int64s, key: Int64s) -> Int64s:
    """Return one hash for two columns of keys."""
    result = np.empty(len(key), np.int64)
    for i in range(len(key)):
        result[i] = np.int64(_scramble((np.uint64(seed[i]) * FACTOR) ^ np.uint64(key[i])))
    return result
