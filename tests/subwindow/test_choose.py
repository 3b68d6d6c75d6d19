"""What ``choose`` decides: the order that leaves the fewest candidates, then the structure, by PanJoin's rule."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet.spec.normal import normal_form
from watersmeet.spec.sql import parse_predicate
from watersmeet.subwindow.choose import LARGE_BATCH, LARGE_SELECTIVITY, Choice, choose

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])
EQUALITY, BAND, OTHER = 0, 1, 2
ON = "left.k = right.k AND left.x - right.x BETWEEN -5 AND 5 AND left.y - right.y BETWEEN 0 AND 9"
AXES = dict(enumerate(normal_form(parse_predicate(ON), {"left": SCHEMA, "right": SCHEMA}).axes))


def decide(
    fractions: dict[int, float],
    *,
    wanted: str = "auto",
    batch_rows: int = 8,
    window_rows: int = 1000,
    growing_keys: bool = False,
) -> Choice:
    axes = {number: AXES[number] for number in fractions}
    return choose(
        wanted,  # type: ignore[arg-type]
        axes,
        None,
        fractions,
        batch_rows=batch_rows,
        window_rows=window_rows,
        growing_keys=growing_keys,
    )


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


@pytest.mark.parametrize(
    ("batch_rows", "window_rows", "growing_keys", "structure"),
    [
        (LARGE_BATCH, 1000, False, "bi_sort"),
        (LARGE_BATCH - 1, 1000, False, "rap_table"),
        (LARGE_BATCH - 1, 1000, True, "wib_tree"),
        (8, int(LARGE_SELECTIVITY / 0.001), True, "bi_sort"),  # a row meets many
        (8, int(LARGE_SELECTIVITY / 0.001) - 1000, True, "wib_tree"),
    ],
)
def test_the_structure_for_one_key(batch_rows: int, window_rows: int, growing_keys: bool, structure: str) -> None:
    chosen = decide({BAND: 0.001}, batch_rows=batch_rows, window_rows=window_rows, growing_keys=growing_keys)
    assert chosen.structure == structure, chosen.reason


def test_two_keys_are_sorted_by_bi_sort() -> None:
    """Of a thousand rows, 100 have the key, and one of these lies in the band: few matches, but two keys."""
    chosen = decide({EQUALITY: 0.1, BAND: 0.01}, growing_keys=True)
    assert chosen.structure == "bi_sort"
    assert "0.001" in chosen.reason


def test_a_structure_that_was_asked_for() -> None:
    assert decide({BAND: 0.1}, wanted="scan").structure == "scan"
    assert decide({EQUALITY: 0.9, BAND: 0.001}, wanted="hash").order.equalities == (EQUALITY,)
    assert decide({EQUALITY: 0.1, BAND: 0.01}, wanted="rap_table").order.key == BAND, "it has no groups"
