"""The rows of one subwindow, as Arrow record batches in the order they came.

This form takes columns of any type; :mod:`watersmeet.window.plain_rows` is the faster one, for plain columns alone.

Rows are numbered from 0 in that order. To keep ``take`` cheap, whole batches are concatenated: whenever ``FAN_IN``
neighbours have the same level, they become one chunk of the next level, as in a tiered merge tree, up to
``chunk_rows`` rows. A chunk whose rows have all expired is dropped before its subwindow is: rows weigh more than
their index, so a window can have few subwindows, which is what probes want, and still free its memory in small steps.

Invariant: chunk *i* holds the rows after those of chunk *i - 1*; dropped rows keep their numbers and are never found.
Cost: a row is copied once per level, so ``log(rows / batch) / log(FAN_IN)`` times; there are fewer than ``FAN_IN``
chunks per level below the last. Columns of any type travel: nothing here looks into them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.columns.plain import from_words, is_plain, words_of
from watersmeet.kernels.pairs import split_pairs
from watersmeet.window.expiry import Departed

__all__ = ["ChunkedRows", "Extent", "KeysOf", "Payload", "Stored", "extent_of", "one_array"]

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

KeysOf = Callable[[pa.RecordBatch], Int64s]
"""Computes the keys of some rows."""

FAN_IN: Final = 32


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
    def sequence(self) -> Int64s | None:
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

    def append(self, rows: pa.RecordBatch, sequence: Int64s | None, place: Extent) -> None:
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

    def save(self) -> tuple[pa.RecordBatch, Int64s | None]:
        """Return all rows held as one batch, with their arrival numbers in a count window."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        ...


@dataclass(slots=True)
class Chunk:
    """Some rows, and where they lie in the window."""

    rows: pa.RecordBatch
    sequence: Int64s | None
    """In a count window each row's number, and how many rows of the other stream came before it (two columns)."""
    place: Extent
    """The timestamps or arrival numbers of the rows."""
    level: int = 0
    _keys: dict[int, Int64s] = field(default_factory=dict)

    def keys(self, axis: int, keys_of: KeysOf) -> Int64s:
        """Return the rows' keys on an axis."""
        if axis not in self._keys:
            self._keys[axis] = keys_of(self.rows)
        return self._keys[axis]

    @property
    def nbytes(self) -> int:
        """Bytes held, views of the rows' own columns not counted twice."""
        held = 0 if self.sequence is None else self.sequence.nbytes
        return int(self.rows.nbytes) + held + sum(key.nbytes for key in self._keys.values() if key.base is None)


class ChunkedRows:
    """Rows with columns of any type, in chunks; see the module's header."""

    def __init__(self, chunk_rows: int) -> None:
        self.chunk_rows = chunk_rows
        self.chunks: list[Chunk] = []
        self.dropped = 0
        self.appended = 0

    @property
    def held(self) -> int:
        """Rows still held."""
        return self.appended - self.dropped

    @property
    def place(self) -> Extent:
        """Where the rows still held lie in the window."""
        whole = Extent()
        for chunk in self.chunks:
            whole.include(chunk.place)
        return whole

    @property
    def newest(self) -> pa.RecordBatch:
        """The rows of the last chunk."""
        return self.chunks[-1].rows

    def append(self, rows: pa.RecordBatch, sequence: Int64s | None, place: Extent) -> None:
        """Add rows behind the last one."""
        self.chunks.append(Chunk(rows, sequence, place))
        self.appended += rows.num_rows
        while len(self.chunks) >= FAN_IN and self.chunks[-FAN_IN].level == self.chunks[-1].level:
            if sum(chunk.rows.num_rows for chunk in self.chunks[-FAN_IN:]) > self.chunk_rows:
                break
            self._combine(len(self.chunks) - FAN_IN, len(self.chunks))

    def seal(self) -> None:
        """Make as few chunks as the limit on their rows allows."""
        begin = 0
        while begin < len(self.chunks):
            end, rows = begin + 1, self.chunks[begin].rows.num_rows
            while end < len(self.chunks) and rows + self.chunks[end].rows.num_rows <= self.chunk_rows:
                rows += self.chunks[end].rows.num_rows
                end += 1
            if end > begin + 1:
                self._combine(begin, end)
            begin += 1

    def expire(self, before: int) -> list[Departed]:
        """Drop the first chunks whose rows all lie before ``before``; return these rows."""
        left = []
        while self.chunks and self.chunks[0].place.high < before:
            chunk = self.chunks.pop(0)
            self.dropped += chunk.rows.num_rows
            left.append(Departed(chunk.rows, None if chunk.sequence is None else chunk.sequence[:, 0]))
        return left

    def split(self, who: Int32s, row: Int32s) -> Iterator[tuple[Stored, Int32s, Int32s]]:
        """Yield for every chunk the pairs whose stored row lies in it; rows are then numbered within the chunk."""
        if len(self.chunks) == 1 and not self.dropped:
            yield self.chunks[0], who, row
            return
        sizes = [self.dropped, *(chunk.rows.num_rows for chunk in self.chunks)]
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        ends, split_who, split_row = split_pairs(who, row, starts)
        begin, *rest = ends.tolist()
        for chunk, end in zip(self.chunks, rest, strict=True):
            if end > begin:
                yield chunk, split_who[begin:end], split_row[begin:end]
            begin = end

    def save(self) -> tuple[pa.RecordBatch, Int64s | None]:
        """Return all rows held as one batch, with their arrival numbers in a count window."""
        whole = _concatenated(self.chunks)
        return whole.rows, whole.sequence

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(chunk.nbytes for chunk in self.chunks)

    def _combine(self, begin: int, end: int) -> None:
        """Concatenate some neighbouring chunks."""
        self.chunks[begin:end] = [_concatenated(self.chunks[begin:end])]


def _concatenated(chunks: list[Chunk]) -> Chunk:
    columns = [
        one_array([chunk.rows.column(number) for chunk in chunks]) for number in range(chunks[0].rows.num_columns)
    ]
    sequences = [chunk.sequence for chunk in chunks if chunk.sequence is not None]
    place = Extent()
    for chunk in chunks:
        place.include(chunk.place)
    sequence = np.concatenate(sequences) if sequences else None
    rows = pa.RecordBatch.from_arrays(columns, schema=chunks[0].rows.schema)
    return Chunk(rows, sequence, place, chunks[-1].level + 1)


def one_array(parts: list[pa.Array]) -> pa.Array:
    """Concatenate the parts of a column.

    Plain columns are put together by NumPy, which asks the system for large pages: rows are gathered from all over a
    chunk, and small pages would add misses of the page table to those of the cache. Dictionaries are first cut down to
    what the parts use of them: every batch may bring one of all values there are.
    """
    kind = parts[0].type
    if is_plain(kind) and not any(part.null_count for part in parts):
        return from_words(kind, np.concatenate([words_of(part) for part in parts]))
    if pa.types.is_dictionary(kind):
        parts = [_with_used_values(part) for part in parts]
    return pa.chunked_array(parts).unify_dictionaries().combine_chunks()


def _with_used_values(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return a column without those values of its dictionary that no row has, where there are many."""
    if len(column.dictionary) <= len(column):
        return column
    places = column.indices
    used = np.unique(np.asarray(places.drop_null()))
    at = np.searchsorted(used, np.asarray(places.fill_null(0)))
    indices = pa.array(at, places.type, mask=np.asarray(places.is_null()))
    return pa.DictionaryArray.from_arrays(indices, column.dictionary.take(pa.array(used)), ordered=column.type.ordered)
