"""A batch meets all sorted arrays of a window at once: find ranges, turn them into pairs, keep those that hold.

The unit of work is a *piece*, a stretch of the sorted probes in one array. Whoever of a team
(:mod:`watersmeet.kernels.team`) takes it does all of that, while it is in the cache of one core: the ranges are written
to memory that the piece has for itself, and so are the pairs, some of them at a time, which are checked at once. What
the checks read of stored rows has been asked for when the pairs were written. A second job puts the pieces' pairs one
behind the other, in the order of the arrays, and of the probes in each: so nothing depends on who did what.

A piece that finds too many pairs gives none, and says how many they were: the caller finds them some at a time.

Arrays and checks are given as tables of words, because they may be many and their memory is somebody else's.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.kernels.atomic import array_at, free, malloc
from watersmeet.kernels.compile import kernel
from watersmeet.kernels.instructions import prefetch
from watersmeet.kernels.keys import shifted
from watersmeet.kernels.ranges import AHEAD, find_ranges, merge_ranges
from watersmeet.kernels.sorted_keys import LINE, SHIFT
from watersmeet.kernels.team import address_of, hold, job, run

__all__ = [
    "CHECK",
    "DESCRIBED",
    "close_gaps",
    "count_check",
    "meet_arrays",
    "meet_piece",
    "meet_piece_by_two_keys",
    "range_check",
    "shift_check",
]

DESCRIBED: Final = 12
"""Words of an array: its keys, equality keys (0: none), size, index, index of the equality keys, top, top of these, row
numbers; whether it is merged with the probes; then the first row that counts, and its checks from one to another."""
Words = tuple[int, ...]
CHECK: Final = 8
"""Words of a check: its kind, whether it is the last of those of which one must hold, and what it reads."""
RANGE: Final = 0
SHIFTED: Final = 1
COUNT: Final = 2
ANY: Final = 1 << 31
"""The size of arrays of which only the address is known: rows have smaller numbers."""
BLOCK: Final = 256
"""Pairs that are checked at a time."""
MOST_PER_PROBE: Final = 16
MOST_ANYWAY: Final = 1 << 12
"""A piece gives at most so many candidates for each of its probes, and so many more."""
MET: Final = 12
GAPS: Final = 5
"""Words of arguments."""


def range_check(stored: Int64s, lo: Int64s, hi: Int64s, *, last: bool) -> Words:
    """Return the words of a check: a stored row's key lies in the range of the probing row."""
    return RANGE, last, address_of(stored), address_of(lo), address_of(hi), 0, 0, 0


def shift_check(
    stored: Int64s, probing: Int64s, low: int, has_low: bool, high: int, has_high: bool, *, last: bool
) -> Words:
    """Return the words of a check: a stored row's key lies between the probing row's, moved by ``low`` and ``high``."""
    return SHIFTED, last, address_of(stored), address_of(probing), low, high, has_low, has_high


def count_check(
    stored_sequence: Int64s, stored_seen: Int64s, stored_length: int, sequence: Int64s, seen: Int64s, length: int
) -> Words:
    """Return the words of a check: a count window's rule (see :mod:`watersmeet.kernels.keys`)."""
    stored = address_of(stored_sequence), address_of(stored_seen), stored_length
    return COUNT, True, *stored, address_of(sequence), address_of(seen), length


# --- check -----------------------------------------------------------------------------------------------------------


@kernel
def _check(check: Int64s, who: Int32s, row: Int32s, keep: Bools) -> None:
    """Set the flags of the pairs that a check lets through."""
    stored = array_at(check[2], ANY, np.int64)
    if check[0] == RANGE:
        lo = array_at(check[3], ANY, np.int64)
        hi = array_at(check[4], ANY, np.int64)
        for i in range(len(who)):
            k = stored[row[i]]
            w = who[i]
            keep[i] |= (lo[w] <= k) & (k <= hi[w])
    elif check[0] == SHIFTED:
        probing = array_at(check[3], ANY, np.int64)
        low, high, has_low, has_high = check[4], check[5], check[6] != 0, check[7] != 0
        for i in range(len(who)):
            k = stored[row[i]]
            first, last = shifted(probing[who[i]], low, has_low, high, has_high)
            keep[i] |= (first <= k) & (k <= last)
    else:
        stored_seen = array_at(check[3], ANY, np.int64)
        sequence = array_at(check[5], ANY, np.int64)
        seen = array_at(check[6], ANY, np.int64)
        for i in range(len(who)):
            s = stored[row[i]]
            w = who[i]
            keep[i] |= seen[w] - s <= check[4] if s < seen[w] else stored_seen[row[i]] - sequence[w] <= check[7]


