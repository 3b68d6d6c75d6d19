"""The contract of a subwindow structure.

A subwindow indexes a stretch of one stream's window. It knows *keys*, not columns: a row is an int64 key (see
:mod:`watersmeet.columns.keys`) and a row number inside the subwindow. A probe is a closed range ``[lo, hi]`` of keys.

Rows and probes come in batches only (PanJoin, section III-E): entries are sorted by key, probes by their lower end. So
every structure walks forward through itself once per batch.

Two keys. An equality together with a band is one order, ``(equality, key)``, where ``equality`` is the equality's key.
Only structures with ``sorts_by_two_keys`` get one; for all others the caller checks the equality on the candidates.

Invariant: ``probe`` gives exactly the rows whose key lies in a probe's range (and whose equality key is the probe's),
each once. The caller checks time, sequence numbers and all other conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels import ranges
from watersmeet.kernels.team import ALONE

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
"""Index pairs that are held at a time: bounds memory if a predicate lets nearly everything through."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Rows to store: ``key`` and ``row`` have one element per row and are sorted by ``(equality, key)``.

    A structure may keep these arrays as they are, so nobody changes them once they were inserted.
    """

    key: Int64s
    row: Int32s
    equality: Int64s | None = None
    team: int = ALONE
    """Who stores them (:mod:`watersmeet.kernels.team`), if the structure shares its work."""

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True)
class Probes:
    """Ranges of keys to find, ``lo`` and ``hi`` inclusive; ``who`` is the number of the probing row in its batch.

    Both ``lo`` and ``hi`` are non-decreasing among probes with one equality key. A range with ``lo > hi`` is empty.
    """

    lo: Int64s
    hi: Int64s
    who: Int32s
    equality: Int64s | None = None

    def __len__(self) -> int:
        return len(self.lo)

    def share(self, number: int, of: int) -> Probes:
        """Return the ``number``-th of so many stretches."""
        part = slice(len(self) * number // of, len(self) * (number + 1) // of)
        equality = None if self.equality is None else self.equality[part]
        return Probes(self.lo[part], self.hi[part], self.who[part], equality)


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
    """Matches as ranges: probing row ``who[i]`` meets ``row[start[i]:end[i]]``. Counting costs nothing per match.

    Invariants. No range is empty, and a probing row has at most one per array and set of probes; ``count`` is the sum
    of their lengths. ``row`` is one sorted array of the structure, whole and without padding: what lies outside of a
    range are all its other rows, and ranges are of one array exactly if their ``row`` is the same object. It never
    changes, also when the structure goes on: results in the form of ranges hold it for as long as their caller does.
    """

    start: Int64s
    end: Int64s
    count: int
    who: Int32s
    row: Int32s


Matches = Ranges | Pairs


def pairs_of(found: Sequence[Matches]) -> Pairs:
    """Return matches as index pairs."""
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
    """Return the number of pairs in ``found``."""
    return sum(matches.count for matches in found)


class Subwindow(Protocol):
    """The contract of all structures; :mod:`watersmeet.subwindow.choose` has the list of them."""

    sorts_by_two_keys: ClassVar[bool]
    """Whether it takes an equality key before the key."""
    equality_only: ClassVar[bool]
    """Whether it is good at probes for one key alone: then equalities are its order, where there are any."""
    fixed_capacity: ClassVar[bool]
    """Whether it is built for a certain number of rows and takes no more."""
    scans: ClassVar[bool]
    """Whether a probe looks at every row."""

    def insert(self, entries: Entries) -> None:
        """Store a sorted batch. The caller never inserts more rows than the structure's capacity."""
        ...

    def probe(self, probes: Probes) -> Iterator[Matches]:
        """Yield all matches of a sorted batch of probes, in any order, each exactly once.

        Index pairs come at most ``PAIRS_AT_ONCE`` at a time, or all those of one probe if it has more. Ranges come all
        at once. The caller inserts no rows until it has taken all matches.
        """
        ...

    def seal(self) -> None:
        """Compact the structure: no more rows will be inserted."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it uses."""
        ...

    def snapshot(self) -> Entries:
        """Return every stored row, sorted, so that ``insert`` can build any structure from them."""
        ...
