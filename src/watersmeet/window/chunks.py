"""Rows as Arrow record batches in the order of arrival, with columns of any type.

Rows are numbered in that order and lie in chunks, each with the number of its first row. To keep ``take`` cheap, small
chunks are concatenated: whenever ``fan_in`` neighbours have the same level, they become one chunk of the next level, as
in a tiered merge tree, unless it would be too long. The oldest chunk is dropped as a whole when all its rows have
expired. :class:`ChunkedRows` holds the rows of one segment in this way, and
:class:`~watersmeet.engine.multiway.rows.RowStore` those of a whole stream, for joins of many streams.

Invariant: the chunks hold the rows from ``first`` to ``end`` without a gap; dropped rows keep their numbers.
Cost: a row is copied once per level, so ``log(rows / batch) / log(fan_in)`` times. There are fewer than ``fan_in``
chunks per level below the last. Values are never read.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int32s, Int64s
from watersmeet.columns.plain import from_words, is_plain, words_of
from watersmeet.columns.widths import rows_width, whole_width
from watersmeet.kernels.pairs import split_pairs
from watersmeet.kernels.team import ALONE
from watersmeet.window.expiry import Departed
from watersmeet.window.payload import Extent, Held, KeysOf, Numbers, Stored

__all__ = ["Chunk", "ChunkedRows", "Chunks", "one_array"]


FAN_IN: Final = 32
MOST_BYTES: Final = 1 << 29
"""Bytes of rows that are concatenated, each value counted as one at least."""
MOST_PER_BYTE: Final = 8
"""Truth values, the smallest ones."""


@dataclass(slots=True)
class Chunk:
    """Some rows, the number of the first of them, and where they lie in the window."""

    first: int
    rows: pa.RecordBatch
    numbers: Numbers | None
    """In a count window."""
    place: Extent
    """The timestamps or arrival numbers of the rows."""
    level: int = 0
    _keys: dict[Hashable, Int64s] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The number after the last row's."""
        return int(self.first + self.rows.num_rows)

    def keys(self, axis: Hashable, keys_of: KeysOf) -> Int64s:
        """Return the rows' keys on an axis, under any name; they are computed on first use and kept."""
        if axis not in self._keys:
            self._keys[axis] = keys_of(self.rows)
        return self._keys[axis]

    def hold(self) -> Held:
        """Return the rows, which never change."""
        return Held(((0, self.rows),))

    @property
    def nbytes(self) -> int:
        """Bytes held, views of the rows' own columns not counted twice."""
        keys = (key for key in self._keys.values() if key.base is None)
        return int(self.rows.nbytes) + sum(int(array.nbytes) for array in (*(self.numbers or ()), *keys))


class Chunks:
    """Rows of one stream in chunks, numbered from ``first``."""

    def __init__(self, first: int = 0, *, fan_in: int) -> None:
        self.chunks: list[Chunk] = []
        self.first = self.end = first
        self._fan_in = fan_in
        self._starts: Int64s | None = None

    @property
    def held(self) -> int:
        """Rows still held."""
        return self.end - self.first

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(chunk.nbytes for chunk in self.chunks)

    @property
    def starts(self) -> Int64s:
        """The number of each chunk's first row, and that after the last row's."""
        if self._starts is None:
            self._starts = np.array([*(chunk.first for chunk in self.chunks), self.end], np.int64)
        return self._starts

    def add(self, chunk: Chunk) -> None:
        """Add a chunk unchanged; its rows have the numbers after the last one's, or are the first."""
        assert not self.chunks or chunk.first == self.end, "rows have numbers without a gap"
        if not self.chunks:
            self.first = chunk.first
        self.chunks.append(chunk)
        self.end = chunk.end
        self._starts = None

    def merge(self, most: int) -> None:
        """Concatenate the last chunks while there are enough of one level, into chunks of at most ``most`` rows."""
        fan_in = self._fan_in
        while len(self.chunks) >= fan_in and self.chunks[-fan_in].level == self.chunks[-1].level:
            if self.end - self.chunks[-fan_in].first > most or not _fit_together(self.chunks[-fan_in:]):
                break
            self._combine(len(self.chunks) - fan_in, len(self.chunks))

    def expire(self, before: int) -> list[Departed]:
        """Drop the first chunks whose rows all lie before ``before``; return these rows."""
        left = list(takewhile(lambda chunk: chunk.place.high < before, self.chunks))
        if left:
            del self.chunks[: len(left)]
            self.first = left[-1].end
            self._starts = None
        return [Departed(chunk.rows, None if chunk.numbers is None else chunk.numbers[0]) for chunk in left]

    def _combine(self, begin: int, end: int) -> None:
        """Concatenate neighbouring chunks."""
        self.chunks[begin:end] = [_concatenated(self.chunks[begin:end])]
        self._starts = None


