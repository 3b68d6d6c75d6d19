"""Wide B+-Tree: find leaves, insert into them, split them.

A leaf is a chain of an LLAT (:mod:`watersmeet.kernels.llat`), and its number is that of its first entry.
``upper[leaf]`` is the largest key that it may hold, ``following[leaf]`` is the leaf to its right. Leaf 0 is always the
leftmost, because a split puts the new leaf to the right. So a row's leaf is the leaf found before a split or lies to
the right of it, and a walk along ``following`` reaches it (the idea of Lehman and Yao's B-link tree). A batch is
therefore located once, although it may split leaves.

Inner node ``v`` has ``size[v]`` children; ``separator[v, s]`` is the largest key below ``child[v, s]``. The last
separator of a node is the node's own bound. That of the root is the largest int64, so no bound needs a special case.

``state`` is ``(used entries, used nodes, root, height)``; the height counts inner levels and is at least 1.
"""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels.compile import kernel
from watersmeet.kernels.instructions import prefetch
from watersmeet.kernels.llat import Table, link_entry

__all__ = ["ENTRIES", "FANOUT", "HEIGHT", "NODES", "ROOT", "find_leaves", "insert_rows", "leaf_order"]


FANOUT = 64
ENTRIES, NODES, ROOT, HEIGHT = 0, 1, 2, 3
AHEAD = 16
SMALL = 16


@kernel
def _slot(separator: Int64s, node: int, slot: int, bound: int) -> int:
    """Return the first slot of ``node``, from ``slot`` on, whose separator is not below ``bound``; there is one."""
    if separator[node, slot] >= bound:
        return slot
    step = 1
    while slot + step < FANOUT and separator[node, slot + step] < bound:  # unused separators are the largest int64
        slot += step
        step <<= 1
    step >>= 1
    while step > 0:
        if slot + step < FANOUT and separator[node, slot + step] < bound:
            slot += step
        step >>= 1
    return slot + 1


@kernel
def find_leaves(separator: Int64s, child: Int32s, size: Int32s, state: Int64s, bound: Int64s) -> Int32s:
    """Return the leaf of every (sorted) bound.

    The search keeps the path to the previous leaf (PanJoin, section III-E). It stays on the leaf if that covers the
    bound; otherwise it goes back to the lowest node on the path that covers the bound, and down from there.
    """
    height = state[HEIGHT]
    node_at = np.empty(height, np.int64)
    slot_at = np.zeros(height, np.int64)
    node_at[0] = state[ROOT]
    leaves = np.empty(len(bound), np.int32)
    leaf = np.int32(-1)
    up_to = np.int64(0)  # the leaf's upper bound
    level = 0
    for q in range(len(bound)):
        b = bound[q]
        if leaf < 0 or b > up_to:
            while level > 0 and separator[node_at[level], size[node_at[level]] - 1] < b:
                level -= 1
            slot = slot_at[level]
            while True:
                node = node_at[level]
                slot = _slot(separator, node, slot, b)
                slot_at[level] = slot
                if level == height - 1:
                    break
                level += 1
                node_at[level] = child[node, slot]
                slot = 0
            leaf = child[node, slot]
            up_to = separator[node, slot]
        leaves[q] = leaf
    return leaves


