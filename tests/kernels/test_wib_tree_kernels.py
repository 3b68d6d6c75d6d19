"""Kernels of the WiB+-Tree: every row stays in a leaf whose bounds hold it, and every bound finds its leaf."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drawn_keys import INT64, key_arrays, shapes
from watersmeet.arrays import Int64s
from watersmeet.kernels.llat import grow_table, new_table, pack_chains
from watersmeet.kernels.wib_tree import ENTRIES, FANOUT, HEIGHT, NODES, find_leaves, insert_rows, leaf_order


@dataclass
class Tree:
    """An empty tree with so much room; ``insert`` counts how often that has run out."""

    width: int
    entries: int = 1
    nodes: int = 3
    stops: int = 0
    keys: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = new_table(self.entries, self.width)
        self.following = np.full(self.entries, -1, np.int32)
        self.upper = np.full(self.entries, INT64.max)
        self.separator = np.full((self.nodes, FANOUT), INT64.max)
        self.child = np.zeros((self.nodes, FANOUT), np.int32)
        self.size = np.zeros(self.nodes, np.int32)
        self.size[0] = 1
        self.state = np.array([1, 1, 0, 1])

    def find(self, bound: Int64s) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return find_leaves(self.separator, self.child, self.size, self.state, bound)

    def insert(self, key: Int64s) -> None:
        """Insert sorted keys, whose rows are numbered as they come; make room for one entry or node at a time."""
        row = np.arange(len(self.keys), len(self.keys) + len(key), dtype=np.int32)
        self.keys += key.tolist()
        located, done = self.find(key), 0
        while True:
            nodes = self.separator, self.child, self.size, self.state
            done = insert_rows(self.table, self.width, self.following, self.upper, *nodes, key, row, located, done)
            if done == len(key):
                return
            self.stops += 1
            if self.state[ENTRIES] == len(self.following):
                self.table = grow_table(self.table, len(self.following) + 1, self.width)
                self.following = np.append(self.following, np.int32(-1))
                self.upper = np.append(self.upper, INT64.max)
            else:
                assert self.state[NODES] + self.state[HEIGHT] + 1 > len(self.size)
                self.separator = np.append(self.separator, np.full((1, FANOUT), INT64.max), axis=0)
                self.child = np.append(self.child, np.zeros((1, FANOUT), np.int32), axis=0)
                self.size = np.append(self.size, np.int32(0))

    def check(self) -> None:
        """Assert that the leaves hold all rows, each inside its bounds, and that a search ends where a scan does."""
        order = leaf_order(self.following, int(self.state[ENTRIES]))
        key, row, start, fill, *_ = pack_chains(self.table, order)
        assert sorted(row.tolist()) == list(range(len(self.keys)))
        assert key.tolist() == [self.keys[number] for number in row]
        bounds = self.upper[order]
        assert bounds[-1] == INT64.max
        assert all(a < b for a, b in pairwise(bounds.tolist()))
        for number, (begin, rows) in enumerate(zip(start.tolist(), fill.tolist(), strict=True)):
            held = key[begin : begin + rows]
            assert (held <= bounds[number]).all()
            assert number == 0 or (held > bounds[number - 1]).all()
            assert rows <= self.width or len(set(held.tolist())) == 1
        above = bounds[:-1] + 1
        for asked in (bounds, bounds[::3], np.sort(np.concatenate((bounds, above, key))), bounds[:0]):
            asked = np.ascontiguousarray(asked)  # noqa: PLW2901
            assert self.find(asked).tolist() == order[np.searchsorted(bounds, asked)].tolist()


@given(batches=st.lists(key_arrays(40).map(np.sort), max_size=6), width=st.integers(2, 5))
@example(batches=[np.array([INT64.min] * 5), np.array([INT64.min, INT64.max]), np.array([INT64.max] * 5)], width=2)
@example(batches=[np.array([5, 6]), np.array([4, 5, 6, 7])], width=2)
def test_oracle_drawn_batches(batches: list[Int64s], width: int) -> None:
    tree = Tree(width)
    tree.check()
    for key in batches:
        tree.insert(key)
        tree.check()


@pytest.mark.parametrize("shape", shapes())
@pytest.mark.parametrize("width", [2, 40])
def test_oracle_inner_nodes_split_where_keys_come(shape: str, width: int) -> None:
    """Narrow leaves fill nodes at their ends and in their middle; wide ones are sorted in blocks that are merged."""
    tree = Tree(width, entries=4, nodes=4)
    for key in np.array_split(shapes()[shape], 5):
        tree.insert(np.sort(key))
    tree.check()
    assert tree.stops > 0
    if width == 2 and shape in ("wide", "dense", "increasing", "decreasing"):
        assert tree.state[HEIGHT] >= 2


def test_three_levels_are_walked_back_and_down() -> None:
    """A hundred times 100 keys, each batch between two of the first: nodes split far from their ends."""
    tree = Tree(2, entries=20_000, nodes=2_000)
    tree.insert(np.arange(0, 2**40, 2**33))
    for middle in range(2**32, 2**40, 2**33):
        tree.insert(middle + np.arange(100, dtype=np.int64) * 7)
    tree.check()
    assert tree.state[HEIGHT] == 3
    assert tree.stops == 0
