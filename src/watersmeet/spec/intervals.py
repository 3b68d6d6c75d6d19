"""Sets of numbers as sorted, disjoint, closed intervals. ``None`` is an end at infinity.

An axis of a join means "left key minus right key lies in this set". A band is one interval, a comparison is one with an
end at infinity, ``<>`` is two, a disjunction of bands is several.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

__all__ = ["Bound", "IntervalSet"]

Bound = Fraction | None


@dataclass(frozen=True, slots=True)
class IntervalSet:
    """A union of closed intervals. Neighbouring members are ``step`` apart (0 for a continuum)."""

    parts: tuple[tuple[Bound, Bound], ...]
    step: Fraction = Fraction(0)

    def union(self, other: IntervalSet) -> IntervalSet:
        """Return the members of either set; intervals that touch become one."""
        parts = sorted((*self.parts, *other.parts), key=lambda part: (part[0] is not None, part[0] or 0))
        joined: list[tuple[Bound, Bound]] = []
        for low, high in parts:
            if joined and _reaches(joined[-1][1], low, self.step):
                joined[-1] = (joined[-1][0], _highest(joined[-1][1], high))
            else:
                joined.append((low, high))
        return IntervalSet(tuple(joined), self.step)

    def intersection(self, other: IntervalSet) -> IntervalSet:
        """Return the members of both sets.

        On a continuum an interval is kept even if its lower end lies above its upper end: the ends are rounded when
        they are added to values, and far from zero ``x + 1 <= x`` may be true.
        """
        parts = []
        for low_a, high_a in self.parts:
            for low_b, high_b in other.parts:
                low = low_b if low_a is None else low_a if low_b is None else max(low_a, low_b)
                high = high_b if high_a is None else high_a if high_b is None else min(high_a, high_b)
                if low is None or high is None or low <= high or self.step == 0:
                    parts.append((low, high))
        return IntervalSet(tuple(parts), self.step)

    @property
    def is_zero(self) -> bool:
        """True when zero is the only member: an equality."""
        return self.parts == ((Fraction(0), Fraction(0)),)

    @property
    def is_band(self) -> bool:
        """True when every interval has two ends."""
        return all(low is not None and high is not None for low, high in self.parts)


def _reaches(high: Bound, low: Bound, step: Fraction) -> bool:
    return high is None or low is None or low <= high + step


def _highest(a: Bound, b: Bound) -> Bound:
    return None if a is None or b is None else max(a, b)
