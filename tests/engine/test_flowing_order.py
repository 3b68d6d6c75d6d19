"""Handshake join in order: how late punctuations release a row's pairs, and what is held back till then."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from topologies import disturbed, ids, join_of
from watersmeet.engine.row_numbers import gathered_schema
from watersmeet.engine.topologies.flowing_order import HeldBack, Passing, Punctuation

PUSH = 4


def rows(first: int) -> pa.Table:
    number = first + np.arange(PUSH)
    return pa.table({"id": number, "ts": number.astype("datetime64[us]"), "x": number % 3, "k": number})


@pytest.mark.parametrize(("left", "right"), [(64, 64), (64, 192), (32, 224)])
@pytest.mark.parametrize("cores", [1, 2, 4, 7])
def test_a_row_is_complete_when_the_windows_have_moved_far_enough(left: int, right: int, cores: int) -> None:
    """After ``ab / (a + b)`` rows of each stream, or up to a segment less, and the push that they come in."""
    late, latest = left * right / (left + right), 0
    options = {"topology": "handshake", "cores": cores, "order": "outer", "block_rows": 1}
    window = wm.count_window(left=left, right=right)
    with disturbed(cores), join_of("left.x = right.x", window, **options) as join:
        for first in range(0, 2 * right, PUSH):
            pairs = ids(join.push(left=rows(first), right=rows(first)))
            if first >= right:
                latest = max(latest, first + PUSH - min(join.complete))
                assert all(first + PUSH - max(pair) <= late + 2 * PUSH for pair in pairs)
        assert latest <= late + 2 * PUSH
        assert latest >= (0 if cores == 1 else late - right / cores)


def test_punctuations_are_forgotten_although_nobody_asks_what_is_complete() -> None:
    options = {"topology": "handshake", "cores": 4, "order": "outer", "block_rows": 1}
    with join_of("left.x = right.x", wm.count_window(64), **options) as join:
        for first in range(0, 1024, PUSH):
            join.push(left=rows(first), right=rows(first))
        under_way = join._topology._punctuated._under_way  # type: ignore[attr-defined] # those of the chain
        assert len(under_way) <= 2 * 64


def test_what_is_released_ends_with_the_punctuation() -> None:
    schemas = {"left": pa.schema([("a", "int64")]), "right": pa.schema([("b", "int64")])}
    schema = gathered_schema("inner", schemas, pa.schema([("a", "int64"), ("b", "int64")]), ("left", "right"))
    held = HeldBack()
    for left, right in (([1, 9, 4], [7, 2, 3]), ([5], [6])):
        held.add([pa.table([left, left, right, right], schema=schema)])
    assert held.release(3) == []
    assert later_rows(held.release(4)) == [4]
    assert later_rows(held.release(7)) == [6, 7]
    assert later_rows(held.pairs()) == [9]


def later_rows(tables: list[pa.Table]) -> list[int]:
    return sorted(max(a, b) for table in tables for a, b in zip(*(table[at].to_pylist() for at in (0, 2)), strict=True))


def test_a_right_punctuation_waits_for_the_left_blocks_that_it_crosses() -> None:
    passing = Passing()
    passing.come(Punctuation("left", 5), 0, 2)
    passing.come(Punctuation("right", 5), 3, 0)
    passing.count(2)
    assert passing.complete == -1
    assert list(passing.due("right", 0)) == []
    passing.count(3)
    assert passing.complete == 5
    assert list(passing.due("right", 0)) == [Punctuation("right", 5)]
    passing.come(Punctuation("left", 8), 0, 2)
    passing.count(3)
    assert list(passing.due("left", 1)) == []
    assert list(passing.due("left", 2)) == [Punctuation("left", 8)], "the newer one of two behind one block says more"
