"""The rows of one stream's window, found by number.

Rows are numbered 0, 1, 2, … in the order in which they enter. A partial result is a few numbers, and the rows are
gathered only for results and for conditions that keys cannot decide. Every row is held here once, although several
indexes may have it.

Rows lie in chunks, as those of a segment do (:mod:`watersmeet.window.chunks`). The oldest chunk is dropped as a whole
when no row to come can meet any of its rows. Cost: a gather takes a sort by chunk (unless all rows lie in one chunk)
and a copy per column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.columns.keys import axis_keys
from watersmeet.columns.plain import from_words, is_plain, words_of
from watersmeet.columns.widths import row_widths, same_width, value_widths
from watersmeet.engine.multiway.plan import PairPlan
from watersmeet.spec.expression import StreamName
from watersmeet.window.arrival import Counts
from watersmeet.window.chunks import Chunk, Chunks, one_array
from watersmeet.window.payload import Extent

__all__ = ["FoundRows", "RowStore", "chunk_of", "keys_of"]


FAN_IN: Final = 8
SMALLEST_STEP: Final = 1 << 14
"""The fewest rows that are freed together."""
STEPS: Final = 16
"""Chunks grow up to one in this many of the rows, so a window holds at most that fraction more than it needs."""


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows that were found, chunk after chunk; ``order`` has the position of each among those asked for."""

    streams: tuple[StreamName, ...]
    """In the order in which a chunk has their numbers."""
    parts: list[tuple[Chunk, Int64s]]
    order: Int64s | None
    """None if they were asked for chunk after chunk."""

    def numbers(self, of_chunk: Callable[[Chunk], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Gather values from an array for each chunk."""
        return self.gathered(lambda chunk, at: of_chunk(chunk).take(at))

    def gathered(self, of_rows: Callable[[Chunk, Int64s], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Gather values from what is found for some rows of each chunk."""
        found = [of_rows(chunk, at) for chunk, at in self.parts]
        together = found[0] if len(found) == 1 else np.concatenate(found)
        if self.order is None:
            return together
        result = np.empty_like(together)
        result[self.order] = together
        return result

    def counts(self, *streams: StreamName) -> Counts:
        """Gather how many rows of the given streams came before each row, in a count window."""
        return {stream: self.numbers(partial(_count, self.streams.index(stream))) for stream in streams}

    def widths(self) -> Int64s:
        """Return how many bytes each row takes."""
        return self.gathered(lambda chunk, at: same_width(row_widths(chunk.rows, at), len(at)))

    def value_widths(self, name: str) -> Int64s:
        """Return how many bytes each row's value in a column takes."""
        return self.gathered(lambda chunk, at: value_widths(chunk.rows.column(name), at))

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


class RowStore(Chunks):
    """Holds the rows of the first of some ``streams``."""

    def __init__(self, streams: tuple[StreamName, ...], schema: pa.Schema, first: int = 0) -> None:
        super().__init__(first, fan_in=FAN_IN)
        self.schema = schema
        self._streams = streams

    def __len__(self) -> int:
        return self.held

    def append(self, rows: pa.RecordBatch, counts: Counts | None, place: Extent) -> None:
        """Add rows (at least one) behind the last one."""
        self.add(chunk_of(self._streams, self.end, rows, counts, place))
        self.merge(max(SMALLEST_STEP, len(self) // STEPS))

    def counts(self, chunk: Chunk) -> Counts | None:
        """Return how many rows of each stream came before each row of a chunk (in a count window)."""
        return None if chunk.numbers is None else dict(zip(self._streams, chunk.numbers, strict=True))

    def find(self, numbers: Int64s) -> FoundRows:
        """Find rows (at least one, all held) by their numbers."""
        starts = self.starts[:-1]
        low, high = np.searchsorted(starts, (numbers.min(), numbers.max()), "right") - 1
        if low == high:
            chunk = self.chunks[low]
            return FoundRows(self._streams, [(chunk, numbers - chunk.first)], None)
        which = (np.searchsorted(starts, numbers, "right") - 1).astype(np.int16)
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
        return FoundRows(self._streams, parts, order)


def chunk_of(
    streams: tuple[StreamName, ...], first: int, rows: pa.RecordBatch, counts: Counts | None, place: Extent
) -> Chunk:
    """Return rows of the first of some streams as a chunk."""
    return Chunk(first, rows, None if counts is None else tuple(counts[stream] for stream in streams), place)


def keys_of(stream: StreamName, pair: PairPlan, axis: int) -> Callable[[Chunk], Int64s]:
    """Return what finds the keys of a stream's chunk on an axis of a pair."""
    plan, name = pair.plan, (pair.other(stream), axis)

    def of_rows(rows: pa.RecordBatch) -> Int64s:
        return axis_keys(plan.axes[axis], pair.side(stream), rows, plan.schemas)

    return lambda chunk: chunk.keys(name, of_rows)


def _count(position: int, chunk: Chunk) -> Int64s:
    assert chunk.numbers is not None, "asked for in count windows only"
    return chunk.numbers[position]