@kernel
def _compress(
    words: Int64s, checks: Int64s, who: Int32s, row: Int32s, first: int, end: int, keep: Bools, some: Bools
) -> int:
    """Keep the pairs of a block that hold, one behind the other; return where they end."""
    count = end - first
    for i in range(count):
        keep[i] = row[first + i] >= words[9]
    some[:count] = False
    for number in range(words[10], words[11]):
        check = checks[number * CHECK : (number + 1) * CHECK]
        _check(check, who[first:end], row[first:end], some)
        if check[1] != 0:
            for i in range(count):
                keep[i] &= some[i]
                some[i] = False
    at = first
    for i in range(count):
        who[at] = who[first + i]
        row[at] = row[first + i]
        at += keep[i]
    return at


@kernel
def _expand(
    words: Int64s, checks: Int64s, start: Int64s, end: Int64s, asking: Int32s, hits: int, who: Int32s, row: Int32s
) -> int:
    """Write the pairs of some ranges that hold; return how many they are."""
    stored = array_at(words[7], words[2], np.int32)
    checked = words[9] > 0 or words[11] > words[10]
    keep, some = np.empty(BLOCK, np.bool_), np.empty(BLOCK, np.bool_)
    written, first = 0, 0
    for q in range(hits):
        if q + AHEAD < hits:
            prefetch(stored, start[q + AHEAD])
        for at in range(start[q], end[q]):
            r = stored[at]
            who[written] = asking[q]
            row[written] = r
            for c in range(words[10], words[11]):
                prefetch(array_at(checks[c * CHECK + 2], ANY, np.int64), r)
            written += 1
            if checked and written - first == BLOCK:
                first = _compress(words, checks, who, row, first, written, keep, some)
                written = first
    return _compress(words, checks, who, row, first, written, keep, some) if checked else written


# --- meet ------------------------------------------------------------------------------------------------------------


@job
def meet_piece(arguments: int, number: int) -> None:
    """Find the pairs of a piece."""
    _meet(arguments, number, None)


@job
def meet_piece_by_two_keys(arguments: int, number: int) -> None:
    """Find the pairs of a piece with arrays that have equality keys."""
    _meet(arguments, number, 0)


@kernel
def _meet(arguments: int, number: int, by_two_keys: int | None) -> None:
    """Find the pairs of a piece; the case that is not asked for is not compiled."""
    given = array_at(arguments, MET, np.int64)
    m, pieces = given[0], given[1]
    array = number // pieces
    begin = m * (number % pieces) // pieces
    count = m * (number % pieces + 1) // pieces - begin
    words = array_at(given[2] + 8 * DESCRIBED * array, DESCRIBED, np.int64)
    checks = array_at(given[3], words[11] * CHECK, np.int64)
    lo = array_at(given[4] + 8 * begin, count, np.int64)
    hi = array_at(given[5] + 8 * begin, count, np.int64)
    who = array_at(given[7] + 4 * begin, count, np.int32)
    start, end = np.empty(count, np.int64), np.empty(count, np.int64)
    asking = np.empty(count, np.int32)
    size = words[2]
    indexed = (size + LINE - 1) >> SHIFT
    topped = (indexed + LINE - 1) >> SHIFT
    key = array_at(words[0], size + LINE, np.int64)
    index = array_at(words[3], indexed + LINE, np.int64)
    top = array_at(words[5], topped + LINE, np.int64)
    if by_two_keys is None:
        if words[8] != 0:
            hits, total = merge_ranges(key, None, size, lo, hi, None, who, start, end, asking)
        else:
            hits, total = find_ranges(
                key, None, size, index, None, top, None, lo, hi, None, who, start, end, asking
            )  # fmt: skip
    else:
        probe_equality = array_at(given[6] + 8 * begin, count, np.int64)
        equality = array_at(words[1], size + LINE, np.int64)
        equality_index = array_at(words[4], indexed + LINE, np.int64)
        equality_top = array_at(words[6], topped + LINE, np.int64)
        if words[8] != 0:
            hits, total = merge_ranges(key, equality, size, lo, hi, probe_equality, who, start, end, asking)
        else:
            hits, total = find_ranges(
                key, equality, size, index, equality_index, top, equality_top, lo, hi, probe_equality, who, start, end,
                asking,
            )  # fmt: skip
    room = array_at(given[8], number + 1, np.int64)
    ends = array_at(given[9], number + 2, np.int64)
    totals = array_at(given[10], number + 1, np.int64)
    room[number], ends[number + 1], totals[number] = 0, 0, total
    if 0 < total <= MOST_PER_PROBE * count + MOST_ANYWAY:
        pairs = malloc(8 * total)
        room[number] = pairs
        if pairs != 0:
            own, met = array_at(pairs, total, np.int32), array_at(pairs + 4 * total, total, np.int32)
            ends[number + 1] = _expand(words, checks, start, end, asking, hits, own, met)