class ChunkedRows(Chunks):
    """The rows of one subwindow, numbered from 0: a :class:`~watersmeet.window.payload.Payload`."""

    def __init__(self, chunk_rows: int) -> None:
        super().__init__(fan_in=FAN_IN)
        self._chunk_rows = chunk_rows

    @property
    def appended(self) -> int:
        """Rows ever stored."""
        return self.end

    @property
    def place(self) -> Extent:
        """Where the rows still held lie in the window."""
        return _place_of(self.chunks)

    @property
    def newest(self) -> pa.RecordBatch:
        """The rows of the last chunk."""
        return self.chunks[-1].rows

    def append(
        self,
        rows: pa.RecordBatch,
        numbers: Numbers | None,
        place: Extent,
        team: int = ALONE,  # noqa: ARG002
    ) -> None:
        """Add rows behind the last one; they stay where they are."""
        self.add(Chunk(self.end, rows, numbers, place))
        self.merge(self._chunk_rows)

    def seal(self) -> None:
        """Concatenate chunks as far as the limits on their rows and bytes allow."""
        self.chunks = [_concatenated(some) for some in _neighbours(self.chunks, self._chunk_rows)]
        self._starts = None

    def split(self, who: Int32s, row: Int32s) -> Iterator[tuple[Stored, Int32s, Int32s]]:
        """Yield for every chunk the pairs whose stored row lies in it; rows are then numbered within the chunk."""
        if len(self.chunks) == 1 and not self.first:
            yield self.chunks[0], who, row
            return
        ends, split_who, split_row = split_pairs(who, row, np.concatenate(([0], self.starts)))
        begin, *rest = ends.tolist()
        for chunk, end in zip(self.chunks, rest, strict=True):
            if end > begin:
                yield chunk, split_who[begin:end], split_row[begin:end]
            begin = end

    def stored(self) -> Iterable[tuple[int, Stored]]:
        """Return the chunks."""
        return [(chunk.first, chunk) for chunk in self.chunks]

    def hold(self) -> Held:
        """Return the chunks' rows, which never change."""
        return Held(tuple((chunk.first, chunk.rows) for chunk in self.chunks))

    def save(self) -> list[tuple[pa.RecordBatch, Numbers | None]]:
        """Return all rows held as few batches, with their arrival numbers in a count window."""
        together = (_concatenated(some) for some in _neighbours(self.chunks, self.held))
        return [(whole.rows, whole.numbers) for whole in together]


def _neighbours(chunks: list[Chunk], most: int) -> Iterator[list[Chunk]]:
    """Yield neighbouring chunks that have at most ``most`` rows together and do not weigh too much."""
    some: list[Chunk] = []
    room = MOST_BYTES
    for chunk in chunks:
        weight = _weight(chunk.rows)
        if some and (chunk.end - some[0].first > most or weight > room):
            yield some
            some, room = [], MOST_BYTES
        some.append(chunk)
        room -= weight
    if some:
        yield some


def _fit_together(chunks: list[Chunk]) -> bool:
    """Tell whether chunks may become one; they are looked at more closely only if that matters."""
    surely = MOST_PER_BYTE * sum(chunk.rows.get_total_buffer_size() for chunk in chunks) <= MOST_BYTES
    return surely or sum(_weight(chunk.rows) for chunk in chunks) <= MOST_BYTES


def _weight(rows: pa.RecordBatch) -> int:
    """Return the bytes of rows, with the values of dictionaries that they use."""
    dictionaries = (column for column in rows.columns if pa.types.is_dictionary(column.type))
    return rows_width(rows) + sum(whole_width(_with_used_values(column).dictionary) for column in dictionaries)


def _concatenated(chunks: list[Chunk]) -> Chunk:
    if len(chunks) == 1:
        return chunks[0]
    columns = [
        one_array([chunk.rows.column(number) for chunk in chunks]) for number in range(chunks[0].rows.num_columns)
    ]
    counted = [chunk.numbers for chunk in chunks if chunk.numbers is not None]
    numbers = tuple(map(np.concatenate, zip(*counted, strict=True))) if counted else None
    rows = pa.RecordBatch.from_arrays(columns, schema=chunks[0].rows.schema)
    return Chunk(chunks[0].first, rows, numbers, _place_of(chunks), chunks[-1].level + 1)


def _place_of(chunks: list[Chunk]) -> Extent:
    whole = Extent()
    for chunk in chunks:
        whole.include(chunk.place)
    return whole


def one_array(parts: list[pa.Array]) -> pa.Array:
    """Concatenate the parts of a column.

    NumPy concatenates plain columns, because it uses large pages: rows are gathered from all over a chunk, and small
    pages would add misses of the page table to those of the cache. Dictionaries are first cut down to the values that
    the parts use, because every batch may come with a dictionary of all values.
    """
    kind = parts[0].type
    if is_plain(kind) and not any(part.null_count for part in parts):
        return from_words(kind, np.concatenate([words_of(part) for part in parts]))
    if pa.types.is_dictionary(kind):
        parts = [_with_used_values(part) for part in parts]
    return pa.chunked_array(parts).unify_dictionaries().combine_chunks()


def _with_used_values(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return a column without the values of its dictionary that no row has, if there are many."""
    if len(column.dictionary) <= len(column):
        return column
    places = column.indices
    used = np.unique(np.asarray(places.drop_null()))
    at = np.searchsorted(used, np.asarray(places.fill_null(0)))
    indices = pa.array(at, places.type, mask=np.asarray(places.is_null()))
    return pa.DictionaryArray.from_arrays(indices, column.dictionary.take(pa.array(used)), ordered=column.type.ordered)
