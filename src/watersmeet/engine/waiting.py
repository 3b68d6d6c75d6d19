"""Rows that wait: those of one side that have met no other, and may still do so.

Design. Rows come in *blocks*, in the order of their places, in which they are decided. What has been decided is the
beginning of each block: the bounds of expiry only grow, are found by a binary search, and no row is looked at twice.
Many small pushes, and then many blocks, become one, as in a log-structured merge tree; rows that have met somebody
meanwhile are then left out. When marks are made anew, blocks of which little is left are written anew too.

Invariant: a row is given out once, or is marked.

Cost. A row is copied once per level, while it has met nobody; a block that has nothing to give is one comparison.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.columns.widths import rows_width
from watersmeet.engine.marks import Marks
from watersmeet.window import chunks

__all__ = ["Unmet", "Waiting"]

FAN_IN: Final = 8
"""Blocks that become one."""
NEWEST_ROWS: Final = 1 << 14
"""Rows that become a block, if they did not come as one; or, of small pushes, those of so many:"""
NEWEST_PUSHES: Final = 64
LAST: Final = 2**63 - 1


class Unmet(NamedTuple):
    """Rows that have met nobody, and their numbers."""

    rows: pa.RecordBatch | None
    """None where rows are only watched."""
    numbers: Int64s


@dataclass(eq=False, slots=True)
class _Block:
    """Rows in the order of their places; before ``begin`` all has been decided."""

    rows: pa.RecordBatch | None
    numbers: Int64s
    places: Int64s
    begin: int
    next: int
    """The place of the next row to be decided."""

    def unmarked(self, marks: Marks, end: int | None = None) -> Int64s:
        """Return which rows have met nobody, of those before ``end`` that are not decided."""
        return marks.unmarked(self.numbers, self.begin, len(self.numbers) if end is None else end)

    def unmet(self, at: Int64s) -> Unmet:
        """Return some of the rows."""
        return Unmet(None if self.rows is None else self.rows.take(pa.array(at)), self.numbers[at])

    @property
    def nbytes(self) -> int:
        rows = 0 if self.rows is None else int(self.rows.nbytes)
        return rows + int(self.numbers.nbytes + self.places.nbytes)


class Waiting:
    """The waiting rows of a side."""

    def __init__(self) -> None:
        self.marks = Marks()
        self._newest: list[_Block] = []
        """Those that came last, in any order, and no row of them is decided."""
        self._newest_rows = 0
        self._newest_next = LAST  # the least of their places
        self._levels: list[list[_Block]] = [[]]
        """The first has blocks that are too long to be merged; of each other one, so many make a block of the next."""

    def add(self, rows: pa.RecordBatch | None, numbers: Int64s, places: Int64s) -> None:
        """Let rows wait until nobody can meet what lies at their places; None: only watch them."""
        if not len(numbers):
            return
        end = int(numbers.max()) + 1
        if not self.marks.has_room(end):
            for level in self._levels:
                level[:] = [shorter for block in level if (shorter := self._shortened(block)) is not None]
            self.marks.make_room(end, np.concatenate([self.numbers(), numbers]))
        else:
            self.marks.watch(numbers)
        first = int(places.min())
        self._newest.append(_Block(rows, numbers, places, 0, first))
        self._newest_rows, self._newest_next = self._newest_rows + len(numbers), min(self._newest_next, first)
        if self._newest_rows >= NEWEST_ROWS or len(self._newest) >= NEWEST_PUSHES:
            self._settle()

    def _settle(self) -> None:
        """Make a block of the newest rows."""
        newest, self._newest, self._newest_rows, self._newest_next = self._newest, [], 0, LAST
        self._merge(newest, 1)

    def _shortened(self, block: _Block) -> _Block | None:
        """Return a block without the rows that do not wait, if these are most of it; None if no row waits."""
        left = block.unmarked(self.marks)
        if not len(left):
            return None
        return _together([block], [left]) if 2 * len(left) < len(block.numbers) else block

    def _merge(self, blocks: list[_Block], number: int) -> None:
        """Add what is left of blocks to a level, as one block; merge the level if it is full."""
        left = [block.unmarked(self.marks) for block in blocks]
        some = [(block, at) for block, at in zip(blocks, left, strict=True) if len(at)]
        if not some:
            return
        if (
            len(some) > 1
            and sum(rows_width(block.rows) for block, _ in some if block.rows is not None) > chunks.MOST_BYTES
        ):
            self._levels[0] += [_together([block], [at]) for block, at in some]
            return
        if number == len(self._levels):
            self._levels.append([])
        self._levels[number].append(_together([block for block, _ in some], [at for _, at in some]))
        if len(self._levels[number]) >= FAN_IN:
            full, self._levels[number] = self._levels[number], []
            self._merge(full, number + 1)

    def take_before(self, before: int) -> list[Unmet]:
        """Return the rows whose places lie before ``before`` and that have met nobody; they wait no longer."""
        if self._newest_next < before:
            self._settle()
        found = []
        for level in self._levels:
            for block in [block for block in level if block.next < before]:
                end = int(np.searchsorted(block.places, before))
                at = block.unmarked(self.marks, end)
                if len(at):
                    found.append(block.unmet(at))
                if end == len(block.places):
                    level.remove(block)
                else:
                    block.begin, block.next = end, int(block.places[end])
        return found

    def take_all(self) -> list[Unmet]:
        """Return all rows that have met nobody; none waits any longer."""
        self._settle()
        left = [(block, block.unmarked(self.marks)) for level in self._levels for block in level]
        self._levels = [[]]
        return [block.unmet(at) for block, at in left if len(at)]

    def numbers(self) -> Int64s:
        """Return the numbers of the rows that wait."""
        numbers = [block.numbers[block.unmarked(self.marks)] for block in self._blocks()]
        return np.concatenate([np.empty(0, np.int64), *numbers])

    def _blocks(self) -> list[_Block]:
        return [block for level in (self._newest, *self._levels) for block in level]

    def apart(self) -> Waiting:
        """Return the same rows with marks of their own, to be looked at until these change."""
        apart = copy(self)
        apart.marks = self.marks.copy()
        return apart

    @property
    def nbytes(self) -> int:
        """Bytes of the rows held, and of their marks."""
        return self.marks.nbytes + sum(block.nbytes for block in self._blocks())


def _together(blocks: list[_Block], left: list[Int64s]) -> _Block:
    """Return what is left of blocks (at least one row) as one."""
    if len(blocks) == 1 and len(left[0]) == len(blocks[0].numbers) and _is_in_order(blocks[0].places):
        return blocks[0]
    numbers, places = (
        np.concatenate([getattr(block, name)[at] for block, at in zip(blocks, left, strict=True)])
        for name in ("numbers", "places")
    )
    parts = [
        block.rows if len(at) == len(block.numbers) else block.rows.take(pa.array(at))
        for block, at in zip(blocks, left, strict=True)
        if block.rows is not None
    ]
    rows = parts[0] if parts else None
    if len(parts) > 1:
        (rows,) = pa.Table.from_batches(parts).unify_dictionaries().combine_chunks().to_batches()
    if not _is_in_order(places):
        order = np.argsort(places, kind="stable")
        numbers, places = numbers[order], places[order]
        rows = None if rows is None else rows.take(pa.array(order))
    return _Block(rows, numbers, places, 0, int(places[0]))


def _is_in_order(places: Int64s) -> bool:
    return not np.any(places[1:] < places[:-1])
