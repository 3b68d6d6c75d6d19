"""The rows of one stream's window, found by number.

Rows are numbered 0, 1, 2, … for ever in the order in which they enter. A partial result is a few numbers, and the rows
themselves are gathered only for results and for conditions that no key can decide. Every row is held here once, however
many indexes know it.

Rows lie in chunks, each with the number of its first row. Small chunks are put together as in a tiered merge tree:
whenever ``FAN_IN`` neighbours have the same level they become one of the next. The oldest chunk goes as a whole once no
row to come can meet any of its rows.

Invariant: the chunks hold the rows from ``first`` to ``end`` without a gap. Cost: a row is copied once per level, and a
gather is one sort by chunk (none where the rows lie in one) and one copy per column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.columns.keys import axis_keys
from watersmeet.columns.plain import from_words, is_plain, words_of
from watersmeet.engine.multiway.plan import PairPlan
from watersmeet.spec.expression import Side
from watersmeet.window.arrival import Counts
from watersmeet.window.expiry import Departed
from watersmeet.window.payload import Extent, one_array

__all__ = ["Chunk", "Places", "RowStore"]

Int64s = npt.NDArray[np.int64]

FAN_IN: Final = 8
SMALLEST_STEP: Final = 1 << 14
"""Rows that are freed together at the least."""
STEPS: Final = 16
"""Chunks grow until they hold this part of the rows, so a window holds at most so much more than it needs."""


@dataclass(slots=True)
class Chunk:
    """Some rows, the number of the first of them, and where they lie in the window."""

    first: int
    rows: pa.RecordBatch
    counts: Counts | None
    """In a count window how many rows of each stream came before each row."""
    place: Extent
    level: int = 0
    _keys: dict[tuple[Side, int], Int64s] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The number after the last row's."""
        return int(self.first + self.rows.num_rows)

    def keys(self, stream: Side, pair: PairPlan, axis: int) -> Int64s:
        """Return the rows' keys on an axis of a pair: computed when first asked for, then kept."""
        name = pair.other(stream), axis
        if name not in self._keys:
            plan = pair.plan
            self._keys[name] = axis_keys(plan.axes[axis], pair.side(stream), self.rows, plan.schemas)
        return self._keys[name]

    @property
    def nbytes(self) -> int:
        """Bytes held, views of the rows' own columns not counted twice."""
        counts = () if self.counts is None else self.counts.values()
        keys = (key for key in self._keys.values() if key.base is None)
        return int(self.rows.nbytes) + sum(int(numbers.nbytes) for numbers in (*counts, *keys))


@dataclass(frozen=True, slots=True)
class Places:
    """Where some rows lie: chunk after chunk, and ``order`` says where each of them stands among those asked for."""

    parts: list[tuple[Chunk, Int64s]]
    order: Int64s | None
    """None when they were asked for chunk after chunk."""

    def numbers(self, of_chunk: Callable[[Chunk], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Gather from one array per chunk."""
        found = [of_chunk(chunk).take(at) for chunk, at in self.parts]
        together = found[0] if len(found) == 1 else np.concatenate(found)
        if self.order is None:
            return together
        result = np.empty_like(together)
        result[self.order] = together
        return result

    def counts(self, *streams: Side) -> Counts:
        """Gather how many rows of some streams came before each (in a count window)."""
        return {stream: self.numbers(partial(_count, stream)) for stream in streams}

    def column(self, name: str) -> pa.Array:
        """Gather a column."""
        columns = [chunk.rows.column(name) for chunk, _ in self.parts]
        kind = columns[0].type
        if is_plain(kind) and not any(column.null_count for column in columns):
            words = iter(columns)
            return from_words(kind, self.numbers(lambda _: words_of(next(words))))
        found = [column.take(pa.array(at)) for column, (_, at) in zip(columns, self.parts, strict=True)]
        together = found[0] if len(found) == 1 else one_array(found)
        if self.order is None:
            return together
        back = np.empty_like(self.order)
        back[self.order] = np.arange(len(back))
        return together.take(pa.array(back))


class RowStore:
    """Holds the rows of one stream."""

    def __init__(self, schema: pa.Schema, first: int = 0) -> None:
        self.schema = schema
        self.first = self.end = first
        self.chunks: list[Chunk] = []
        self._starts = np.empty(0, np.int64)

    def __len__(self) -> int:
        return self.end - self.first

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(chunk.nbytes for chunk in self.chunks)

    def append(self, rows: pa.RecordBatch, counts: Counts | None, place: Extent) -> None:
        """Add rows (not none) behind the last one."""
        self.add(Chunk(self.end, rows, counts, place))
        while len(self.chunks) >= FAN_IN and self.chunks[-FAN_IN].level == self.chunks[-1].level:
            merged = self.chunks[-FAN_IN:]
            if merged[-1].end - merged[0].first > max(SMALLEST_STEP, len(self) // STEPS):
                break
            self.chunks[-FAN_IN:] = [_concatenated(merged)]
        self._note_chunks()

    def add(self, chunk: Chunk) -> None:
        """Add a chunk as it is; its rows have the numbers after the last one's, or are the first."""
        assert not self.chunks or chunk.first == self.end, "rows have numbers without a gap"
        self.chunks.append(chunk)
        self.end = chunk.end
        self._note_chunks()

    def expire(self, before: int) -> list[Departed]:
        """Drop the first chunks whose rows all lie before ``before``; return these rows."""
        left = list(takewhile(lambda chunk: chunk.place.high < before, self.chunks))
        if left:
            del self.chunks[: len(left)]
            self._note_chunks()
        return [Departed(chunk.rows) for chunk in left]

    def _note_chunks(self) -> None:
        self._starts = np.array([chunk.first for chunk in self.chunks], np.int64)
        self.first = self.chunks[0].first if self.chunks else self.end

    def places(self, numbers: Int64s) -> Places:
        """Find rows that are held (at least one) by their numbers."""
        low, high = np.searchsorted(self._starts, (numbers.min(), numbers.max()), "right") - 1
        if low == high:
            chunk = self.chunks[low]
            return Places([(chunk, numbers - chunk.first)], None)
        which = (np.searchsorted(self._starts, numbers, "right") - 1).astype(np.int16)
        order = None
        if np.any(which[1:] < which[:-1]):
            order = np.argsort(which, kind="stable")
            which, numbers = which[order], numbers[order]
        begins = np.searchsorted(which, np.arange(low, high + 2))
        parts = [
            (chunk, numbers[begin:end] - chunk.first)
            for chunk, begin, end in zip(self.chunks[low : high + 1], begins[:-1], begins[1:], strict=True)
            if end > begin
        ]
        return Places(parts, order)


def _count(stream: Side, chunk: Chunk) -> Int64s:
    assert chunk.counts is not None, "asked for in count windows only"
    return chunk.counts[stream]


def _concatenated(chunks: list[Chunk]) -> Chunk:
    rows = pa.RecordBatch.from_arrays(
        [one_array([chunk.rows.column(number) for chunk in chunks]) for number in range(chunks[0].rows.num_columns)],
        schema=chunks[0].rows.schema,
    )
    counts = None
    if chunks[0].counts is not None:
        counts = {stream: np.concatenate([_count(stream, chunk) for chunk in chunks]) for stream in chunks[0].counts}
    place = Extent()
    for chunk in chunks:
        place.include(chunk.place)
    return Chunk(chunks[0].first, rows, counts, place, chunks[0].level + 1)
