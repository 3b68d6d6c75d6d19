"""Rows that wait: those of one side that have met no other, and may still do so.

Design. Rows come in *blocks*, in the order of their places, in which they are decided. What has been decided is the
beginning of each block: the bounds of expiry only grow, are found by a binary search, and no row is looked at twice.
Many small blocks become one, as in a log-structured merge tree; rows that have met somebody meanwhile are then left
out. When marks are made anew, blocks of which little is left are written anew too.

Invariant: a row is given out once, or is marked. Rows are held as they were pushed, with their numbers.

Cost. A row is copied once per level, while it has met nobody; a block that has nothing to give is one comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.columns.gather import picked
from watersmeet.columns.widths import rows_width
from watersmeet.engine.marks import Marks
from watersmeet.engine.row_numbers import numbers_of
from watersmeet.window import chunks

__all__ = ["Waiting"]

FAN_IN: Final = 8
"""Blocks that become one."""


@dataclass(eq=False, slots=True)
class _Block:
    """Numbered rows: ``places`` ascend, those of the rows ``row``; before ``begin`` all has been decided."""

    rows: pa.RecordBatch
    places: Int64s
    row: Int64s
    begin: int
    next: int
    """The place of the next row to be decided."""

    def unmarked(self, end: int, marks: Marks) -> Int64s:
        """Return which rows have met nobody, as places in the order, of those before ``end`` that are not decided."""
        numbers = numbers_of(self.rows)[self.row[self.begin : end]]
        return self.begin + np.flatnonzero(~marks.are_marked(numbers))


class Waiting:
    """The waiting rows of a side."""

    def __init__(self) -> None:
        self.marks = Marks()
        self._levels: list[list[_Block]] = [[]]
        """The first has blocks that are too long to be merged; of each other one, so many make a block of the next."""

    def add(self, rows: pa.RecordBatch, places: Int64s) -> None:
        """Let numbered rows wait until nobody can meet what lies at their places."""
        if not rows.num_rows:
            return
        end = int(numbers_of(rows).max()) + 1
        if not self.marks.has_room(end):
            for level in self._levels:
                level[:] = [shorter for block in level if (shorter := self._shortened(block)) is not None]
            self.marks.make_room(end, np.concatenate([self.numbers(), numbers_of(rows)]))
        row = np.arange(len(places))
        if np.any(places[1:] < places[:-1]):
            row = np.argsort(places, kind="stable")
            places = places[row]
        self._put(_Block(rows, places, row, 0, int(places[0])), 1)

    def _shortened(self, block: _Block) -> _Block | None:
        """Return a block without the rows that do not wait, if these are most of it; None if no row waits."""
        left = block.unmarked(len(block.row), self.marks)
        if not len(left):
            return None
        return _together([block], [left]) if 2 * len(left) < block.rows.num_rows else block

    def _put(self, block: _Block, number: int) -> None:
        """Add a block to a level; merge the level if it is full."""
        if number == len(self._levels):
            self._levels.append([])
        level = self._levels[number]
        level.append(block)
        if len(level) < FAN_IN:
            return
        self._levels[number] = []
        left = [block.unmarked(len(block.row), self.marks) for block in level]
        some = [(block, at) for block, at in zip(level, left, strict=True) if len(at)]
        if sum(rows_width(block.rows) for block, _ in some) > chunks.MOST_BYTES:
            self._levels[0] += [block for block, _ in some]
        elif some:
            self._put(_together([block for block, _ in some], [at for _, at in some]), number + 1)

    def take_before(self, before: int) -> list[pa.RecordBatch]:
        """Return the rows whose places lie before ``before`` and that have met nobody; they wait no longer."""
        found = []
        for level in self._levels:
            for block in [block for block in level if block.next < before]:
                end = int(np.searchsorted(block.places, before))
                at = block.unmarked(end, self.marks)
                if len(at):
                    found.append(block.rows.take(pa.array(block.row[at])))
                if end == len(block.places):
                    level.remove(block)
                else:
                    block.begin, block.next = end, int(block.places[end])
        return found

    def take_all(self) -> list[pa.RecordBatch]:
        """Return all rows that have met nobody; none waits any longer."""
        left = [(block, block.unmarked(len(block.row), self.marks)) for level in self._levels for block in level]
        self._levels = [[]]
        return [block.rows.take(pa.array(block.row[at])) for block, at in left if len(at)]

    def numbers(self) -> Int64s:
        """Return the numbers of the rows that wait."""
        numbers = [
            numbers_of(block.rows)[block.row[block.unmarked(len(block.row), self.marks)]]
            for level in self._levels
            for block in level
        ]
        return np.concatenate([np.empty(0, np.int64), *numbers])

    @property
    def nbytes(self) -> int:
        """Bytes of the rows held, and of their marks."""
        blocks = [block for level in self._levels for block in level]
        return self.marks.nbytes + sum(int(b.rows.nbytes + b.places.nbytes + b.row.nbytes) for b in blocks)


def _together(blocks: list[_Block], left: list[Int64s]) -> _Block:
    """Return what is left of blocks (at least one row) as one."""
    places = np.concatenate([block.places[at] for block, at in zip(blocks, left, strict=True)])
    starts = np.cumsum([0, *(block.rows.num_rows for block in blocks[:-1])])
    rows = np.concatenate([first + block.row[at] for first, block, at in zip(starts, blocks, left, strict=True)])
    order = np.argsort(places, kind="stable")
    places = places[order]
    merged = picked([block.rows for block in blocks], rows[order])
    return _Block(merged, places, np.arange(len(places)), 0, int(places[0]))
