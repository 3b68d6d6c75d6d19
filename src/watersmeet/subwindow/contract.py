"""What a subwindow structure must do.

A subwindow is one slice of one stream's window. It knows *keys*, never columns: every row is an int64 key (see
:mod:`watersmeet.columns.keys`) and a row number inside the subwindow. A probe is a closed range ``[lo, hi]`` of keys.

Batch mode is the only mode (PanJoin, section III-E): entries come sorted by key and probes sorted by their lower end,
so that every structure walks forward through itself once per batch.

Grouped keys. An equality together with a band is one order, ``(group, key)``: ``group`` is the equality's key. Only
structures with ``supports_groups`` are ever given one; for the others the caller checks the equality afterwards.

Invariant: ``probe`` gives exactly the rows whose key lies in a probe's range (and whose group equals the probe's),
each once. Time, sequence numbers and every other condition are the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels import ranges

__all__ = [
    "PAIRS_AT_ONCE",
    "Entries",
    "Matches",
    "Pairs",
    "Probes",
    "Ranges",
    "Subwindow",
    "count_matches",
    "pairs_of",
]


PAIRS_AT_ONCE: Final = 1 << 20
"""Index pairs that are held before anybody looks at them: bounds memory when a predicate is hardly selective."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Rows to store: ``key`` and ``row`` have one element per row, sorted by ``(group, key)``."""

    key: Int64s
    row: Int32s
    group: Int64s | None = None

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True)
class Probes:
    """Ranges to look for, ``lo`` and ``hi`` inclusive; ``who`` says which row of the probing batch asks.

    Within a group both ``lo`` and ``hi`` are non-decreasing. A range with ``lo > hi`` is empty.
    """

    lo: Int64s
    hi: Int64s
    who: Int32s
    group: Int64s | None = None

    def __len__(self) -> int:
        return len(self.lo)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Matches as index pairs: probing row ``who[i]`` meets stored row ``row[i]``."""

    who: Int32s
    row: Int32s

    @property
    def count(self) -> int:
        return len(self.who)


@dataclass(frozen=True, slots=True)
class Ranges:
    """Matches as ranges: probing row ``who[i]`` meets ``row[start[i]:end[i]]``. Counting costs nothing per match."""

    start: Int64s
    end: Int64s
    count: int
    who: Int32s
    row: Int32s


Matches = Ranges | Pairs


def pairs_of(found: Sequence[Matches]) -> Pairs:
    """Return all matches of ``found`` as index pairs."""
    if len(found) == 1 and isinstance(found[0], Pairs):
        return found[0]
    count = count_matches(found)
    who, row = np.empty(count, np.int32), np.empty(count, np.int32)
    begin = 0
    for matches in found:
        part = slice(begin, begin + matches.count)
        if isinstance(matches, Pairs):
            who[part], row[part] = matches.who, matches.row
        else:
            ranges.expand_ranges(matches.start, matches.end, matches.who, matches.row, who[part], row[part])
        begin = part.stop
    return Pairs(who, row)


def count_matches(found: Iterable[Matches]) -> int:
    """Return how many pairs ``found`` stands for."""
    return sum(matches.count for matches in found)


class Subwindow(Protocol):
    """The contract of ``scan``, ``hash``, ``rap_table``, ``wib_tree`` and ``bi_sort``."""

    supports_groups: ClassVar[bool]
    """Whether it sorts by two keys."""
    equality_only: ClassVar[bool]
    """Whether it is good at probes for one key alone: then equalities are its order, where there are any."""
    fixed_capacity: ClassVar[bool]
    """Whether it is made for a number of rows, and takes no more."""
    scans: ClassVar[bool]
    """Whether a probe looks at every row."""

    def insert(self, entries: Entries) -> None:
        """Store a sorted batch. The caller never inserts more than the capacity the structure was made for."""
        ...

    def probe(self, probes: Probes) -> Iterator[Matches]:
        """Yield all matches of a sorted batch of probes, in any order, each exactly once.

        Index pairs come ``PAIRS_AT_ONCE`` at a time, or those of one probe where it has more; ranges all at once. Rows
        are inserted only when all matches have been taken.
        """
        ...

    def seal(self) -> None:
        """Take note that no row will be inserted any more; compact what can be compacted."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        ...

    def snapshot(self) -> Entries:
        """Return every stored row, sorted: the one form from which any structure can be rebuilt by ``insert``."""
        ...
