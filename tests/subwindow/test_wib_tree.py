"""WiB+-Tree: every key lies inside its leaf's bounds, and the tree stays flat."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from drawn_keys import INT64, shapes
from structures import insert_all
from watersmeet.arrays import Int64s
from watersmeet.subwindow.wib_tree import WibTree


def assert_tree_invariants(tree: WibTree, width: int) -> None:
    leaves = tree.leaves()
    bounds = [bound for bound, _ in leaves]
    assert bounds[-1] == INT64.max
    assert all(a < b for a, b in pairwise(bounds)), "no separator occurs twice"
    for below, (bound, key) in zip([None, *bounds], leaves, strict=False):
        assert (key <= bound).all()
        assert below is None or (key > below).all()
        assert len(key) <= width or len(np.unique(key)) == 1
    np.testing.assert_array_equal(tree._find(np.array(bounds)), tree._leaf_order())


@pytest.mark.parametrize("key", shapes().values(), ids=shapes().keys())
@pytest.mark.parametrize("width", [2, 5, 64])
def test_wib_tree_keeps_every_key_inside_its_leafs_bounds(key: Int64s, width: int) -> None:
    tree = WibTree(len(key), leaf_width=width)
    insert_all(tree, np.array_split(key, 13))
    assert_tree_invariants(tree, width)
    tree.seal()
    assert_tree_invariants(tree, width)


@pytest.mark.parametrize("step", [1, -1], ids=["increasing", "decreasing"])
def test_wib_tree_stays_full_and_flat_on_drifting_keys(step: int) -> None:
    n, width = 50_000, 16
    tree = WibTree(n, leaf_width=width)
    insert_all(tree, np.array_split(np.arange(n, dtype=np.int64) * step, 50))
    leaves = n / width
    assert tree.entries_used <= 1.1 * leaves
    assert tree.height <= 3
    if step > 0:
        assert tree.height == 2  # 64 * 64 leaves or fewer


def test_wib_tree_grows_to_several_levels_on_random_keys() -> None:
    n, width = 40_000, 4
    tree = WibTree(n, leaf_width=width)
    insert_all(tree, np.array_split(np.random.default_rng(9).integers(0, 2**60, n), 20))
    assert_tree_invariants(tree, width)
    assert tree.height == 3
    assert tree.entries_used < 2.2 * n / width