@kernel
def insert_rows(
    table: Table,
    width: int,
    following: Int32s,
    upper: Int64s,
    separator: Int64s,
    child: Int32s,
    size: Int32s,
    state: Int64s,
    new_key: Int64s,
    new_row: Int32s,
    located: Int32s,
    begin: int,
) -> int:
    """Insert the sorted rows from ``begin`` on; ``located`` are their leaves, from ``find_leaves``.

    Returns
    -------
    The number of rows inserted so far. It is less than all if entries or nodes run out: add some and call again.
    """
    key, row, start, fill, next_entry, last = table
    sort_room = (
        np.empty(width, np.int64),
        np.empty(width, np.int32),
        np.empty(width, np.int64),
        np.empty(width, np.int32),
    )
    n = len(new_key)
    i = begin
    previous = np.int32(-1)
    leaf = np.int32(0)
    while i < n:
        if located[i] != previous:
            previous = located[i]
            leaf = previous
        k = new_key[i]
        while k > upper[leaf]:
            leaf = following[leaf]
        entry = last[leaf]
        room = width - fill[entry]
        bound = upper[leaf]
        if next_entry[leaf] >= 0:  # a chained leaf holds one value only, although its bounds allow others
            bound = key[start[leaf]]
            if k != bound:
                room = 0
        if room == 0:
            if state[ENTRIES] == len(fill) or state[NODES] + state[HEIGHT] + 1 > len(size):
                return i
            _make_room(table, width, following, upper, separator, child, size, state, int(leaf), k, sort_room)
            continue
        if i + AHEAD < n:
            later = last[located[i + AHEAD]]
            prefetch(key, start[later] + fill[later])
            prefetch(row, start[later] + fill[later])
        at = start[entry] + fill[entry]
        stop = min(n, i + room)
        first = i
        while i < stop and new_key[i] <= bound:
            key[at] = new_key[i]
            row[at] = new_row[i]
            at += 1
            i += 1
        fill[entry] += i - first
    return n


@kernel
def _make_room(
    table: Table,
    width: int,
    following: Int32s,
    upper: Int64s,
    separator: Int64s,
    child: Int32s,
    size: Int32s,
    state: Int64s,
    leaf: int,
    k: int,
    sort_room: tuple[Int64s, Int32s, Int64s, Int32s],
) -> None:
    """Split the full (or chained) ``leaf`` for key ``k``, or chain an entry to it if all its rows have that value.

    A chained leaf holds one value only: only such a leaf is chained, and any other value splits it.
    """
    key, row, start, fill, next_entry, last = table
    new = state[ENTRIES]
    state[ENTRIES] = new + 1
    begin = start[leaf]
    smallest = key[begin]
    largest = key[begin]
    if next_entry[leaf] < 0:
        for held in key[begin : begin + width]:
            smallest = min(smallest, held)
            largest = max(largest, held)
    if smallest == k and largest == k:
        link_entry(table, leaf, new)
        return
    if k > largest:  # increasing keys: leave the leaf full and continue in an empty one
        bound = largest
    elif k < smallest:  # decreasing keys: the same, to the left; the leaves swap their entries, no row moves
        bound = smallest - 1
        start[leaf], start[new] = start[new], start[leaf]
        fill[leaf], fill[new] = 0, fill[leaf]
        next_entry[leaf], next_entry[new] = -1, next_entry[leaf]
        last[new] = new if last[leaf] == leaf else last[leaf]
        last[leaf] = leaf
    else:
        sorted_key, sorted_row = _sort(key[begin : begin + width], row[begin : begin + width], sort_room)
        cut = _middle(sorted_key)
        bound = sorted_key[cut - 1]
        for i in range(cut):
            key[begin + i] = sorted_key[i]
            row[begin + i] = sorted_row[i]
        shift = start[new] - cut
        for i in range(cut, width):
            key[shift + i] = sorted_key[i]
            row[shift + i] = sorted_row[i]
        fill[leaf] = cut
        fill[new] = width - cut
    upper[new] = upper[leaf]
    upper[leaf] = bound
    following[new] = following[leaf]
    following[leaf] = new
    _insert_child(separator, child, size, state, upper[new], bound, new)


