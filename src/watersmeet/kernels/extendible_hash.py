"""Extendible hashing: mix keys, insert and split, merge buddies.

A bucket is a chain of an LLAT (:mod:`watersmeet.kernels.llat`). Its number is that of its first entry, here called
page. ``directory[h & (2**d - 1)]`` is the bucket of hash ``h``; all hashes of bucket ``b`` agree in their ``depth[b]``
low bits, which are ``pattern[b]``. A bucket that was merged into another has depth -1.
"""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Int32s, Int64s, UInt64s
from watersmeet.kernels.compile import kernel
from watersmeet.kernels.instructions import prefetch
from watersmeet.kernels.llat import Table, link_entry
from watersmeet.kernels.scan import count_between

__all__ = ["DIRECTORY_FULL", "DONE", "PAGES_FULL", "insert_rows", "merge_buddies", "mix_keys"]


AHEAD = 8
DONE, PAGES_FULL, DIRECTORY_FULL = 0, 1, 2


@kernel
def mix_keys(key: Int64s) -> UInt64s:
    """Return a hash of every key: MurmurHash3's finaliser, a bijection, so only equal keys have equal hashes.

    It takes arrays, not scalars, because only arrays wrap around silently when the kernel runs uncompiled.
    """
    h = key.view(np.uint64)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(33))


@kernel
def insert_rows(
    table: Table,
    width: int,
    depth: Int32s,
    pattern: Int64s,
    directory: Int32s,
    deepest: int,
    used: int,
    new_key: Int64s,
    new_row: Int32s,
    hashed: UInt64s,
    begin: int,
) -> tuple[int, int, int]:
    """Insert the rows from ``begin`` on.

    Returns
    -------
    The first row that was not inserted, the pages in use (``used`` before the call), and what is needed to go on:
    ``DONE``, ``PAGES_FULL`` or ``DIRECTORY_FULL``.
    """
    key, row, start, fill, next_entry, last = table
    mask = np.uint64(len(directory) - 1)
    n = len(new_key)
    i = begin
    while i < n:
        if i + 2 * AHEAD < n:
            soon = directory[hashed[i + 2 * AHEAD] & mask]
            prefetch(start, soon)
            prefetch(fill, soon)
            prefetch(last, soon)
        if i + AHEAD < n:
            sooner = last[directory[hashed[i + AHEAD] & mask]]
            prefetch(key, start[sooner] + fill[sooner])
            prefetch(row, start[sooner] + fill[sooner])
        bucket = directory[hashed[i] & mask]
        page = last[bucket]
        # a chained bucket holds one key only, unless it is at the deepest level
        stranger = next_entry[bucket] >= 0 and depth[bucket] < deepest and key[start[bucket]] != new_key[i]
        if fill[page] < width and not stranger:
            at = start[page] + fill[page]
            key[at] = new_key[i]
            row[at] = new_row[i]
            fill[page] += 1
            i += 1
            continue
        if used == len(fill):
            return i, used, PAGES_FULL
        if depth[bucket] == deepest or (not stranger and _holds_only(table, width, bucket, new_key[i])):
            link_entry(table, bucket, used)
        elif 1 << depth[bucket] == len(directory):
            return i, used, DIRECTORY_FULL
        else:
            _split(table, width, depth, pattern, directory, bucket, used)
        used += 1
    return n, used, DONE


@kernel
def _holds_only(table: Table, width: int, bucket: int, k: int) -> bool:
    """Tell whether all rows of a full bucket above the deepest level have the key ``k``."""
    key, _, start, _, next_entry, _ = table
    begin = start[bucket]
    if next_entry[bucket] >= 0:  # a chained bucket has one key only
        return bool(key[begin] == k)
    return count_between(key[begin : begin + width], k, k) == width


@kernel
def _split(table: Table, width: int, depth: Int32s, pattern: Int64s, directory: Int32s, bucket: int, new: int) -> None:
    """Split a full (or chained) bucket by the next bit of the hash; rows whose bit is set move to ``new``."""
    key, row, start, fill, next_entry, last = table
    bit = 1 << depth[bucket]
    depth[bucket] += 1
    depth[new] = depth[bucket]
    pattern[new] = pattern[bucket] | bit
    for d in range(pattern[new], len(directory), 2 * bit):
        directory[d] = new
    begin = start[bucket]
    other = start[new]
    tested = np.uint64(bit)
    if next_entry[bucket] >= 0:  # one key only: all rows stay or all go; to go, the buckets swap pages
        if mix_keys(key[begin : begin + 1])[0] & tested:
            start[bucket], start[new] = other, begin
            fill[bucket], fill[new] = 0, fill[bucket]
            next_entry[bucket], next_entry[new] = -1, next_entry[bucket]
            last[bucket], last[new] = bucket, last[bucket]
        return
    hashed = mix_keys(key[begin : begin + width])
    stay = 0
    go = 0
    for i in range(width):
        goes = (hashed[i] & tested) != np.uint64(0)
        # both are written and one counts: half of the rows go, so a branch could not be predicted
        key[other + go] = key[begin + i]
        row[other + go] = row[begin + i]
        key[begin + stay] = key[begin + i]
        row[begin + stay] = row[begin + i]
        go += goes
        stay += not goes
    fill[bucket] = stay
    fill[new] = go


@kernel
def merge_buddies(table: Table, theta: int, depth: Int32s, pattern: Int64s, directory: Int32s, used: int) -> int:
    """Merge underfull buckets with their buddies, deepest first; return the largest depth left."""
    key, row, start, fill, next_entry, _ = table
    deepest = 0
    for b in range(used):
        deepest = max(deepest, depth[b])
    for d in range(deepest, 0, -1):
        bit = 1 << (d - 1)
        for b in range(used):
            if depth[b] != d or pattern[b] & bit or next_entry[b] >= 0:
                continue
            buddy = directory[pattern[b] | bit]
            if depth[buddy] != d or next_entry[buddy] >= 0:
                continue
            moved = fill[buddy]
            if min(fill[b], moved) >= theta or fill[b] + moved >= 2 * theta:
                continue
            at = start[b] + fill[b]
            key[at : at + moved] = key[start[buddy] : start[buddy] + moved]
            row[at : at + moved] = row[start[buddy] : start[buddy] + moved]
            fill[b] += moved
            fill[buddy] = 0
            for entry in range(pattern[buddy], len(directory), 2 * bit):
                directory[entry] = b
            depth[b] = d - 1
            depth[buddy] = -1
    largest = 0
    for b in range(used):
        largest = max(largest, depth[b])
    return largest
