"""Pairs that are split and compressed, against NumPy's stable sort and its masks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watersmeet.kernels.pairs import compress_pairs, split_pairs

SIZES = st.lists(st.integers(0, 5), min_size=1, max_size=6)


@given(first=st.sampled_from([0, 3, 2**31 - 40]), sizes=SIZES, seed=st.integers(0, 99), count=st.integers(0, 40))
@example(first=0, sizes=[1], seed=0, count=1)
@example(first=3, sizes=[0, 4, 0, 0, 1, 0], seed=1, count=40)
def test_oracle_pairs_go_to_the_chunk_of_their_row(first: int, sizes: list[int], seed: int, count: int) -> None:
    """Chunks may be empty; the rows are numbered from ``first`` on, and pairs of a chunk stay in their order."""
    random = np.random.default_rng(seed)
    starts = first + np.concatenate(([0], np.cumsum(sizes)))
    row = random.integers(first, starts[-1], count if sum(sizes) else 0).astype(np.int32)
    who = random.integers(-(2**31), 2**31, len(row)).astype(np.int32)
    ends, split_who, split_row = split_pairs(who, row, starts)
    chunk = np.searchsorted(starts, row, "right") - 1
    order = np.argsort(chunk, kind="stable")
    assert ends.tolist() == np.cumsum(np.bincount(chunk, minlength=len(sizes))).tolist()
    assert split_who.tolist() == who[order].tolist()
    assert split_row.tolist() == (row - starts[chunk])[order].tolist()
    assert split_who.dtype == split_row.dtype == np.int32


@pytest.mark.parametrize("size", [0, 1, 2, 33, 100])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_oracle_pairs_with_a_flag_are_kept_in_order(size: int, share: float) -> None:
    random = np.random.default_rng(size)
    who, row = random.integers(-(2**31), 2**31, (2, size)).astype(np.int32)
    keep = random.random(size) < share
    kept_who, kept_row = compress_pairs(who, row, keep, int(keep.sum()))
    assert kept_who.tolist() == who[keep].tolist()
    assert kept_row.tolist() == row[keep].tolist()
