"""Arithmetic on keys: order-preserving bits of floats, ranges that end at the limits of int64, checks of pairs."""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.kernels.compile import kernel

__all__ = ["keep_pairs_in_count_window", "keep_pairs_in_ranges", "make_monotone", "order_bits", "shift_ranges"]


INT64_MIN = np.int64(-(2**63))
INT64_MAX = np.int64(2**63 - 1)


@kernel
def order_bits(bits: Int64s) -> Int64s:
    """Return float64 bit patterns as integers in the floats' order: of negative numbers all other bits are flipped.

    Both zeros become one, and all NaNs become one above infinity, as Spark orders them.
    """
    result = np.empty(len(bits), np.int64)
    for i in range(len(bits)):
        b = bits[i]
        size = b & INT64_MAX
        if size == 0:
            b = np.int64(0)
        elif size > np.int64(0x7FF0000000000000):
            b = np.int64(0x7FF8000000000000)
        result[i] = b ^ ((b >> 63) & INT64_MAX)
    return result


@kernel
def shift_ranges(key: Int64s, low: int, has_low: bool, high: int, has_high: bool, lo: Int64s, hi: Int64s) -> int:
    """Write ``[key + low, key + high]``, cut to int64, to ``lo`` and ``hi``; return the number of empty ranges.

    A range beyond the last int64 is empty and is written as ``lo > hi``.
    """
    empty = 0
    for i in range(len(key)):
        k = key[i]
        a = INT64_MIN
        b = INT64_MAX
        if has_low:
            # Compared before adding: LLVM assumes that a sum never wraps, and would drop a check of the sum.
            if low > 0 and k > INT64_MAX - low:
                a = INT64_MAX
                b = INT64_MIN
                empty += 1
            elif low >= 0 or k >= INT64_MIN - low:
                a = k + low
        if has_high and a <= b:
            if high < 0 and k < INT64_MIN - high:
                a = INT64_MAX
                b = INT64_MIN
                empty += 1
            elif high <= 0 or k <= INT64_MAX - high:
                b = k + high
        lo[i] = a
        hi[i] = b
    return empty


@kernel
def keep_pairs_in_ranges(who: Int32s, row: Int32s, lo: Int64s, hi: Int64s, key: Int64s, keep: Bools) -> int:
    """Set ``keep[i]`` if the key of row ``row[i]`` lies in the range of ``who[i]``; return how many do."""
    kept = 0
    for i in range(len(who)):
        k = key[row[i]]
        w = who[i]
        inside = (lo[w] <= k) & (k <= hi[w])
        keep[i] |= inside
        kept += inside
    return kept


@kernel
def keep_pairs_in_count_window(
    who: Int32s,
    row: Int32s,
    stored_sequence: Int64s,
    stored_seen: Int64s,
    stored_length: int,
    sequence: Int64s,
    seen: Int64s,
    length: int,
    keep: Bools,
) -> int:
    """Clear ``keep[i]`` unless the earlier row of pair *i* was in its window when the later one arrived.

    Each row has its number, its ``sequence``, and how many rows of the other stream it had ``seen``, since either of
    the two rows may be the later one. The windows' lengths are those of the stored stream and of the probing one.
    """
    kept = 0
    for i in range(len(who)):
        s = stored_sequence[row[i]]
        w = who[i]
        inside = seen[w] - s <= stored_length if s < seen[w] else stored_seen[row[i]] - sequence[w] <= length
        keep[i] &= inside
        kept += keep[i]
    return kept


@kernel
def make_monotone(equality: Int64s | None, lo: Int64s, hi: Int64s) -> None:
    """Widen ranges so that both ends are non-decreasing among those with one equality key."""
    n = len(lo)
    for i in range(1, n):
        if equality is not None and equality[i] != equality[i - 1]:
            continue
        hi[i] = max(hi[i], hi[i - 1])
    for i in range(n - 2, -1, -1):
        if equality is not None and equality[i] != equality[i + 1]:
            continue
        lo[i] = min(lo[i], lo[i + 1])
