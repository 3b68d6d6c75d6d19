"""What tests of subwindow structures share: filling and probing one, and the recomputation they are compared with."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from drawn_keys import INT64, KEYS, key_arrays
from watersmeet.arrays import Int64s
from watersmeet.subwindow.contract import Entries, Probes, Ranges, Subwindow, count_matches, pairs_of


def entries_of(key: Int64s, first_row: int = 0) -> Entries:
    order = np.argsort(key, kind="stable")
    return Entries(key[order], (first_row + order).astype(np.int32))


def insert_all(subwindow: Subwindow, batches: list[Int64s]) -> Int64s:
    rows = 0
    for batch in batches:
        subwindow.insert(entries_of(batch, rows))
        rows += len(batch)
    return np.concatenate([np.empty(0, np.int64), *batches])


def found(subwindow: Subwindow, probes: Probes) -> list[tuple[int, int]]:
    matches = list(subwindow.probe(probes))
    assert_contract([some for some in matches if isinstance(some, Ranges)], len(subwindow.snapshot()))
    pairs = pairs_of(matches)
    assert pairs.who.dtype == pairs.row.dtype == np.int32
    result = list(zip(pairs.who.tolist(), pairs.row.tolist(), strict=True))
    assert count_matches(matches) == len(result)
    return sorted(result)


def assert_contract(some: list[Ranges], stored: int) -> None:
    """Assert what the contract says of ranges, each of an array of its own."""
    for ranges in some:
        assert np.all(ranges.start < ranges.end)
        assert np.all(ranges.end <= len(ranges.row))
        assert ranges.count == int((ranges.end - ranges.start).sum())
        assert len(np.unique(ranges.who)) == len(ranges.who)
    assert len({id(ranges.row) for ranges in some}) == len(some)
    rows = np.concatenate([np.empty(0, np.int32), *(ranges.row for ranges in some)])
    assert len(np.unique(rows)) == len(rows) <= stored


def expected(key: Int64s, probes: Probes) -> list[tuple[int, int]]:
    who, row = np.nonzero((key >= probes.lo[:, None]) & (key <= probes.hi[:, None]))
    return sorted(zip(probes.who[who].tolist(), row.tolist(), strict=True))


def assert_holds(subwindow: Subwindow, key: Int64s) -> None:
    snapshot = subwindow.snapshot()
    assert snapshot.key.dtype == np.int64
    assert snapshot.row.dtype == np.int32
    np.testing.assert_array_equal(snapshot.key, np.sort(key))
    np.testing.assert_array_equal(np.sort(snapshot.row), np.arange(len(key)))
    np.testing.assert_array_equal(key[snapshot.row], snapshot.key)


def probes_around(key: Int64s, width: Int64s) -> Probes:
    """Return probes ``[key, key + width]``, as far as int64 goes; a negative width gives an empty range."""
    order = np.argsort(key, kind="stable")
    lo = key[order]
    hi = np.array([min(max(a + b, INT64.min), INT64.max) for a, b in zip(lo.tolist(), width.tolist(), strict=True)])
    hi = np.maximum.accumulate(hi.astype(np.int64)) if len(hi) else np.empty(0, np.int64)
    return Probes(lo, hi, (order + 7).astype(np.int32))


BATCHES = st.lists(key_arrays(40), max_size=6)
WIDTHS = st.one_of(st.just(0), st.integers(-3, 3), st.sampled_from([100, 2**40, 2**63 - 1]))
PROBES = st.one_of(
    st.lists(st.tuples(KEYS, st.just(0)), max_size=30),  # equality
    st.lists(st.tuples(KEYS, WIDTHS), max_size=30),
).map(lambda drawn: probes_around(np.array([k for k, _ in drawn], np.int64), np.array([w for _, w in drawn], np.int64)))
