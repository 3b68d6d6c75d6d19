"""What ``choose`` decides: the order that leaves the fewest candidates, then the structure, by PanJoin's rule."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from structures import assert_holds, entries_of, insert_all
from watersmeet.spec.normal import normal_form
from watersmeet.spec.options import Structure
from watersmeet.spec.sql import parse_predicate
from watersmeet.subwindow.choose import (
    LARGE_BATCH,
    LARGE_SELECTIVITY,
    STRUCTURES,
    UNSEEN,
    Choice,
    Drift,
    IndexOrder,
    choose,
    create,
    follow_keys,
    order_fraction,
)
from watersmeet.subwindow.rap_table import FULLEST, RapTable
from watersmeet.subwindow.wib_tree import WibTree

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])
EQUALITY, BAND, OTHER = 0, 1, 2
ON = "left.k = right.k AND left.x - right.x BETWEEN -5 AND 5 AND left.y - right.y BETWEEN 0 AND 9"
AXES = dict(enumerate(normal_form(parse_predicate(ON), {"left": SCHEMA, "right": SCHEMA}).axes))


def decide(
    fractions: dict[int, float],
    *,
    wanted: Structure = "auto",
    time: int | None = None,
    batch_rows: int = 8,
    window_rows: int = 1000,
    drift: Drift | None = None,
) -> Choice:
    axes = {number: AXES[number] for number in fractions}
    return choose(wanted, axes, time, fractions, batch_rows=batch_rows, window_rows=window_rows, drift=drift)


def test_axes_are_what_their_names_say() -> None:
    assert [axis.is_equality for axis in AXES.values()] == [True, False, False]


@pytest.mark.parametrize(
    ("fractions", "equality", "key"),
    [
        ({EQUALITY: 0.1, BAND: 0.01}, (EQUALITY,), BAND),  # both narrow: 0.001
        ({EQUALITY: 0.1, BAND: 0.01, OTHER: 0.001}, (EQUALITY,), OTHER),
        ({EQUALITY: 0.1, BAND: 1.0}, (EQUALITY,), None),  # a second key that excludes nothing only costs memory
        ({BAND: 0.5, OTHER: 0.4}, (), OTHER),
        ({EQUALITY: 0.3}, (EQUALITY,), None),
        ({}, (), None),
    ],
)
def test_the_order_that_leaves_the_fewest_candidates(
    fractions: dict[int, float], equality: tuple[int, ...], key: int | None
) -> None:
    order = decide(fractions).order
    assert (order.equalities, order.key) == (equality, key)


BEST: dict[bool, dict[int, float]] = {
    False: {EQUALITY: 0.1, BAND: 0.01},
    True: {EQUALITY: 0.01, BAND: 0.1},
}


@pytest.mark.parametrize("equality_is_best", [False, True])
@pytest.mark.parametrize("wanted", STRUCTURES)
def test_the_order_of_a_structure_that_was_asked_for(wanted: Structure, equality_is_best: bool) -> None:
    """BI-Sort sorts by both, hash takes equalities where there are any, all others the better of the two."""
    chosen = decide(BEST[equality_is_best], wanted=wanted, batch_rows=10**6, drift="growing")
    expected = {
        "bi_sort": IndexOrder((EQUALITY,), BAND),
        "hash": IndexOrder((EQUALITY,)),
    }.get(wanted, IndexOrder((EQUALITY,)) if equality_is_best else IndexOrder((), BAND))
    assert (chosen.structure, chosen.order, chosen.asked_for) == (wanted, expected, True)
    assert chosen.reason.endswith(f"structure {wanted} was asked for")


def test_hash_without_an_equality_takes_the_best_of_the_others() -> None:
    assert decide({BAND: 0.5, OTHER: 0.4}, wanted="hash").order == IndexOrder((), OTHER)


def test_two_equalities_are_one_order() -> None:
    on = "left.k = right.k AND left.x = right.x AND left.y < right.y"
    axes = dict(enumerate(normal_form(parse_predicate(on), {"left": SCHEMA, "right": SCHEMA}).axes))
    kind = {axis.is_equality for axis in axes.values()}
    assert kind == {True, False}
    equalities = tuple(number for number, axis in axes.items() if axis.is_equality)
    fractions = {number: 0.1 if axis.is_equality else 0.5 for number, axis in axes.items()}
    chosen = choose("rap_table", axes, None, fractions, batch_rows=8, window_rows=1000, drift=None)
    assert chosen.order == IndexOrder(equalities), "0.01, with the comparison alone 0.5"
    assert order_fraction(chosen.order, fractions) == pytest.approx(0.01)


@pytest.mark.parametrize(("equality", "band", "key"), [(UNSEEN, 0.5, None), (2 * UNSEEN, 0.5, BAND), (0.5, 1.0, None)])
def test_a_second_key_is_taken_only_where_it_is_seen_to_exclude_rows(
    equality: float, band: float, key: int | None
) -> None:
    assert decide({EQUALITY: equality, BAND: band}).order == IndexOrder((EQUALITY,), key)


def test_the_time_window_competes_and_is_named() -> None:
    chosen = decide({EQUALITY: 0.5, BAND: 0.4, OTHER: 0.001}, time=OTHER)
    assert chosen.order == IndexOrder((EQUALITY,), OTHER)
    assert "order (left.k = right.k, time)" in chosen.reason.replace(str(AXES[EQUALITY]), "left.k = right.k")
    unused = decide({EQUALITY: 0.5, BAND: 0.4, OTHER: 1.0}, time=OTHER)
    assert "time 1" in unused.reason.partition("alone the others would: ")[2]


MANY = int(LARGE_SELECTIVITY / 0.001)
"""Rows of a window of which one in a thousand is as many as is large."""


@pytest.mark.parametrize("large_batch", [False, True])
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("drift", [None, "growing", "falling", "changing"])
def test_the_structure_for_one_key(drift: Drift | None, many: bool, large_batch: bool) -> None:
    """The paper's rule, every branch, each at the border that decides."""
    chosen = decide(
        {BAND: 0.001},
        batch_rows=LARGE_BATCH - (not large_batch),
        window_rows=MANY - 1000 * (not many),
        drift=drift,
    )
    if large_batch:
        expected = ("bi_sort", "batches are large")
    elif many:
        expected = ("bi_sort", "a row meets many")
    elif drift is not None:
        expected = ("wib_tree", f"keys keep {drift}")
    else:
        expected = ("rap_table", "keys do not drift")
    assert chosen.structure == expected[0], chosen.reason
    assert expected[1] in chosen.reason
    assert not chosen.asked_for