@kernel
def _sort(key: Int64s, row: Int32s, sort_room: tuple[Int64s, Int32s, Int64s, Int32s]) -> tuple[Int64s, Int32s]:
    """Return a leaf's rows sorted by key: an insertion sort of ``SMALL`` rows each, and then merges."""
    here_key, here_row, there_key, there_row = sort_room
    n = len(key)
    for begin in range(0, n, SMALL):
        for i in range(begin, min(begin + SMALL, n)):
            k = key[i]
            j = i
            while j > begin and here_key[j - 1] > k:
                here_key[j] = here_key[j - 1]
                here_row[j] = here_row[j - 1]
                j -= 1
            here_key[j] = k
            here_row[j] = row[i]
    length = SMALL
    while length < n:
        for begin in range(0, n, 2 * length):
            middle = min(begin + length, n)
            end = min(middle + length, n)
            i = begin
            j = middle
            for o in range(begin, end):
                left = j == end or (i < middle and here_key[i] <= here_key[j])
                taken = i if left else j
                there_key[o] = here_key[taken]
                there_row[o] = here_row[taken]
                i += left
                j += not left
        here_key, there_key = there_key, here_key
        here_row, there_row = there_row, here_row
        length *= 2
    return here_key, here_row


@kernel
def _middle(key: Int64s) -> int:
    """Return the cut nearest to the middle that separates no equal keys; the keys are sorted and not all equal."""
    middle = len(key) // 2
    for distance in range(len(key)):
        for cut in (middle - distance, middle + distance):
            if 0 < cut < len(key) and key[cut - 1] != key[cut]:
                return cut
    return 0


@kernel
def _insert_child(
    separator: Int64s, child: Int32s, size: Int32s, state: Int64s, old_bound: int, bound: int, new: int
) -> None:
    """Put ``new`` to the right of the leaf bounded by ``old_bound``, whose bound is ``bound`` from now on."""
    height = state[HEIGHT]
    node_at = np.empty(height, np.int64)
    slot_at = np.empty(height, np.int64)
    node = state[ROOT]
    for level in range(height):
        node_at[level] = node
        slot_at[level] = _slot(separator, node, 0, old_bound)
        node = np.int64(child[node, slot_at[level]])
    for level in range(height - 1, -1, -1):
        node = node_at[level]
        slot = slot_at[level]
        if size[node] < FANOUT:
            _put(separator, child, size, node, slot, bound, new)
            return
        right = state[NODES]
        state[NODES] = right + 1
        if slot == FANOUT - 1:  # increasing keys: leave the node full
            separator[right, 0] = separator[node, slot]
            child[right, 0] = new
            size[right] = 1
            separator[node, slot] = bound
        else:
            half = FANOUT // 2
            separator[right, :half] = separator[node, half:]
            child[right, :half] = child[node, half:]
            separator[node, half:] = np.iinfo(np.int64).max
            size[right] = half
            size[node] = half
            if slot < half:
                _put(separator, child, size, node, slot, bound, new)
            else:
                _put(separator, child, size, right, slot - half, bound, new)
        bound = separator[node, size[node] - 1]
        new = right
    root = state[NODES]  # the old root has split
    state[NODES] = root + 1
    separator[root, 0] = bound
    separator[root, 1] = separator[new, size[new] - 1]
    child[root, 0] = state[ROOT]
    child[root, 1] = new
    size[root] = 2
    state[ROOT] = root
    state[HEIGHT] = height + 1


@kernel
def _put(separator: Int64s, child: Int32s, size: Int32s, node: int, slot: int, bound: int, new: int) -> None:
    """Insert ``new`` behind ``slot``: the child there ends at ``bound`` from now on, ``new`` has its larger keys."""
    for s in range(size[node], slot, -1):
        separator[node, s] = separator[node, s - 1]
        child[node, s] = child[node, s - 1]
    separator[node, slot] = bound
    child[node, slot + 1] = new
    size[node] += 1


@kernel
def leaf_order(following: Int32s, entries: int) -> Int32s:
    """Return the leaves from left to right."""
    order = np.empty(entries, np.int32)
    leaves = 0
    leaf = np.int32(0)
    while leaf >= 0:
        order[leaves] = leaf
        leaves += 1
        leaf = following[leaf]
    return order[:leaves].copy()
