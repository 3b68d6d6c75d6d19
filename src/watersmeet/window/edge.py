"""The edge of a window in one sorted array: ranges that reach across it are counted without a look at their rows.

Rows leave a window in the order of their places, and an index is in another order. So a range of keys in the oldest
segment has rows that a probing row still meets, and others that it does not. An :class:`Edge` knows where the entries
of rows stand that leave next, and flags those that are still inside (:mod:`watersmeet.kernels.edge`). The probing rows
of a batch are taken in the order of the least place that they meet, and the edge moves along with them.

Invariant: for every probing row just the rows are counted whose place is not less than its bound. Rows that the segment
has dropped lie before every bound, and their places are not read.

Cost. To begin, a few passes over the array: about 10 ns an entry, once. Then a copy of the flags for each batch, about
20 ns for each row that leaves, and 10 ns for each range, however long it is. Memory: 4 bytes an entry, and 8 more if
rows did not come in the order of their places.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels.edge import count_flags_before, count_inside, first_flags, move_edge, positions_of
from watersmeet.subwindow.contract import Ranges

__all__ = ["Edge", "pays"]

ENTRIES_PER_MATCH: Final = 16
ENTRIES_PER_MATCH_AT_FIRST: Final = 2
"""An edge pays where ranges have one match or more for so many entries of the array; the second where rows are still
being added, so that the array is likely to be another one next time."""


def pays(found: Ranges, *, sealed: bool) -> bool:
    """Tell whether ranges have so many rows that these are better not looked at one by one."""
    return found.count * (ENTRIES_PER_MATCH if sealed else ENTRIES_PER_MATCH_AT_FIRST) >= len(found.row)


class Edge:
    """Where the rows of a sorted array stand in the order in which they leave the window."""

    def __init__(self, order: Int32s, places: Int64s, dropped: int) -> None:
        self.order = order
        self.places = places
        self._first = int(order.min())
        assert int(order.max()) - self._first + 1 == len(order), "an array has neighbouring rows, each once"
        gone = self._gone(dropped)
        position = np.empty(len(order), np.int32)
        positions_of(order, self._first, position)
        own = places[self._first : self._first + len(order)]
        self._came_in_order = bool(np.all(own[gone + 1 :] >= own[gone:-1]))
        if not self._came_in_order:
            turn = np.argsort(own[gone:], kind="stable") + gone
            position[gone:] = position[turn]
            own = np.concatenate([own[:gone], own[turn]])
        self._position, self._place = position, own
        self._gone_at_first = gone
        self._base = gone, first_flags(order, dropped)
        """The edge at the least bound of the last batch."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it uses."""
        own = 0 if self._came_in_order else self._place.nbytes
        return self._position.nbytes + self._base[1].nbytes + own

    def _gone(self, dropped: int) -> int:
        """Return how many of the array's rows have been dropped."""
        return min(max(dropped - self._first, 0), len(self.order))

    def count(self, found: Ranges, bound: Int64s, dropped: int, *, but: bool) -> tuple[Int64s, int]:
        """Return how many rows each range has inside the window, and all together; ``but``: those not in the range.

        ``bound`` is for every row of the probing batch the least place that it meets.
        """
        turn = np.arange(len(bound)) if np.all(bound[1:] >= bound[:-1]) else np.argsort(bound, kind="stable")
        gone = self._gone(dropped) if self._came_in_order else self._gone_at_first
        begun, flags = self._base
        flags = flags.copy()  # other threads may read it
        begun = move_edge(self._position, self._place, gone, begun, bound[turn[0]], flags)
        self._base = begun, flags
        range_of = np.full(len(bound), -1, np.int32)
        range_of[found.who] = np.arange(len(found.who), dtype=np.int32)
        counts = np.empty(len(found.who), np.int64)
        moving = begun, flags.copy(), *count_flags_before(flags)
        ranges = range_of, found.start, found.end, but
        return counts, count_inside(self._position, self._place, *moving, turn, bound, *ranges, counts)
