"""Pairs as ranges: what a batch's rows meet in a sorted array, at the same cost however many rows that is.

PanJoin's record of a result is the beginning and the end of a range in a sorted array, with a label *not* where it
stands for all rows but these (section III-D). A :class:`RangeMatch` has the records of one array, one for each probing
row. A predicate like ``<>`` looks for two ranges, from the array's beginning to one row and from another to the end:
:func:`complements` makes one record of the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from watersmeet.arrays import Int64s
from watersmeet.subwindow.contract import Ranges
from watersmeet.window.payload import Payload

__all__ = ["RangeMatch", "complements"]


@dataclass(frozen=True, slots=True)
class RangeMatch:
    """Verified pairs: row ``who[i]`` of the probing batch meets the rows ``row[start[i]:end[i]]`` of a segment."""

    ranges: Ranges
    payload: Payload
    """The segment's rows."""
    but: bool
    """Whether it meets all of ``row`` but these."""
    count: int
    """Pairs."""
    counts: Int64s | None = None
    """Pairs of each range where rows of it may lie outside of the window; None: all are inside."""
    bound: Int64s | None = None
    """By probing row: it meets no rows whose place is less."""
    places: Int64s | None = None
    """By row of the segment."""

    def counted(self) -> Int64s:
        """Return how many pairs each range stands for."""
        if self.counts is not None:
            return self.counts
        rows = self.ranges.end - self.ranges.start
        return len(self.ranges.row) - rows if self.but else rows


def complements(found: Sequence[Ranges], rows: int) -> Iterator[tuple[Ranges, bool]]:
    """Yield ranges, and whether they stand for the rest of their array, of a batch of so many rows.

    ``found`` has the ranges of each interval of the predicate. Of one array those may be all that lies before the
    batch's own gaps, and all behind them: then the gaps stand for both.
    """
    of_array: dict[int, list[Ranges]] = {}
    for ranges in found:
        of_array.setdefault(id(ranges.row), []).append(ranges)
    for same in of_array.values():
        match [some for some in permutations(same) if len(same) > 1 and _leave_gaps(*some)]:
            case [(before, behind), *_]:
                yield _gaps(before, behind, rows), True
            case _:
                yield from ((ranges, False) for ranges in same)


def _leave_gaps(before: Ranges, behind: Ranges, *more: Ranges) -> bool:
    """Tell whether all ranges begin or end where their array does."""
    return not more and not before.start.any() and bool(np.all(behind.end == len(behind.row)))


def _gaps(before: Ranges, behind: Ranges, rows: int) -> Ranges:
    start, end = np.zeros(rows, np.int64), np.full(rows, len(before.row), np.int64)
    meets = np.zeros(rows, bool)
    start[before.who], end[behind.who] = before.end, behind.start
    meets[before.who] = meets[behind.who] = True
    who = np.flatnonzero(meets).astype(np.int32)
    return Ranges(start[who], end[who], before.count + behind.count, who, before.row)
