"""Results as ranges and as a count: they stand for the oracle's pairs, everywhere, and ranges never read other rows."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import watersmeet as wm
from strategies import STRUCTURES
from topologies import (
    PREDICATES,
    SCHEMA,
    TOPOLOGIES,
    WINDOWS,
    Push,
    expected,
    ids,
    join_of,
    small_windows,
    stream,
    threads_left,
)
from watersmeet.window.verify import Verifier

FORMS = ("count", "ranges")
ON = {
    **PREDICATES,
    "not equal": "left.x <> right.x",
    "far": "left.x NOT BETWEEN right.x - 1 AND right.x + 2",
    "less": "left.x < right.x",
    "two bands": "left.x BETWEEN right.x - 3 AND right.x - 2 OR left.x BETWEEN right.x AND right.x + 1",
    "equality alone, and a band that is verified": "left.k = right.k AND left.x <= right.x AND left.id <> right.id",
}
ALWAYS, NEVER = 1 << 40, 0
"""Entries of an array for one match, for an edge to be used."""
WINDOW = wm.time_window("10 seconds", ts="ts")
BAND = PREDICATES["band"]


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    yield
    assert threads_left() == []


def pairs_in(form: str, join: wm.StreamJoin, results: pa.Table) -> tuple[int, Counter[tuple[int, int]]]:
    """Return what results stand for: how many pairs, and where they tell, which."""
    assert results.schema == join.schema
    count = sum(results["pairs"].to_pylist())
    if form == "count":
        return count, Counter()
    pairs = join.pairs_of(results)
    assert pairs.num_rows == count, "a record counts its pairs"
    return count, Counter(ids(pairs))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_oracle_forms_stand_for_the_same_pairs(topology: str, data: st.DataObject) -> None:
    """On every topology, with every structure, window and predicate, over restarts and in all ways to push."""
    structure = data.draw(st.sampled_from(STRUCTURES))
    window = WINDOWS[data.draw(st.sampled_from(sorted(WINDOWS)))]
    on = ON[data.draw(st.sampled_from(sorted(ON)))]
    options = {
        "topology": topology,
        "structure": structure,
        "cores": data.draw(st.sampled_from([1, 2, 3])),
        "block_rows": data.draw(st.sampled_from([3, 256])),
        "batch_rows": data.draw(st.sampled_from([None, 20])),
    }
    pushes = stream(data.draw(st.integers(0, 20)), 6, 25)
    ways = [data.draw(st.sampled_from(["push", "pushes", "submit", "restart"])) for _ in pushes]
    edges = data.draw(st.sampled_from([ALWAYS, 2, NEVER]))
    want = expected(on, window, pushes)
    for form in FORMS:
        with small_windows(), pytest.MonkeyPatch.context() as patch:
            patch.setattr("watersmeet.window.edge.ENTRIES_PER_MATCH", edges)
            patch.setattr("watersmeet.window.edge.ENTRIES_PER_MATCH_AT_FIRST", edges)
            count, found, join = follow(form, join_of(on, window, result=form, **options), pushes, ways)
        assert count == want.total() == join.metrics.pairs
        assert form == "count" or found == want


def follow(
    form: str, join: wm.StreamJoin, pushes: list[Push], ways: list[str]
) -> tuple[int, Counter[tuple[int, int]], wm.StreamJoin]:
    """Push in these ways; return the number of pairs, the pairs, and the join at its end."""
    count, found = 0, Counter[tuple[int, int]]()

    def add(results: pa.Table) -> None:
        nonlocal count
        some, pairs = pairs_in(form, join, results)
        count += some
        found.update(pairs)

    for (left, right), way in zip(pushes, ways, strict=True):
        match way:
            case "push":
                add(join.push(left=left, right=right))
            case "submit":
                join.submit(left=left, right=right)
                add(join.poll())
            case _:
                portions = join.pushes(left=left, right=right)
                if way == "restart":  # nothing was asked for: a snapshot carries it
                    old, join = join, wm.StreamJoin.restore(join.snapshot())
                    old.close()
                    portions = iter([join.push()])
                for portion in portions:
                    add(portion)
    add(join.finish())
    return count, found, join


# --- count ------------------------------------------------------------------------------------------------------------


def rows(first: int, count: int, x: int = 0) -> pa.Table:
    """Return rows, one a second, whose ``x`` is the same."""
    numbers = np.arange(first, first + count)
    return pa.table(
        {"id": numbers, "ts": pa.array(numbers * 1_000_000, pa.timestamp("us")), "x": [x] * count, "k": [0] * count},
        schema=SCHEMA,
    )


def test_a_count_is_one_number_also_where_nothing_matches() -> None:
    join = join_of(BAND, WINDOW, result="count")
    assert join.push().to_pydict() == {"pairs": [0]}
    assert join.push(left=rows(0, 3), right=rows(0, 2)).to_pydict() == {"pairs": [6]}
    assert [table.to_pydict() for table in join.pushes(right=rows(3, 2))] == [{"pairs": [6]}]
    assert join.poll().to_pydict() == {"pairs": [0]}
    join.submit(right=rows(5, 1))
    assert join.finish().to_pydict() == {"pairs": [3]}
    assert join.metrics.pairs == 15


def test_a_snapshot_carries_a_count_that_nobody_has_got() -> None:
    join = join_of(BAND, WINDOW, result="count")
    join.pushes(left=rows(0, 3), right=rows(0, 2))
    restored = wm.StreamJoin.restore(join.snapshot())
    assert restored.schema == join.schema
    assert restored.push(left=rows(3, 1)).to_pydict() == {"pairs": [8]}


@pytest.mark.parametrize("form", FORMS)
def test_range_across_the_edge_of_a_count_window(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The window is 10 rows. Each right row meets another part of one sorted array, and nobody looks at its rows.

    L  0 1 2 3 … 20          21 … 23
    R                0  1             2
                   11 … 20         14 … 23
    """
    monkeypatch.setattr("watersmeet.window.edge.ENTRIES_PER_MATCH_AT_FIRST", ALWAYS)
    monkeypatch.setattr(Verifier, "checked", None)
    join = join_of("left.x = right.x", wm.count_window(10), result=form, structure="bi_sort")
    join.push(left=rows(0, 21))
    count, pairs = pairs_in(form, join, join.push(right=rows(0, 2)))
    assert count == 20
    assert form == "count" or sorted(pairs) == sorted((left, right) for left in range(11, 21) for right in (0, 1))
    count, pairs = pairs_in(form, join, join.push(left=rows(21, 3), right=rows(2, 1)))
    assert count == 2 * 3 + 10
    assert form == "count" or sorted(left for left, right in pairs if right == 2) == list(range(14, 24))


