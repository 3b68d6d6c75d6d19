"""Sets of numbers as intervals, against sets of Python integers."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from watersmeet.spec.intervals import Bound, IntervalSet

ALL = range(-15, 16)
"""Numbers tried; ends lie further inside, so the first and the last stand for all beyond."""
Parts = list[tuple[int | None, int | None]]


@st.composite
def drawn_sets(draw: st.DrawFn) -> IntervalSet:
    """Draw sorted intervals that neither meet nor touch; the outer ones may be open."""
    ends = sorted(draw(st.sets(st.integers(-6, 6).map(lambda number: 2 * number), max_size=6)))
    parts: list[tuple[Bound, Bound]] = [
        (Fraction(low), Fraction(high - draw(st.integers(0, 1))))
        for low, high in zip(ends[::2], ends[1::2], strict=False)
    ]
    if parts and draw(st.booleans()):
        parts[0] = (None, parts[0][1])
    if parts and draw(st.booleans()):
        parts[-1] = (parts[-1][0], None)
    return IntervalSet(tuple(parts), Fraction(1))


def members(some: IntervalSet) -> set[int]:
    return {
        number
        for number in ALL
        for low, high in some.parts
        if (low is None or low <= number) and (high is None or number <= high)
    }


def touches(some: IntervalSet) -> bool:
    return any(high is None or low is None or low <= high + 1 for (_, high), (low, _) in pairwise(some.parts))


@given(a=drawn_sets(), b=drawn_sets())
@example(a=IntervalSet(()), b=IntervalSet(((None, None),), Fraction(1)))
def test_oracle_members_of_either_and_of_both(a: IntervalSet, b: IntervalSet) -> None:
    a, b = IntervalSet(a.parts, Fraction(1)), IntervalSet(b.parts, Fraction(1))
    assert members(a.union(b)) == members(a) | members(b)
    assert members(a.intersection(b)) == members(a) & members(b)
    assert not touches(a.union(b)), "intervals that touch become one"
    assert a.union(b) == b.union(a)


def test_only_whole_numbers_touch_at_a_distance() -> None:
    zero, one = ((Fraction(0), Fraction(0)),), ((Fraction(1), Fraction(1)),)
    assert IntervalSet(zero, Fraction(1)).union(IntervalSet(one)).parts == ((Fraction(0), Fraction(1)),)
    assert IntervalSet(zero).union(IntervalSet(one)).parts == (*zero, *one)


def test_on_a_continuum_ends_that_have_changed_places_stay() -> None:
    """Far from zero rounding may make them meet."""
    below, above = ((None, Fraction(0)),), ((Fraction(1), None),)
    assert IntervalSet(below).intersection(IntervalSet(above)).parts == ((Fraction(1), Fraction(0)),)
    assert IntervalSet(below, Fraction(1)).intersection(IntervalSet(above)).parts == ()


def test_equalities_and_bands_are_known() -> None:
    zero, open_end = (Fraction(0), Fraction(0)), (Fraction(3), None)
    assert IntervalSet((zero,)).is_zero
    assert IntervalSet((zero,)).is_band
    assert not IntervalSet((zero, open_end)).is_zero
    assert not IntervalSet((zero, open_end)).is_band
