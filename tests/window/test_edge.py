"""Ranges across a window's edge, against a look at every row: in any order of places, with rows dropped meanwhile."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from watersmeet.subwindow.contract import Ranges
from watersmeet.window.edge import Edge, pays

JUMBLED = st.sampled_from([0, 3, 1_000])


@given(seed=st.integers(0, 99), size=st.integers(1, 200), jumbled=JUMBLED, first=st.integers(0, 9), but=st.booleans())
@example(seed=0, size=200, jumbled=0, first=0, but=False)
@example(seed=1, size=200, jumbled=3, first=4, but=True)
def test_oracle_rows_inside_are_counted(seed: int, size: int, jumbled: int, first: int, but: bool) -> None:
    """Batches may come in any order, rows are dropped between them, and their places are then gone."""
    random = np.random.default_rng(seed)
    places = np.arange(first + size) + random.integers(0, jumbled + 1, first + size)
    order = (first + random.permutation(size)).astype(np.int32)
    dropped = int(random.integers(0, first + size // 3 + 1))
    known = places.copy()
    known[:dropped] = np.iinfo(np.int64).max
    edge = Edge(order, known, dropped)
    for _ in range(4):
        batch = int(random.integers(1, 12))
        lowest = int(places[:dropped].max(initial=-1)) + 1  # what was dropped lies before every bound
        bound = lowest + random.integers(0, size + 1, batch)
        who = random.permutation(batch)[: random.integers(1, batch + 1)].astype(np.int32)
        start = random.integers(0, size + 1, len(who))
        end = random.integers(start, size + 1)
        found = Ranges(start, end, int((end - start).sum()), who, order)
        counts, total = edge.count(found, bound, dropped, but=but)
        kept = (order >= dropped) & (places[order] >= bound[who][:, None])
        at = np.arange(size)
        inside = kept & (((at >= start[:, None]) & (at < end[:, None])) != but)
        assert counts.tolist() == inside.sum(axis=1).tolist()
        assert total == counts.sum()
        dropped = min(first + size, dropped + int(random.integers(0, 5)))
        known[:dropped] = np.iinfo(np.int64).max  # as in memory that was freed


def test_an_edge_pays_where_ranges_are_long() -> None:
    order, nothing = np.arange(64, dtype=np.int32), np.empty(0, np.int32)
    found = [Ranges(np.empty(0, np.int64), np.empty(0, np.int64), count, nothing, order) for count in (3, 4, 31, 32)]
    assert [pays(some, sealed=True) for some in found] == [False, True, True, True]
    assert [pays(some, sealed=False) for some in found] == [False, False, False, True]