@pytest.mark.parametrize("form", FORMS)
def test_rows_that_were_dropped_are_no_longer_counted(form: str) -> None:
    """The oldest segment is inside of the window as far as it is held; its index still has the rows before.

    L  24 … 27 | 28 … 35 || 36 … 43      dropped | held || the next segment
    R                           16 rows back: 28 … 43
    """
    with small_windows():
        join = join_of("left.x = right.x", wm.count_window(16), result=form, structure="bi_sort")
        for number in range(0, 44, 4):
            join.push(left=rows(number, 4))
        assert join.metrics.left_window_rows == 16
        count, pairs = pairs_in(form, join, join.push(right=rows(0, 1)))
    assert count == 16
    assert form == "count" or sorted(left for left, _ in pairs) == list(range(28, 44))


# --- ranges -----------------------------------------------------------------------------------------------------------


def test_a_record_stands_for_any_number_of_rows() -> None:
    join = join_of(BAND, wm.count_window(100), result="ranges", structure="bi_sort")
    join.push(left=rows(0, 5))
    records = join.push(right=rows(5, 2))
    assert records.drop_columns(["answer"]).to_pydict() == {
        "side": ["right"] * 2,
        "row": [0, 1],
        "start": [0, 0],
        "end": [5, 5],
        "not": [False] * 2,
        "pairs": [5, 5],
    }
    assert sorted(ids(join.pairs_of(records))) == [(left, right) for left in range(5) for right in (5, 6)]
    assert sorted(ids(join.pairs_of(records.slice(1, 1)))) == [(left, 6) for left in range(5)]
    assert join.pairs_of(records.slice(0, 0)).num_rows == 0


def test_not_equal_is_one_record_a_row_of_what_it_does_not_meet() -> None:
    join = join_of("left.x <> right.x", wm.count_window(100), result="ranges", structure="bi_sort")
    join.push(left=pa.concat_tables([rows(0, 2, x=4), rows(2, 3, x=6), rows(5, 1, x=8)]))
    records = join.push(right=pa.concat_tables([rows(5, 1, x=6), rows(6, 1, x=5), rows(7, 1, x=9)]))
    assert records["not"].to_pylist() == [True] * 3
    row, start, end, pairs = (records[name].to_pylist() for name in ("row", "start", "end", "pairs"))
    gaps = dict(zip(row, zip(start, end, pairs, strict=True), strict=True))
    assert gaps == {0: (2, 5, 3), 1: (2, 2, 6), 2: (6, 6, 6)}
    assert sorted(left for left, right in ids(join.pairs_of(records.slice(0, 1)))) == [0, 1, 5]
    assert join.pairs_of(records).num_rows == 15


