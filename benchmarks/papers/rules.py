"""What can be asked of our curves, and how the paper's answer looks in the same picture.

A rule picks curves by label, or by their number where labels change with the sizes of a run. It gives one number, and
the line or point that the paper's number would be. A curve that has no such number gives NaN, which fits nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.report import Series

__all__ = [
    "Change",
    "Ends",
    "Growth",
    "Height",
    "Highest",
    "Knee",
    "LeadsFrom",
    "Lines",
    "Peak",
    "Ratio",
    "Rule",
    "Settled",
    "Spread",
    "Widening",
    "line_of",
]

Lines = Sequence[Series]
"""The curves of one panel."""
Who = str | int
"""A curve: its label, or its number."""


class Rule:
    """A question to curves."""

    def measured(self, lines: Lines) -> float:
        """Return what our curves say."""
        raise NotImplementedError

    def theirs(self, lines: Lines, value: float) -> Series | None:  # noqa: ARG002 -- for those that have a picture
        """Return what the paper's value looks like beside our curves; None where it has no place there."""
        return None


def line_of(lines: Lines, who: Who) -> Series:
    """Return a curve by label or number."""
    return lines[who] if isinstance(who, int) else next(line for line in lines if line.label == who)


@dataclass(frozen=True)
class Growth(Rule):
    """The exponent of a power law through a curve's first and last point: 1 is linear, 0.5 the square root."""

    who: Who

    def measured(self, lines: Lines) -> float:
        line = line_of(lines, self.who)
        steps = math.log(line.x[-1] / line.x[0])
        return math.log(line.y[-1] / line.y[0]) / steps if steps else math.nan

    def theirs(self, lines: Lines, value: float) -> Series | None:
        line = line_of(lines, self.who)
        return Series("", line.x, [line.y[0] * (x / line.x[0]) ** value for x in line.x])


@dataclass(frozen=True)
class Change(Rule):
    """A curve's last value over its first."""

    who: Who

    def measured(self, lines: Lines) -> float:
        line = line_of(lines, self.who)
        return line.y[-1] / line.y[0]

    def theirs(self, lines: Lines, value: float) -> Series | None:
        line = line_of(lines, self.who)
        return Series("", [line.x[-1]], [line.y[0] * value])


@dataclass(frozen=True)
class Ratio(Rule):
    """One curve over another where both have a point: at the first such point, the last, or where most or least."""

    who: Who
    to: Who
    at: Literal["first", "last", "most", "least"]

    def measured(self, lines: Lines) -> float:
        ratios = [own / other for _, own, other in self.shared(lines)]
        at = {"first": ratios[:1], "last": ratios[-1:], "most": [max(ratios)], "least": [min(ratios)]}
        return at[self.at][0]

    def theirs(self, lines: Lines, value: float) -> Series | None:
        shared = self.shared(lines)
        shown = {"first": shared[:1], "last": shared[-1:]}.get(self.at, shared)
        return Series("", [x for x, _, _ in shown], [other * value for _, _, other in shown])

    def shared(self, lines: Lines) -> list[tuple[float, float, float]]:
        own, other = (line_of(lines, who) for who in (self.who, self.to))
        others = dict(zip(other.x, other.y, strict=True))
        return [(x, y, others[x]) for x, y in zip(own.x, own.y, strict=True) if x in others]


@dataclass(frozen=True)
class Ends(Rule):
    """One curve's end over another's, wherever they end: the means of their last points."""

    who: Who
    to: Who
    points: int = 4

    def measured(self, lines: Lines) -> float:
        own, other = (self._end(line_of(lines, who)) for who in (self.who, self.to))
        return own / other

    def theirs(self, lines: Lines, value: float) -> Series | None:
        line = line_of(lines, self.who)
        return Series("", [line.x[-1]], [value * self._end(line_of(lines, self.to))])

    def _end(self, line: Series) -> float:
        last = line.y[-self.points :]
        return sum(last) / len(last)


