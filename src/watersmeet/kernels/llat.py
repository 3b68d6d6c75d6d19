"""LLAT, the linked list adaptive table: unsorted partitions of unequal size in one table of equal entries.

PanJoin, section III-B2. An *entry* has room for a fixed number of rows. A partition is a *chain* of entries, and its
number is that of its first entry. RaP-Table, WiB+-Tree and the extendible hash all keep their rows in one.

A table is the tuple ``(key, row, start, fill, next_entry, last)``: entry ``e`` holds the rows ``start[e] : start[e] +
fill[e]`` of ``key`` and ``row``, ``next_entry[e]`` is the next of its chain (-1: none) and, for a first entry,
``last[e]`` is the chain's last.

Invariant. All entries of a chain but the last are full until the table is packed; packed chains have one entry each.

Cost. Appending touches one entry. Probing scans a chain once per probe with vector instructions. Probes are sorted, so
those of one chain find it in the cache, and the first entries of the next chains are prefetched. Pairs are counted for
``PROBES_AT_ONCE`` probes and then written for these while the chains are still cached, so the size of the output is
known before it is written.

Departures from the paper.

- ``last`` is kept per chain, so an append need not walk the chain.
- There is no Tail pointer: subwindows expire as a whole, rows are never deleted.
- The next entry is linked when a row needs it, not when the one before becomes full. So fewer are used, and the paper's
  proof that 2P entries suffice still holds.
- Entries are found through ``start``. So a sealed subwindow can be packed without slack (the paper's 150 % overhead
  ends with the last insert), and two entries can be swapped without moving a row.
- The scan's inner loop runs over the rows of the partition, not over the batch, because that loop vectorises.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels.compile import kernel
from watersmeet.kernels.instructions import prefetch
from watersmeet.kernels.scan import COUNT_BITS, count_between, locate_between, reserve, write_between

__all__ = ["Table", "find_pairs", "grow_table", "link_entry", "new_table", "pack_chains", "table_bytes"]

Table = tuple[Int64s, Int32s, Int64s, Int32s, Int32s, Int32s]

PROBES_AT_ONCE = 256
AHEAD = 8
LINE = 8  # keys in a cache line


def new_table(entries: int, width: int) -> Table:
    """Return a table of empty entries of ``width`` rows; every entry is a chain of its own."""
    number = np.arange(entries, dtype=np.int32)
    return (
        np.empty(entries * width, np.int64),
        np.empty(entries * width, np.int32),
        number.astype(np.int64) * width,
        np.zeros(entries, np.int32),
        np.full(entries, -1, np.int32),
        number,
    )


def grow_table(table: Table, entries: int, width: int) -> Table:
    """Return a copy of ``table`` with more entries."""
    larger = new_table(entries, width)
    pairs: Iterable[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = zip(larger, table, strict=True)
    for new, old in pairs:
        new[: len(old)] = old
    return larger


def table_bytes(table: Table) -> int:
    """Return the bytes of memory that a table uses."""
    return sum(array.nbytes for array in table)


@kernel
def link_entry(table: Table, chain: int, entry: int) -> None:
    """Make the unused ``entry`` the last of ``chain``."""
    _, _, _, _, next_entry, last = table
    next_entry[last[chain]] = entry
    last[chain] = entry


@kernel
def _count_chains(
    key: Int64s,
    start: Int64s,
    fill: Int32s,
    next_entry: Int32s,
    following: Int32s,
    chain: int,
    final: int,
    lo: int,
    hi: int,
) -> int:
    """Count the keys in ``[lo, hi]`` in the chains from ``chain`` to ``final``; those in between are not compared.

    It takes the table's arrays, because unpacking the tuple changes reference counts atomically, which costs too much
    once per probe.
    """
    count = 0
    here = chain
    while True:
        compared = here in (chain, final)
        entry = here
        while entry >= 0:
            if compared:
                count += count_between(key[start[entry] : start[entry] + fill[entry]], lo, hi)
            else:
                count += fill[entry]
            entry = next_entry[entry]
        if here == final:
            return count
        here = following[here]


@kernel
def _write_chains(
    key: Int64s,
    row: Int32s,
    start: Int64s,
    fill: Int32s,
    next_entry: Int32s,
    following: Int32s,
    chain: int,
    final: int,
    lo: int,
    hi: int,
    who: int,
    pair_who: Int32s,
    pair_row: Int32s,
    found: int,
) -> int:
    """Write the pairs that ``_count_chains`` has counted; return the position behind the last."""
    here = chain
    while True:
        compared = here in (chain, final)
        entry = here
        while entry >= 0:
            begin = start[entry]
            end = begin + fill[entry]
            if compared:
                found = write_between(key[begin:end], row[begin:end], lo, hi, who, pair_who, pair_row, found)
            else:
                for i in range(begin, end):
                    pair_who[found] = who
                    pair_row[found] = row[i]
                    found += 1
            entry = next_entry[entry]
        if here == final:
            return found
        here = following[here]


@kernel
def find_pairs(
    table: Table,
    following: Int32s,
    first: Int32s,
    final: Int32s,
    lo: Int64s,
    hi: Int64s,
    who: Int32s,
    begin: int,
    most: int,
) -> tuple[Int32s, Int32s, int]:
    """Return the pairs of every probe *q* with the chains from ``first[q]`` along ``following`` to ``final[q]``.

    Probes are taken from ``begin`` on, as long as they have at most ``most`` pairs together, but at least one. The
    next probe is returned as well. The caller's partitioning guarantees that all keys of the chains strictly between
    the two lie in ``[lo, hi]``.
    """
    key, row, start, fill, next_entry, _ = table
    m = len(lo)
    pair_who = np.empty(m - begin, np.int32)
    pair_row = np.empty(m - begin, np.int32)
    counts = np.empty(PROBES_AT_ONCE, np.int64)
    positions = np.empty(PROBES_AT_ONCE, np.int64)  # where the only match of a probe is, if the first pass could tell
    found = 0
    for base in range(begin, m, PROBES_AT_ONCE):
        chunk = min(PROBES_AT_ONCE, m - base)
        n = chunk
        total = 0
        for u in range(chunk):
            q = base + u
            if q + AHEAD < m:
                at = start[first[q + AHEAD]]
                prefetch(key, at)
                prefetch(key, at + LINE)
                prefetch(key, at + 2 * LINE)
                prefetch(key, at + 3 * LINE)
            chain = first[q]
            positions[u] = -1
            if lo[q] > hi[q]:
                counts[u] = 0
            elif chain == final[q] and next_entry[chain] < 0:
                both = locate_between(key[start[chain] : start[chain] + fill[chain]], lo[q], hi[q])
                counts[u] = both & ((1 << COUNT_BITS) - 1)
                if counts[u] == 1:
                    positions[u] = start[chain] + (both >> COUNT_BITS)
            else:
                counts[u] = _count_chains(key, start, fill, next_entry, following, chain, final[q], lo[q], hi[q])
            if found + total > 0 and found + total + counts[u] > most:
                n = u
                break
            total += counts[u]
            prefetch(row, positions[u])
        pair_who = reserve(pair_who, found, total)
        pair_row = reserve(pair_row, found, total)
        for u in range(n):
            q = base + u
            if positions[u] >= 0:
                pair_who[found] = who[q]
                pair_row[found] = row[positions[u]]
                found += 1
            elif counts[u]:
                found = _write_chains(
                    key,
                    row,
                    start,
                    fill,
                    next_entry,
                    following,
                    first[q],
                    final[q],
                    lo[q],
                    hi[q],
                    who[q],
                    pair_who,
                    pair_row,
                    found,
                )
        if n < chunk:
            return pair_who[:found], pair_row[:found], base + n
    return pair_who[:found], pair_row[:found], m


@kernel
def pack_chains(table: Table, chains: Int32s) -> Table:
    """Return a table without slack in which chain ``i`` is one entry with the rows of ``chains[i]``."""
    key, row, start, fill, next_entry, _ = table
    n = len(chains)
    packed_start = np.empty(n, np.int64)
    packed_fill = np.empty(n, np.int32)
    total = 0
    for c in range(n):
        packed_start[c] = total
        entry = chains[c]
        while entry >= 0:
            total += fill[entry]
            entry = next_entry[entry]
        packed_fill[c] = total - packed_start[c]
    packed_key = np.empty(total, np.int64)
    packed_row = np.empty(total, np.int32)
    at = 0
    for c in range(n):
        entry = chains[c]
        while entry >= 0:
            size = fill[entry]
            packed_key[at : at + size] = key[start[entry] : start[entry] + size]
            packed_row[at : at + size] = row[start[entry] : start[entry] + size]
            at += size
            entry = next_entry[entry]
    return packed_key, packed_row, packed_start, packed_fill, np.full(n, -1, np.int32), np.arange(n).astype(np.int32)
