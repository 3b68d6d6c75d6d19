"""A batch with its keys: cut, put together, sorted and shared out, against the rows themselves."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from watersmeet.spec.sql import parse_predicate
from watersmeet.subwindow.choose import IndexOrder
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.payload import Extent
from watersmeet.window.plan import plan_join

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64())])
PLAN = plan_join(
    SCHEMA,
    SCHEMA,
    parse_predicate("left.k = right.k AND left.x BETWEEN right.x - 2 AND right.x + 5"),
    wm.count_window(left=10, right=4),
    "auto",
)
EQUALITY = next(number for number, axis in enumerate(PLAN.axes) if axis.is_equality)
BAND = 1 - EQUALITY
ORDERS = [IndexOrder(), IndexOrder((EQUALITY,)), IndexOrder((), BAND), IndexOrder((EQUALITY,), BAND)]
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(-20, 20)), max_size=25)


def batch_of(rows: list[tuple[int, int]]) -> KeyedBatch:
    columns = [pa.array([row[column] for row in rows], pa.int64()) for column in (0, 1)]
    arrival = Arrival(np.arange(len(rows)) + 100, np.arange(len(rows)) * 2)
    return KeyedBatch(PLAN, "left", pa.record_batch(columns, schema=SCHEMA), arrival)


def content(batch: KeyedBatch) -> list[tuple[Any, ...]]:
    """Return rows, numbers and keys, row by row."""
    assert batch.arrival is not None
    columns = (*(column.to_pylist() for column in batch.rows.columns), batch.arrival.sequence, batch.arrival.seen)
    return list(zip(*columns, batch.key(EQUALITY), batch.key(BAND), strict=True))


@pytest.mark.parametrize("known", [False, True], ids=["keys to come", "keys known"])
@given(rows=ROWS, cuts=st.lists(st.integers(0, 25), max_size=3), seed=st.integers(0, 9))
def test_oracle_rows_are_cut_and_put_together_with_all_that_is_theirs(
    known: bool, rows: list[tuple[int, int]], cuts: list[int], seed: int
) -> None:
    batch = batch_of(rows)
    if known:
        content(batch)
    whole = content(batch_of(rows))
    borders = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    slices = [batch.slice(begin, end) for begin, end in pairwise(borders)]
    assert [content(some) for some in slices] == [whole[begin:end] for begin, end in pairwise(borders)]
    if slices:
        assert KeyedBatch.concat(slices) is batch or content(KeyedBatch.concat(slices)) == whole
        turned = KeyedBatch.concat(slices[::-1])
        assert content(turned) == [row for some in slices[::-1] for row in content(some)]
    numbers = np.random.default_rng(seed).permutation(len(rows))
    assert content(batch.take(numbers)) == [whole[number] for number in numbers]
    mask = numbers % 2 == 0
    assert content(batch.keep(mask)) == [row for row, keeps in zip(whole, mask, strict=True) if keeps]
    assert batch.keep(None) is batch


def test_slices_that_follow_each_other_are_the_batch_they_were_cut_from() -> None:
    batch = batch_of([(1, n) for n in range(9)])
    first, second, third = batch.slice(0, 2), batch.slice(2, 7).slice(0, 3), batch.slice(5, 9)
    assert KeyedBatch.concat([first, second, third]) is batch
    assert first.is_followed_by(second)
    assert not second.is_followed_by(first)
    assert not batch.is_followed_by(first)


@pytest.mark.parametrize("order", ORDERS, ids=str)
@given(rows=ROWS)
def test_oracle_a_batch_is_sorted_by_group_and_key(order: IndexOrder, rows: list[tuple[int, int]]) -> None:
    """Equal ones stay as they came; of two axes the equality is the equality, which may be hashed."""
    found = batch_of(rows).sorted(order)

    def rank(at: int) -> list[int]:
        return [rows[at][axis] for axis, asked in ((0, order.equalities), (1, order.key is not None)) if asked]

    assert found.row.tolist() == sorted(range(len(rows)), key=rank)
    entries = batch_of(rows).entries(order, 50)
    assert entries.row.tolist() == (found.row + 50).tolist()
    assert entries.key.tolist() == found.key.tolist()


@given(rows=ROWS.filter(len), of=st.integers(1, 4))
def test_oracle_shares_of_probes_are_all_probes(rows: list[tuple[int, int]], of: int) -> None:
    batch = batch_of(rows)
    for order in ORDERS:
        whole = [(int(p.lo[i]), int(p.hi[i]), int(p.who[i])) for p in batch.probes(order) for i in range(len(p))]
        shares = [share for number in range(of) for share in batch.portion(number, of).probes(order)]
        assert sorted((int(p.lo[i]), int(p.hi[i]), int(p.who[i])) for p in shares for i in range(len(p))) == sorted(
            whole
        )
        if order.key is not None:  # left.x - 5 <= right.x <= left.x + 2
            assert sorted(whole) == sorted((x - 5, x + 2, at) for at, (_, x) in enumerate(rows))


def test_reach_of_a_count_window() -> None:
    """Row 0 has seen no right row and row 8 has seen 16 of them; four are in the window."""
    earliest, latest = batch_of([(0, 0)] * 9).reach()
    assert (earliest, latest) == (Extent(-4, 12), Extent(-1, 15))