@dataclass(frozen=True)
class Height(Rule):
    """A curve's value at the place nearest to the paper's."""

    who: Who
    at: float

    def measured(self, lines: Lines) -> float:
        line = line_of(lines, self.who)
        return min(zip(line.x, line.y, strict=True), key=lambda point: abs(point[0] - self.at))[1]

    def theirs(self, lines: Lines, value: float) -> Series | None:  # noqa: ARG002 -- a point needs none of our curves
        return Series("", [self.at], [value])


@dataclass(frozen=True)
class Highest(Rule):
    """A curve's largest value, wherever it is."""

    who: Who

    def measured(self, lines: Lines) -> float:
        return max(line_of(lines, self.who).y)

    def theirs(self, lines: Lines, value: float) -> Series | None:
        line = line_of(lines, self.who)
        return Series("", [line.x[0], line.x[-1]], [value, value])


@dataclass(frozen=True)
class Spread(Rule):
    """A curve's largest value over its smallest: 1 is flat."""

    who: Who

    def measured(self, lines: Lines) -> float:
        line = line_of(lines, self.who)
        return max(line.y) / min(line.y)

    def theirs(self, lines: Lines, value: float) -> Series | None:
        line = line_of(lines, self.who)
        return Series("", [line.x[0], line.x[-1]], [line.y[0], line.y[0]]) if value == 1 else None


@dataclass(frozen=True)
class Peak(Rule):
    """Where a curve is highest."""

    who: Who

    def measured(self, lines: Lines) -> float:
        line = line_of(lines, self.who)
        return max(zip(line.y, line.x, strict=True))[1]

    def theirs(self, lines: Lines, value: float) -> Series | None:
        return _upright(lines, value)


@dataclass(frozen=True)
class LeadsFrom(Rule):
    """From which place on a curve stays above another; infinite where it never does."""

    who: Who
    to: Who

    def measured(self, lines: Lines) -> float:
        ahead = math.inf
        for x, own, other in reversed(Ratio(self.who, self.to, "last").shared(lines)):
            if own < other:
                break
            ahead = x
        return ahead

    def theirs(self, lines: Lines, value: float) -> Series | None:
        return _upright(lines, value)


@dataclass(frozen=True)
class Knee(Rule):
    """How much farther a curve goes than another until it is ``times`` its first value; it may not get there."""

    who: Who
    to: Who
    times: float = 2.0

    def measured(self, lines: Lines) -> float:
        own, other = (self._place(line_of(lines, who)) for who in (self.who, self.to))
        return own / other

    def theirs(self, lines: Lines, value: float) -> Series | None:
        place = self._place(line_of(lines, self.to)) * value
        return _upright(lines, place) if math.isfinite(place) else None

    def _place(self, line: Series) -> float:
        return next((x for x, y in zip(line.x, line.y, strict=True) if y > self.times * line.y[0]), math.inf)


@dataclass(frozen=True)
class Widening(Rule):
    """How much farther apart two curves are at their end than at their beginning."""

    who: Who
    to: Who

    def measured(self, lines: Lines) -> float:
        own, other = (line_of(lines, who).y for who in (self.who, self.to))
        return (own[-1] - other[-1]) / (own[0] - other[0])


@dataclass(frozen=True)
class Settled(Rule):
    """From which place on all curves stay near their last value, within a factor; some may be left out."""

    but: tuple[str, ...] = ()
    within: float = 1.25

    def measured(self, lines: Lines) -> float:
        return max(self._place(line) for line in lines if line.label not in self.but)

    def theirs(self, lines: Lines, value: float) -> Series | None:
        return _upright(lines, value)

    def _place(self, line: Series) -> float:
        far = [number for number, y in enumerate(line.y) if y > self.within * line.y[-1]]
        return line.x[far[-1] + 1] if far else line.x[0]


def _upright(lines: Lines, x: float) -> Series:
    heights = [y for line in lines for y in line.y]
    return Series("", [x, x], [min(heights), max(heights)])
