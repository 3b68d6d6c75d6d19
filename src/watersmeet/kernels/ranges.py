"""Ranges of keys: find them in sorted keys, turn them into index pairs.

Cost. Finding a range takes three steps (PanJoin, sections III-D and III-E, with one more level of index):

1. a rebounding search on the top, which walks forward with the sorted batch, with a cursor for each end of the range;
2. one line of the index for each end, counted without a branch;
3. one line of the keys for each end, counted likewise.

Each step runs ``AHEAD`` probes before the next step and prefetches what that reads. So the memory's latency is paid
once for several probes, while others are computed. A range costs nearly the same however many rows lie in it and
however many keys there are; the two ends of a short range share their cache lines.

A batch that is nearly as long as the keys, or longer, is merged with them instead (:func:`merge_ranges`). That reads
both from end to end, but takes only a few instructions per key, and no branch that must be predicted.
"""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels.compile import kernel
from watersmeet.kernels.instructions import LINE, count_flags, flags_at, flags_before, flags_up_to, prefetch
from watersmeet.kernels.sorted_keys import SHIFT

__all__ = ["expand_ranges", "find_ranges", "merge_ranges"]


AHEAD = 24
LINEAR_STEPS = 32


@kernel
def _before(
    key: Int64s, equality: Int64s | None, at: int, bound_equality: np.int64, bound: np.int64, inclusive: bool
) -> bool:
    """Tell whether entry ``at`` lies below the bound, or with ``inclusive`` on it."""
    if equality is not None and equality[at] != bound_equality:
        return bool(equality[at] < bound_equality)
    return bool(key[at] <= bound) if inclusive else bool(key[at] < bound)


@kernel
def _walk(
    key: Int64s,
    equality: Int64s | None,
    size: int,
    begin: int,
    bound_equality: np.int64,
    bound: np.int64,
    inclusive: bool,
) -> int:
    """Return the first entry from ``begin`` on that is not before the bound, by a rebounding search.

    In a dense batch neighbours are a few steps apart, so it walks first. Then the step is doubled, and halved again.
    """
    p = begin
    walked = min(size, begin + LINEAR_STEPS)
    while p < walked and _before(key, equality, p, bound_equality, bound, inclusive):
        p += 1
    if p < walked:
        return p
    step = 1
    while p + step <= size and _before(key, equality, p + step - 1, bound_equality, bound, inclusive):
        p += step
        step <<= 1
    step >>= 1
    while step > 0:
        if p + step <= size and _before(key, equality, p + step - 1, bound_equality, bound, inclusive):
            p += step
        step >>= 1
    return p


@kernel
def _count(
    key: Int64s, equality: Int64s | None, begin: int, bound_equality: np.int64, bound: np.int64, inclusive: bool
) -> int:
    """Count the entries of the line at ``begin`` that lie before the bound, without a branch."""
    before = flags_up_to(key, begin, bound) if inclusive else flags_before(key, begin, bound)
    if equality is not None:
        before = flags_before(equality, begin, bound_equality) | (flags_at(equality, begin, bound_equality) & before)
    return int(count_flags(before))


@kernel
def _line_of(position: int) -> int:
    """Return where the line begins, in the level below, that has the last entry before ``position``."""
    return max(position - 1, 0) << SHIFT


@kernel
def find_ranges(
    key: Int64s,
    equality: Int64s | None,
    size: int,
    index: Int64s,
    equality_index: Int64s | None,
    top: Int64s,
    equality_top: Int64s | None,
    lo: Int64s,
    hi: Int64s,
    probe_equality: Int64s | None,
    who: Int32s,
    start: Int64s,
    end: Int64s,
    asking: Int32s,
) -> tuple[int, int]:
    """Write every probe's half-open range to ``start`` and ``end``; return the numbers of ranges and of matches.

    Only ranges that are not empty are written, one behind the other. ``asking[i]`` is the ``who`` of range *i*.
    """
    m = len(lo)
    index_size = (size + LINE - 1) >> SHIFT
    top_size = (index_size + LINE - 1) >> SHIFT
    g = np.int64(0)
    lower = 0
    upper = 0
    hits = 0
    total = 0
    for step in range(m + 2 * AHEAD):
        q = step
        if q < m:  # walk the top level; the lines of the index are fetched before the next step needs them
            if probe_equality is not None:
                g = probe_equality[q]
            lower = _walk(top, equality_top, top_size, lower, g, lo[q], False)
            upper = _walk(top, equality_top, top_size, max(lower, upper), g, hi[q], True)
            first = _line_of(lower)
            last = _line_of(upper)
            prefetch(index, first)
            prefetch(index, last)
            if equality is not None:
                prefetch(equality_index, first)
                prefetch(equality_index, last)
            start[q] = first
            end[q] = last
        q = step - AHEAD
        if 0 <= q < m:  # count in the index; the lines of the keys are fetched before the next step needs them
            if probe_equality is not None:
                g = probe_equality[q]
            first = start[q]
            last = end[q]
            first = _line_of(min(first + _count(index, equality_index, first, g, lo[q], False), index_size))
            last = _line_of(min(last + _count(index, equality_index, last, g, hi[q], True), index_size))
            prefetch(key, first)
            prefetch(key, last)
            if equality is not None:
                prefetch(equality, first)
                prefetch(equality, last)
            start[q] = first
            end[q] = last
        q = step - 2 * AHEAD
        if q < 0:
            continue
        if probe_equality is not None:
            g = probe_equality[q]
        first = start[q]
        last = end[q]
        first = min(first + _count(key, equality, first, g, lo[q], False), size)
        last = min(last + _count(key, equality, last, g, hi[q], True), size)
        # Always written, kept only if not empty: no branch that is mispredicted when matches are rare.
        start[hits] = first
        end[hits] = last
        asking[hits] = who[q]
        matches = max(last - first, 0)
        hits += matches > 0
        total += matches
    return hits, total


