"""The generated auction house: how many of what, in which order, and whom events name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.nexmark import BLOCK, FIRST_MOMENT, MICROSECONDS_PER_EVENT, events

SEED = 7
MADE = events(0, 2 * BLOCK, seed=SEED)


def _numbers(table: pa.Table, column: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(table[column]).astype(np.int64)


def _when(table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return _numbers(table, "ts") - FIRST_MOMENT


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_46_bids() -> None:
    assert (MADE.person.num_rows, MADE.auction.num_rows, MADE.bid.num_rows) == (400, 1_200, 18_400)
    assert np.array_equal(_when(MADE.person) // MICROSECONDS_PER_EVENT % 50, np.zeros(400))
    assert set(_when(MADE.auction) // MICROSECONDS_PER_EVENT % 50) == {1, 2, 3}
    assert set(_when(MADE.bid) // MICROSECONDS_PER_EVENT % 50) == set(range(4, 50))


def test_times_ascend_without_a_gap() -> None:
    for table in (MADE.person, MADE.auction, MADE.bid):
        assert np.all(np.diff(_when(table)) > 0)
    together = np.sort(np.concatenate([_when(table) for table in (MADE.person, MADE.auction, MADE.bid)]))
    assert np.array_equal(together, np.arange(2 * BLOCK) * MICROSECONDS_PER_EVENT)


def test_the_same_seed_makes_the_same_events_however_they_are_cut() -> None:
    first, second, other = (events(at, BLOCK, seed=seed) for at, seed in ((0, SEED), (BLOCK, SEED), (0, SEED + 1)))
    for kind in ("person", "auction", "bid"):
        assert pa.concat_tables([getattr(first, kind), getattr(second, kind)]).equals(getattr(MADE, kind))
    assert not first.bid.equals(other.bid)


def test_events_name_who_came_before_them_lately() -> None:
    opened = dict(zip(_numbers(MADE.auction, "id").tolist(), _when(MADE.auction).tolist(), strict=True))
    registered = dict(zip(_numbers(MADE.person, "id").tolist(), _when(MADE.person).tolist(), strict=True))
    bids, bidden = _when(MADE.bid), np.array([opened[number] for number in _numbers(MADE.bid, "auction").tolist()])
    sales = np.array([registered[number] for number in _numbers(MADE.auction, "seller").tolist()])
    assert np.all(bidden < bids)
    assert np.all(sales < _when(MADE.auction))
    assert bids[-1] - bidden[-1] < 50 * 100 * MICROSECONDS_PER_EVENT
    assert len(opened) == 1_200
    assert len(registered) == 400
    assert set(_numbers(MADE.auction, "category").tolist()) == set(range(10, 15))
    assert np.all(_numbers(MADE.auction, "expires") > _numbers(MADE.auction, "ts"))


def test_half_of_the_bids_are_for_hot_auctions() -> None:
    hot = _numbers(MADE.bid, "auction") % 100 == 0
    assert 0.45 < hot.mean() < 0.56
