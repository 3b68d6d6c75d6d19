"""What holding the rows of a subwindow means: the contract ``Payload``, and where rows lie in a window.

Two keep it: :class:`~watersmeet.window.chunks.ChunkedRows` for columns of any type, and the faster
:class:`~watersmeet.window.plain_rows.PlainRows` for plain columns alone. Rows expire before their subwindow does: they
weigh more than their index, so a window can have few subwindows, which is what probes want, and still free its memory
in small steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels.keys import ends_of
from watersmeet.kernels.team import ALONE
from watersmeet.window.expiry import Departed

__all__ = ["Extent", "Held", "KeysOf", "Numbers", "Payload", "Stored", "extent_of"]


KeysOf = Callable[[pa.RecordBatch], Int64s]
"""Computes the keys of rows."""
Numbers = tuple[Int64s, ...]
"""In a count window how many rows came before each row: of one stream in each array, the rows' own stream first."""


@dataclass(slots=True)
class Extent:
    """The smallest and the largest of a set of numbers."""

    low: int = 2**63 - 1
    high: int = -(2**63)

    def include(self, other: Extent) -> None:
        """Grow to include ``other``."""
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)


def extent_of(numbers: Int64s) -> Extent:
    """Return the extent of numbers (at least one)."""
    return Extent(*ends_of(numbers))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Held:
    """The rows of a segment as they are now: the number of each chunk's first row, and its rows.

    As long as somebody has it, they can be read; memory of rows that expire meanwhile is freed later.
    """

    chunks: tuple[tuple[int, pa.RecordBatch], ...]


class Stored(Protocol):
    """Rows of a segment that lie in one record batch."""

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows: a view, valid until some of them expire."""
        ...

    @property
    def numbers(self) -> Numbers | None:
        """Arrival numbers, in a count window."""
        ...

    def keys(self, axis: int, keys_of: KeysOf) -> Int64s:
        """Return the rows' keys on an axis; they are computed on first use and kept."""
        ...

    def hold(self) -> Held:
        """Return the rows, to be read whatever expires."""
        ...


class Payload(Protocol):
    """The rows of one segment, numbered from 0 in the order of arrival. Dropped rows keep their numbers."""

    @property
    def appended(self) -> int:
        """Rows ever stored."""
        ...

    @property
    def held(self) -> int:
        """Rows still held."""
        ...

    @property
    def place(self) -> Extent:
        """The places of the rows still held."""
        ...

    @property
    def newest(self) -> pa.RecordBatch:
        """Some of the rows held, including the last one."""
        ...

    def append(self, rows: pa.RecordBatch, numbers: Numbers | None, place: Extent, team: int = ALONE) -> None:
        """Add rows behind the last one; what is copied is copied by a team (:mod:`watersmeet.kernels.team`)."""
        ...

    def seal(self) -> None:
        """Finish: no more rows will be added."""
        ...

    def expire(self, before: int) -> list[Departed]:
        """Drop the first steps whose rows all lie before ``before``; return these rows."""
        ...

    def split(self, who: Int32s, row: Int32s) -> Iterator[tuple[Stored, Int32s, Int32s]]:
        """Yield for every chunk the pairs whose stored row lies in it; rows are then numbered within the chunk."""
        ...

    def stored(self) -> Iterable[tuple[int, Stored]]:
        """Return all chunks, each with the number of its first row."""
        ...

    def hold(self) -> Held:
        """Return the rows, to be read whatever expires."""
        ...

    def save(self) -> list[tuple[pa.RecordBatch, Numbers | None]]:
        """Return all rows held as few batches; in a count window with their arrival numbers."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        ...