@kernel
def _compare(
    key: Int64s, equality: Int64s | None, at: int, bound_equality: np.int64, lo: np.int64, hi: np.int64
) -> tuple[bool, bool]:
    """Tell without a branch whether entry ``at`` lies before a range, and whether it lies in it."""
    before = key[at] < lo
    inside = (not before) & (key[at] <= hi)
    if equality is not None:
        same = equality[at] == bound_equality
        return (equality[at] < bound_equality) | (same & before), same & inside
    return before, inside


@kernel
def _merge_rest(
    key: Int64s,
    equality: Int64s | None,
    size: int,
    p: int,
    lo: Int64s,
    hi: Int64s,
    probe_equality: Int64s | None,
    q: int,
    last: int,
    start: Int64s,
    asking: Int32s,
    hits: int,
) -> int:
    """Merge the keys from ``p`` on with the probes from ``q`` to ``last``; return the number of hits so far."""
    g = np.int64(0)
    while q < last and p < size:
        if probe_equality is not None:
            g = probe_equality[q]
        before, inside = _compare(key, equality, p, g, lo[q], hi[q])
        start[hits] = p
        asking[hits] = q
        hits += inside
        p += before
        q += not before
    return hits


@kernel
def merge_ranges(
    key: Int64s,
    equality: Int64s | None,
    size: int,
    lo: Int64s,
    hi: Int64s,
    probe_equality: Int64s | None,
    who: Int32s,
    start: Int64s,
    end: Int64s,
    asking: Int32s,
) -> tuple[int, int]:
    """Do what :func:`find_ranges` does, by merging the lower ends of the probes with the keys.

    Every step passes a key that lies before its probe, or passes that probe. Both halves of the probes are merged at
    the same time: two chains of steps that do not wait for each other. A walk then finds the upper ends of those that
    hit.
    """
    m = len(lo)
    half = m >> 1
    g = np.int64(0)
    other_g = np.int64(0)
    if m == 0:
        return 0, 0
    if probe_equality is not None:
        g = probe_equality[0]
        other_g = probe_equality[half]
    p = _walk(key, equality, size, 0, g, lo[0], False)  # the probes may be a stretch of those of a batch
    q = 0
    hits = 0
    other_p = _walk(key, equality, size, 0, other_g, lo[half], False)
    other_q = half
    other_hits = half  # behind all hits that the first half can have
    while q < half and p < size and other_q < m and other_p < size:
        if probe_equality is not None:
            g = probe_equality[q]
            other_g = probe_equality[other_q]
        before, inside = _compare(key, equality, p, g, lo[q], hi[q])
        other_before, other_inside = _compare(key, equality, other_p, other_g, lo[other_q], hi[other_q])
        start[hits] = p  # always written, kept only if it is a hit
        asking[hits] = q
        hits += inside
        p += before
        q += not before
        start[other_hits] = other_p
        asking[other_hits] = other_q
        other_hits += other_inside
        other_p += other_before
        other_q += not other_before
    hits = _merge_rest(key, equality, size, p, lo, hi, probe_equality, q, half, start, asking, hits)
    other_hits = _merge_rest(
        key, equality, size, other_p, lo, hi, probe_equality, other_q, m, start, asking, other_hits
    )
    total = 0
    last = 0
    for i in range(hits + other_hits - half):
        at = i if i < hits else i - hits + half
        first = start[at]
        q = asking[at]
        if probe_equality is not None:
            g = probe_equality[q]
        last = _walk(key, equality, size, max(first + 1, last), g, hi[q], True)
        start[i] = first
        end[i] = last
        asking[i] = who[q]
        total += last - first
    return hits + other_hits - half, total


@kernel
def expand_ranges(start: Int64s, end: Int64s, who: Int32s, row: Int32s, pair_who: Int32s, pair_row: Int32s) -> None:
    """Write the index pairs of the ranges."""
    o = 0
    m = len(start)
    for q in range(m):
        if q + AHEAD < m:
            prefetch(row, start[q + AHEAD])
        for j in range(start[q], end[q]):
            pair_who[o] = who[q]
            pair_row[o] = row[j]
            o += 1
