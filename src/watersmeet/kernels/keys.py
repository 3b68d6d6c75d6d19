"""Arithmetic on keys: order-preserving bits of floats, ranges that end at the limits of int64, checks of pairs."""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.kernels.atomic import add, array_at
from watersmeet.kernels.compile import kernel
from watersmeet.kernels.team import job, run, stretches

__all__ = [
    "ends_of",
    "keep_pairs_in_count_window",
    "keep_pairs_in_ranges",
    "make_monotone",
    "order_bits",
    "shift_ranges",
    "shift_stretch",
    "shifted",
]


SHIFT = 10
"""Words of arguments."""
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
def ends_of(numbers: Int64s) -> tuple[int, int]:
    """Return the smallest and the largest of numbers (at least one)."""
    low = high = numbers[0]
    for number in numbers:
        low = min(low, number)
        high = max(high, number)
    return low, high


@kernel
def shifted(k: np.int64, low: int, has_low: bool, high: int, has_high: bool) -> tuple[np.int64, np.int64]:
    """Return the range from a key plus ``low`` to it plus ``high``; one that is beyond 64 bits is empty."""
    a = INT64_MIN
    b = INT64_MAX
    if has_low:
        # Compared before adding: LLVM assumes that a sum never wraps, and would drop a check of the sum.
        if low > 0 and k > INT64_MAX - low:
            return INT64_MAX, INT64_MIN
        if low >= 0 or k >= INT64_MIN - low:
            a = k + low
    if has_high:
        if high < 0 and k < INT64_MIN - high:
            return INT64_MAX, INT64_MIN
        if high <= 0 or k <= INT64_MAX - high:
            b = k + high
    return a, b


@job
def shift_stretch(arguments: int, number: int) -> None:
    """Write the ranges of a stretch of the keys, and how many are empty."""
    given = array_at(arguments, SHIFT, np.int64)
    rows, pieces = given[0], given[1]
    key = array_at(given[2], rows, np.int64)
    lo = array_at(given[3], rows, np.int64)
    hi = array_at(given[4], rows, np.int64)
    empty = 0
    for i in range(rows * number // pieces, rows * (number + 1) // pieces):
        lo[i], hi[i] = shifted(key[i], given[6], given[7] != 0, given[8], given[9] != 0)
        empty += lo[i] > hi[i]
    add(given[5], empty)


@kernel
def shift_ranges(
    team: int, function: int, key: Int64s, low: int, has_low: bool, high: int, has_high: bool
) -> tuple[Int64s, Int64s, int]:
    """Return the range of each key (:func:`shifted`), as two arrays, and the number of empty ones."""
    lo, hi, empty = np.empty(len(key), np.int64), np.empty(len(key), np.int64), np.zeros(1, np.int64)
    given = np.empty(SHIFT, np.int64)
    given[0] = len(key)
    given[1] = stretches(team, len(key))
    given[2] = key.ctypes.data
    given[3] = lo.ctypes.data
    given[4] = hi.ctypes.data
    given[5] = empty.ctypes.data
    given[6] = low
    given[7] = has_low
    given[8] = high
    given[9] = has_high
    run(team, function, given, given[1])
    return lo, hi, empty[0]


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
