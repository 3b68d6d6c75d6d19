"""WiB+-Tree: a B+-tree with wide unsorted leaves, for keys that drift.

PanJoin, section III-C. Leaves are the partitions: up to ``leaf_width`` rows in the order they came, in an LLAT
(:mod:`watersmeet.kernels.llat`). Inner nodes are sorted, 64 children each, and small enough to stay in the cache. A
leaf is sorted only to be split, which costs W log W once instead of W * W for keeping it sorted.

Invariants. The leaves' bounds are strictly increasing from left to right (no separator occurs twice in the tree),
every key lies in its leaf's bounds, so all rows of one value are in one leaf. A leaf of more than ``leaf_width`` rows,
a chain of entries, holds one value only. A leaf strictly inside a probed range is copied without comparing.

Cost. A sorted batch walks from leaf to leaf; a row costs a search step if it leaves its predecessor's leaf. A row is
moved by splits about once. Increasing (and decreasing) keys split off an empty leaf instead of half a full one: leaves
stay full, nothing is sorted, and the insertion rate holds.

Departures from the paper.

- Entries and nodes are added geometrically when they run out, instead of 2P entries allocated at once: the number of
  leaves depends on the data. The kernel says how far it came and is called again.
- A batch is located as a whole before it is inserted; leaves that split meanwhile are left by their right-hand link,
  so memory can be prefetched.
- Sealed trees are packed: leaves in order, one behind the other, without slack.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels import llat, wib_tree
from watersmeet.kernels.wib_tree import ENTRIES, FANOUT, HEIGHT, NODES
from watersmeet.subwindow.chains import chained_pairs
from watersmeet.subwindow.contract import Entries, Matches, Probes
from watersmeet.subwindow.scan import sorted_entries

__all__ = ["WibTree"]

LEAF_WIDTH = 128
FIRST_ENTRIES = 16
FIRST_NODES = 4
INT64_MAX = np.iinfo(np.int64).max


class WibTree:
    """A subwindow partitioned by a tree that grows with its rows.

    Parameters
    ----------
    capacity
        The most rows that will ever be inserted.
    predecessor
        The subwindow before this one; a tree has nothing to learn from it.
    leaf_width
        The most rows of a leaf, unless they are all equal; at least 2.
    """

    supports_groups: ClassVar[bool] = False
    equality_only: ClassVar[bool] = False
    fixed_capacity: ClassVar[bool] = True
    scans: ClassVar[bool] = False

    def __init__(
        self,
        capacity: int,  # noqa: ARG002 -- the shared signature: a tree grows as it needs
        predecessor: WibTree | None = None,  # noqa: ARG002 -- likewise
        leaf_width: int | None = None,
    ) -> None:
        self._width = LEAF_WIDTH if leaf_width is None else max(2, leaf_width)
        self._size = 0
        self._table = llat.new_table(FIRST_ENTRIES, self._width)
        self._following: Int32s = np.full(FIRST_ENTRIES, -1, np.int32)
        self._upper: Int64s = np.full(FIRST_ENTRIES, INT64_MAX, np.int64)
        self._separator: Int64s = np.full((FIRST_NODES, FANOUT), INT64_MAX, np.int64)
        self._child: Int32s = np.zeros((FIRST_NODES, FANOUT), np.int32)
        self._children: Int32s = np.zeros(FIRST_NODES, np.int32)
        self._children[0] = 1  # the root, above leaf 0
        self._state: Int64s = np.array([1, 1, 0, 1], np.int64)

    @property
    def height(self) -> int:
        """The number of inner levels."""
        return int(self._state[HEIGHT])

    @property
    def entries_used(self) -> int:
        """The LLAT entries in use."""
        return int(self._state[ENTRIES])

    def leaves(self) -> list[tuple[int, Int64s]]:
        """Return the upper bound and the keys of every leaf, from left to right (for tests and inspection)."""
        order = self._leaf_order()
        key, _, start, fill, _, _ = llat.pack_chains(self._table, order)
        return [
            (int(bound), key[begin : begin + size])
            for bound, begin, size in zip(self._upper[order], start, fill, strict=True)
        ]

    def insert(self, entries: Entries) -> None:
        """Store a sorted batch."""
        located = self._find(entries.key)
        done = 0
        while True:
            done = wib_tree.insert_rows(
                self._table,
                self._width,
                self._following,
                self._upper,
                self._separator,
                self._child,
                self._children,
                self._state,
                entries.key,
                entries.row,
                located,
                done,
            )
            if done == len(entries):
                break
            self._grow()
        self._size += len(entries)

    def _grow(self) -> None:
        """Give whatever ran out half as much again."""
        entries = len(self._following)
        if self._state[ENTRIES] == entries:
            more = entries // 2
            self._table = llat.grow_table(self._table, entries + more, self._width)
            self._following = np.append(self._following, np.full(more, -1, np.int32))
            self._upper = np.append(self._upper, np.full(more, INT64_MAX, np.int64))
        nodes = len(self._children)
        if self._state[NODES] + self._state[HEIGHT] + 1 > nodes:
            more = nodes // 2 + self.height + 1
            self._separator = np.append(self._separator, np.full((more, FANOUT), INT64_MAX, np.int64), axis=0)
            self._child = np.append(self._child, np.zeros((more, FANOUT), np.int32), axis=0)
            self._children = np.append(self._children, np.zeros(more, np.int32))

    def _find(self, bound: Int64s) -> Int32s:
        return wib_tree.find_leaves(self._separator, self._child, self._children, self._state, bound)

    def probe(self, probes: Probes) -> Iterator[Matches]:
        """Yield all matches of a sorted batch of probes."""
        if not self._size or not len(probes):
            return
        first = self._find(probes.lo)
        final = self._find(probes.hi)
        yield from chained_pairs(self._table, self._following, first, final, probes)

    def _leaf_order(self) -> Int32s:
        return wib_tree.leaf_order(self._following, self.entries_used)

    def seal(self) -> None:
        """Pack the leaves one behind the other, number them from left to right and cut off unused nodes."""
        order = self._leaf_order()
        leaves = len(order)
        number: Int32s = np.zeros(self.entries_used, np.int32)
        number[order] = np.arange(leaves, dtype=np.int32)
        self._table = llat.pack_chains(self._table, order)
        self._upper = self._upper[order]
        self._following = np.arange(1, leaves + 1, dtype=np.int32)
        self._following[-1] = -1
        nodes = int(self._state[NODES])
        self._separator = self._separator[:nodes].copy()
        self._child = self._child[:nodes].copy()
        self._children = self._children[:nodes].copy()
        lowest = self._lowest_nodes()
        self._child[lowest] = number[self._child[lowest]]
        self._state[ENTRIES] = leaves

    def _lowest_nodes(self) -> npt.NDArray[np.intp]:
        """Return the nodes whose children are leaves."""
        level: npt.NDArray[np.intp] = np.array([self._state[wib_tree.ROOT]], np.intp)
        for _ in range(self.height - 1):
            used = np.arange(FANOUT) < self._children[level][:, None]
            level = self._child[level][used].astype(np.intp)
        return level

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        arrays = (self._following, self._upper, self._separator, self._child, self._children)
        return llat.table_bytes(self._table) + sum(array.nbytes for array in arrays)

    def snapshot(self) -> Entries:
        """Return every stored row, sorted."""
        key, row, *_ = llat.pack_chains(self._table, self._leaf_order())
        return sorted_entries(key, row)
