"""What holding the rows of a subwindow means: the contract ``Payload``, and where rows lie in a window.

Two keep it: :class:`~watersmeet.window.chunks.ChunkedRows` for columns of any type, and the faster
:class:`~watersmeet.window.plain_rows.PlainRows` for plain columns alone. Rows expire before their subwindow does: they
weigh more than their index, so a window can have few subwindows, which is what probes want, and still free its memory
in small steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from watersmeet.arrays import Int32s, Int64s
from watersmeet.window.expiry import Departed

__all__ = ["Extent", "KeysOf", "Numbers", "Payload", "Stored", "extent_of"]


KeysOf = Callable[[pa.RecordBatch], Int64s]
"""Computes the keys of some rows."""
Numbers = tuple[Int64s, ...]
"""In a count window how many rows came before each row: of one stream in each array, the rows' own stream first."""


@dataclass(slots=True)
class Extent:
    """The smallest and the largest of some numbers."""

    low: int = 2**63 - 1
    high: int = -(2**63)

    def include(self, other: Extent) -> None:
        """Grow to hold ``other`` too."""
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)


def extent_of(numbers: Int64s) -> Extent:
    """Return the extent of some numbers (at least one)."""
    return Extent(int(numbers.min()), int(numbers.max()))


class Stored(Protocol):
    """Some rows of a subwindow that lie in one piece."""

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows; a view, good until some of them expire."""
        ...

    @property
    def numbers(self) -> Numbers | None:
        """Arrival numbers, in a count window."""
        ...

    def keys(self, axis: int, keys_of: KeysOf) -> Int64s:
        """Return the rows' keys on an axis: computed when first asked for, then kept."""
        ...


class Payload(Protocol):
    """The rows of one subwindow, numbered from 0 in the order they came. Dropped rows keep their numbers."""

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
        """Where the rows still held lie in the window."""
        ...

    @property
    def newest(self) -> pa.RecordBatch:
        """Some of the rows held, the last one among them."""
        ...

    def append(self, rows: pa.RecordBatch, numbers: Numbers | None, place: Extent) -> None:
        """Add rows behind the last one."""
        ...

    def seal(self) -> None:
        """Take note that no row will be added any more."""
        ...

    def expire(self, before: int) -> list[Departed]:
        """Drop the first rows as far as all lie before ``before``, in steps; return those that have left."""
        ...

    def split(self, who: Int32s, row: Int32s) -> Iterator[tuple[Stored, Int32s, Int32s]]:
        """Yield for every piece the pairs whose stored row lies in it; rows are then numbered within the piece."""
        ...

    def save(self) -> tuple[pa.RecordBatch, Numbers | None]:
        """Return all rows held as one batch, with their arrival numbers in a count window."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        ...
