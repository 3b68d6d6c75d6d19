"""Sort and merge by a team: the jobs around the kernels of :mod:`watersmeet.kernels.sorted_keys`.

*Sorting.* A sample of the keys gives borders, and each stretch of the rows is dealt out to the buckets between them;
then every bucket is sorted by itself. Rows keep their order within a bucket, so the result is the one stable order,
however many buckets there are. A key that is very frequent fills a bucket alone, which is sorted in no time.

*Merging.* What comes to a place of the result is found by a search of both arrays, so every stretch of the result is
merged by itself. Stretches end where a line of the top does, so each writes its own entries of index and top too.

Cost. Dealing out takes about as long as two passes of the sort, and spares one or two.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels.atomic import array_at
from watersmeet.kernels.compile import kernel
from watersmeet.kernels.sorted_keys import INT64_MAX, LINE, SHIFT, merge_keys, sort_keys
from watersmeet.kernels.team import hold, job, run, stretches

__all__ = [
    "deal_stretch",
    "look_at_stretch",
    "merge_stretch",
    "merge_stretch_by_two_keys",
    "merge_together",
    "sort_bucket",
    "sort_together",
]

SAMPLED: Final = 8
"""Sampled keys for each border."""
SORT: Final = 11
MERGE: Final = 16
"""Words of arguments."""


# --- sort ------------------------------------------------------------------------------------------------------------


@job
def look_at_stretch(arguments: int, number: int) -> None:
    """Find the bucket of each row of a stretch, and count them."""
    given = array_at(arguments, SORT, np.int64)
    rows, buckets = given[0], given[1]
    key = array_at(given[2], rows, np.int64)
    order = array_at(given[3], rows if given[3] else 0, np.int32)
    borders = array_at(given[4], buckets - 1, np.int64)
    bucket = array_at(given[5], rows, np.uint8)
    counts = array_at(given[6] + 8 * buckets * number, buckets, np.int64)
    counts[:] = 0
    for i in range(rows * number // buckets, rows * (number + 1) // buckets):
        k = key[order[i] if len(order) else i]
        at = 0
        step = 32
        while step > 0:
            if at + step < buckets:
                at += step if borders[at + step - 1] <= k else 0
            step >>= 1
        bucket[i] = at
        counts[at] += 1


@job
def deal_stretch(arguments: int, number: int) -> None:
    """Write the rows of a stretch to their buckets."""
    given = array_at(arguments, SORT, np.int64)
    rows, buckets = given[0], given[1]
    order = array_at(given[3], rows if given[3] else 0, np.int32)
    bucket = array_at(given[5], rows, np.uint8)
    next_at = array_at(given[6] + 8 * buckets * number, buckets, np.int64)
    dealt = array_at(given[7], rows, np.int32)
    for i in range(rows * number // buckets, rows * (number + 1) // buckets):
        at = next_at[bucket[i]]
        next_at[bucket[i]] = at + 1
        dealt[at] = order[i] if len(order) else i


@job
def sort_bucket(arguments: int, number: int) -> None:
    """Sort the rows of a bucket, and write their keys."""
    given = array_at(arguments, SORT, np.int64)
    rows, buckets = given[0], given[1]
    key = array_at(given[2], rows, np.int64)
    dealt = array_at(given[7], rows, np.int32)
    ends = array_at(given[8], buckets, np.int64)
    result = array_at(given[9], rows, np.int32)
    in_order = array_at(given[10], rows, np.int64)
    begin = ends[number - 1] if number else 0
    some = sort_keys(key, dealt[begin : ends[number]])
    for i in range(len(some)):
        result[begin + i] = some[i]
        in_order[begin + i] = key[some[i]]


@kernel
def sort_together(
    team: int, functions: tuple[int, int, int], key: Int64s, order: Int32s | None
) -> tuple[Int32s, Int64s]:
    """Return ``order``, which has every row once, permuted so that the keys are sorted, and the sorted keys.

    Without an ``order`` it is that of the rows' numbers.
    """
    rows = len(key)
    buckets = stretches(team, rows)
    if buckets == 1:
        row = sort_keys(key, np.arange(rows).astype(np.int32) if order is None else order)
        return row, key[row]
    row, in_order = np.empty(rows, np.int32), np.empty(rows, np.int64)
    sample = np.empty(SAMPLED * buckets, np.int64)
    for i in range(len(sample)):
        at = rows * i // len(sample)
        sample[i] = key[at if order is None else order[at]]
    sample = sample[sort_keys(sample, np.arange(len(sample)).astype(np.int32))]
    borders = sample[SAMPLED::SAMPLED].copy()
    bucket, dealt = np.empty(rows, np.uint8), np.empty(rows, np.int32)
    counts, ends = np.empty(buckets * buckets, np.int64), np.empty(buckets, np.int64)
    given = np.empty(SORT, np.int64)
    given[0] = rows
    given[1] = buckets
    given[2] = key.ctypes.data
    given[3] = 0 if order is None else order.ctypes.data
    given[4] = borders.ctypes.data
    given[5] = bucket.ctypes.data
    given[6] = counts.ctypes.data
    given[7] = dealt.ctypes.data
    given[8] = ends.ctypes.data
    given[9] = row.ctypes.data
    given[10] = in_order.ctypes.data
    run(team, functions[0], given, buckets)
    total = 0
    for b in range(buckets):
        for stretch in range(buckets):
            count = counts[stretch * buckets + b]
            counts[stretch * buckets + b] = total
            total += count
        ends[b] = total
    run(team, functions[1], given, buckets)
    run(team, functions[2], given, buckets)
    hold((borders, bucket, dealt, counts, ends))
    return row, in_order


# --- merge -----------------------------------------------------------------------------------------------------------


@kernel
def _split(key_a: Int64s, equality_a: Int64s | None, key_b: Int64s, equality_b: Int64s | None, place: int) -> int:
    """Return how many of the first ``place`` merged rows come from *a*."""
    low, high = max(0, place - len(key_b)), min(place, len(key_a))
    while low < high:
        middle = (low + high) >> 1
        other = place - 1 - middle
        first = key_a[middle] <= key_b[other]
        if equality_a is not None:
            if equality_a[middle] != equality_b[other]:
                first = equality_a[middle] < equality_b[other]
        if first:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _border(size: int, number: int, pieces: int) -> int:
    """Return where a stretch of the result begins: where a line of the top does."""
    return size if number == pieces else size * number // pieces // (LINE * LINE) * (LINE * LINE)


@kernel
def _sampled(keys: int, index: int, top: int, begin: int, end: int, size: int) -> None:
    """Write the index, and the top, of a stretch of sorted keys, and the padding behind the last one."""
    indexed = (size + LINE - 1) >> SHIFT
    topped = (indexed + LINE - 1) >> SHIFT
    key = array_at(keys, size + LINE, np.int64)
    lines = array_at(index, indexed + LINE, np.int64)
    tops = array_at(top, topped + LINE, np.int64)
    for at in range(begin, end, LINE):
        lines[at >> SHIFT] = key[at]
    for at in range(begin, end, LINE * LINE):
        tops[at >> (2 * SHIFT)] = key[at]
    if end == size:
        key[size:] = INT64_MAX
        lines[indexed:] = INT64_MAX
        tops[topped:] = INT64_MAX


@job
def merge_stretch(arguments: int, number: int) -> None:
    """Merge a stretch of the result."""
    _merge(arguments, number, None)


@job
def merge_stretch_by_two_keys(arguments: int, number: int) -> None:
    """Merge a stretch of the result, by equality keys and keys."""
    _merge(arguments, number, 0)


@kernel
def _merge(arguments: int, number: int, by_two_keys: int | None) -> None:
    """Merge a stretch of the result; the case that is not asked for is not compiled."""
    given = array_at(arguments, MERGE, np.int64)
    size_a, size_b, pieces = given[0], given[1], given[2]
    size = size_a + size_b
    begin, end = _border(size, number, pieces), _border(size, number + 1, pieces)
    key_a, key_b = array_at(given[3], size_a, np.int64), array_at(given[4], size_b, np.int64)
    row_a, row_b = array_at(given[5], size_a, np.int32), array_at(given[6], size_b, np.int32)
    key, row = array_at(given[7], size, np.int64), array_at(given[8], size, np.int32)
    if by_two_keys is None:
        i, j = _split(key_a, None, key_b, None, begin), _split(key_a, None, key_b, None, end)
        merge_keys(
            key_a[i:j], row_a[i:j], None, j - i,
            key_b[begin - i : end - j], row_b[begin - i : end - j], None, end - j - begin + i,
            key[begin:end], row[begin:end], None,
        )  # fmt: skip
    else:
        equality_a, equality_b = array_at(given[11], size_a, np.int64), array_at(given[12], size_b, np.int64)
        equality = array_at(given[13], size, np.int64)
        i = _split(key_a, equality_a, key_b, equality_b, begin)
        j = _split(key_a, equality_a, key_b, equality_b, end)
        merge_keys(
            key_a[i:j], row_a[i:j], equality_a[i:j], j - i,
            key_b[begin - i : end - j], row_b[begin - i : end - j], equality_b[begin - i : end - j],
            end - j - begin + i, key[begin:end], row[begin:end], equality[begin:end],
        )  # fmt: skip
        _sampled(given[13], given[14], given[15], begin, end, size)
    _sampled(given[7], given[9], given[10], begin, end, size)


@kernel
def merge_together(team: int, function: int, given: Int64s) -> None:
    """Merge *a* and *b* as :func:`~watersmeet.kernels.sorted_keys.merge_keys` does; write index and top, all padded.

    The words are their sizes, a word to be written here, and addresses: the keys of *a* and of *b*, the rows of both,
    where keys, rows, index and top go, and then for equality keys those of *a*, of *b*, and where they go with theirs.
    """
    given[2] = stretches(team, given[0] + given[1])
    run(team, function, given, given[2])