@job
def close_gaps(arguments: int, number: int) -> None:
    """Copy the pairs of a piece to where they belong, and free its memory."""
    given = array_at(arguments, GAPS, np.int64)
    source = array_at(given[0], number + 1, np.int64)[number]
    if source == 0:
        return
    ends = array_at(given[1], number + 2, np.int64)
    begin, count = ends[number], ends[number + 1] - ends[number]
    total = array_at(given[2], number + 1, np.int64)[number]
    array_at(given[3] + 4 * begin, count, np.int32)[:] = array_at(source, count, np.int32)
    array_at(given[4] + 4 * begin, count, np.int32)[:] = array_at(source + 4 * total, count, np.int32)
    free(source)


@kernel
def meet_arrays(
    team: int,
    functions: tuple[int, int],
    arrays: Int64s,
    checks: Int64s,
    lo: Int64s,
    hi: Int64s,
    equality: Int64s | None,
    who: Int32s,
    pieces: int,
    merged: int,
) -> tuple[Int32s, Int32s, Int64s, Int64s]:
    """Return the pairs of probes, cut into so many pieces, with several sorted arrays.

    Arrays with at most ``merged`` rows are merged with the probes. With the pairs come, for all pieces, where those of
    each end (behind a 0), and the candidates that a piece had too many of to give any, or 0.
    """
    count = len(arrays) // DESCRIBED * pieces
    room, totals = np.empty(count, np.int64), np.empty(count, np.int64)
    ends = np.zeros(count + 1, np.int64)
    for array in range(len(arrays) // DESCRIBED):
        arrays[array * DESCRIBED + 8] = arrays[array * DESCRIBED + 2] <= merged
    given = np.zeros(MET, np.int64)
    given[0] = len(lo)
    given[1] = pieces
    given[2] = arrays.ctypes.data
    given[3] = checks.ctypes.data
    given[4] = lo.ctypes.data
    given[5] = hi.ctypes.data
    if equality is not None:
        given[6] = equality.ctypes.data
    given[7] = who.ctypes.data
    given[8] = room.ctypes.data
    given[9] = ends.ctypes.data
    given[10] = totals.ctypes.data
    run(team, functions[0], given, count)
    for i in range(count):
        ends[i + 1] += ends[i]
    met_who, met_row = np.empty(ends[count], np.int32), np.empty(ends[count], np.int32)
    rest = np.empty(GAPS, np.int64)
    rest[0] = room.ctypes.data
    rest[1] = ends.ctypes.data
    rest[2] = totals.ctypes.data
    rest[3] = met_who.ctypes.data
    rest[4] = met_row.ctypes.data
    run(team, functions[1], rest, count)
    for i in range(count):
        if room[i] != 0:
            totals[i] = 0
    hold((room, totals, ends, met_who, met_row))
    return met_who, met_row, ends, totals