@pytest.mark.parametrize("drift", [None, "growing"])
def test_an_equality_alone_is_no_different(drift: Drift | None) -> None:
    assert decide({EQUALITY: 0.001}, drift=drift).structure == ("rap_table" if drift is None else "wib_tree")


def test_two_keys_are_sorted_by_bi_sort() -> None:
    """Of a thousand rows, 100 have the key, and one of these lies in the band: few matches, but two keys."""
    chosen = decide({EQUALITY: 0.1, BAND: 0.01}, drift="growing")
    assert chosen.structure == "bi_sort"
    assert "0.001" in chosen.reason


def test_no_axis_is_no_order() -> None:
    chosen = decide({}, window_rows=LARGE_SELECTIVITY)
    assert (chosen.structure, chosen.order) == ("bi_sort", IndexOrder()), "all rows are candidates, which are many"
    assert chosen.reason.startswith("order none")
    assert decide({}, window_rows=LARGE_SELECTIVITY - 1).structure == "rap_table"


@pytest.mark.parametrize("wanted", ["auto", "rap_table"])
@pytest.mark.parametrize("rows", [FULLEST, FULLEST + 1])
def test_a_tree_takes_the_place_of_an_outgrown_table_that_was_not_asked_for(wanted: Structure, rows: int) -> None:
    choice = decide({BAND: 0.001}, wanted=wanted)
    before = create(choice, 4096, None)
    before.insert(entries_of(np.arange(4096)))
    table = create(choice, 4096, before)
    keys = insert_all(table, [np.arange(5000, 5000 + rows)])  # all behind the last splitter
    now, index = follow_keys(choice, table)
    if wanted == "auto" and rows > FULLEST:
        assert (now.structure, now.outgrown, type(index)) == ("wib_tree", True, WibTree)
        assert now.reason.startswith(choice.reason)
        assert now.order == choice.order
    else:
        assert now is choice
        assert index is table
    assert_holds(index, keys)
    assert follow_keys(now, index) == (now, index)


def test_what_a_subwindow_learns_from() -> None:
    """A table from a table, and from nothing else."""
    choice = decide({BAND: 0.001})
    table = create(choice, 100, None)
    table.insert(entries_of(np.arange(100)))
    following, alone = (create(choice, 100, before) for before in (table, WibTree(100)))
    assert isinstance(following, RapTable)
    assert isinstance(alone, RapTable)
    assert len(following.splitters)
    assert not len(alone.splitters)