def test_records_are_as_many_whatever_is_met() -> None:
    for matches in (1, 2_000):
        join = join_of("left.x = right.x", wm.count_window(5_000), result="ranges", structure="bi_sort")
        join.push(left=pa.concat_tables([rows(0, 1, x=0), rows(1, 1_999, x=0 if matches > 1 else 1)]))
        records = join.push(right=rows(2_000, 100))
        assert records.num_rows == 100
        assert records["pairs"].to_pylist() == [matches] * 100


def test_range_reads_the_same_rows_after_they_have_expired() -> None:
    """Rows that are a range's expire, and others come, before it is turned into pairs.

    The window is 200,000 rows, held in arrays of 8 bytes a row, and drops them 4,096 at a time.
    """
    window = wm.count_window(200_000)
    join = join_of("left.x = right.x", window, result="ranges", structure="bi_sort", topology="kang")
    for number in range(0, 200_000, 10_000):
        join.push(left=rows(number, 10_000))
    records = join.push(right=rows(0, 1))
    before = sorted(ids(join.pairs_of(records)))
    assert before == [(left, 0) for left in range(200_000)]
    for number in range(200_000, 300_000, 10_000):
        join.submit(left=rows(number, 10_000))
    gc.collect()
    assert sorted(ids(join.pairs_of(records))) == before


def test_memory_of_expired_rows_is_freed_when_no_range_refers_to_it() -> None:
    join = join_of("left.x = right.x", wm.time_window("100 seconds", ts="ts"), result="ranges", topology="kang")
    sizes = []
    for number in range(60):
        join.push(left=rows(1_000 * number, 1_000), right=rows(1_000 * number, 1_000))
        sizes.append(join.metrics.window_bytes)
    assert max(sizes[30:]) <= max(sizes[:30])


# --- what is refused --------------------------------------------------------------------------------------------------


def test_records_of_earlier_results_are_refused() -> None:
    join = join_of(BAND, WINDOW, result="ranges")
    records = join.push(left=rows(0, 3), right=rows(0, 2))
    other = join_of(BAND, WINDOW, result="ranges")
    other.push(left=rows(0, 3), right=rows(0, 2))
    with pytest.raises(wm.SpecificationError, match=r"a record of answer \d+, which belongs to other results"):
        other.pairs_of(records)
    restored = wm.StreamJoin.restore(join.snapshot())
    with pytest.raises(wm.SpecificationError, match="turn records into pairs before the next results"):
        restored.pairs_of(records)
    assert join.pairs_of(records).num_rows == 6
    join.push()
    with pytest.raises(wm.SpecificationError, match="belongs to other results"):
        join.pairs_of(records)


@pytest.mark.parametrize(
    ("column", "value"), [("row", 3), ("row", -1), ("start", -1), ("start", 4), ("end", 4), ("end", 2**40)]
)
def test_records_that_were_changed_are_refused(column: str, value: int) -> None:
    join = join_of(BAND, WINDOW, result="ranges", structure="bi_sort")
    join.push(left=rows(0, 3))
    records = join.push(right=rows(0, 3))
    at = records.schema.get_field_index(column)
    changed = records.set_column(at, records.schema.field(at), pa.array([value] * 3, records.schema.field(at).type))
    with pytest.raises(wm.SpecificationError, match="a record that was changed: row"):
        join.pairs_of(changed)


def test_what_is_no_table_of_records_is_refused() -> None:
    join = join_of(BAND, WINDOW, result="ranges")
    with pytest.raises(wm.SpecificationError, match="a table with columns"):
        join.pairs_of(pa.table({"answer": [1]}))
    nulls = pa.table({field.name: pa.nulls(1, field.type) for field in join.schema}, schema=join.schema)
    with pytest.raises(wm.SpecificationError, match="a record with a null"):
        join.pairs_of(nulls)
    given: Any = None
    with pytest.raises(wm.SpecificationError, match="was given None"):
        join.pairs_of(given)
    for form in ("pairs", "count"):
        with pytest.raises(wm.SpecificationError, match='build the join with result="ranges"'):
            join_of(BAND, WINDOW, result=form).pairs_of(nulls)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", ["outer", "inner", wm.relaxed(rows=3)])
def test_an_order_of_what_are_no_pairs_is_refused(form: str, order: Any) -> None:
    with pytest.raises(wm.SpecificationError, match=f"result='{form}' with order="):
        join_of(BAND, WINDOW, result=form, order=order)


def test_another_form_is_refused() -> None:
    with pytest.raises(wm.SpecificationError, match=r"result='rows'\n  allowed: 'pairs', 'ranges', 'count'"):
        join_of(BAND, WINDOW, result="rows")
