"""A stretch of one stream: its rows on one core of the chain of handshake join.

Rows enter at one end and leave at the other, in blocks. Windows of a few blocks each index them, so that an insertion
costs little and a probe meets few windows. Probes no longer find a block that has left, although its window is dropped
only with all its blocks: pairs that the oldest window finds are filtered by the rows' numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from watersmeet.engine.row_numbers import numbers_of
from watersmeet.spec.expression import StreamName
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.payload import Extent
from watersmeet.window.plan import JoinPlan
from watersmeet.window.stream_window import Match, StreamWindow

__all__ = ["Alive", "Stretch", "extent_of_numbers", "from_number"]

WINDOWS_PER_STRETCH: Final = 4
SMALLEST_WINDOW: Final = 1 << 10


class Stretch:
    """Blocks in their order, and the windows that index them."""

    def __init__(self, plan: JoinPlan, side: StreamName) -> None:
        self._plan = plan
        self._side: StreamName = side
        self.blocks: deque[KeyedBatch] = deque()
        self.windows: deque[StreamWindow] = deque()
        self._extents: deque[Extent] = deque()  # numbers of the rows of each window
        self._newest_rows = 0
        self.rows = 0

    def insert(self, block: KeyedBatch, share: int, other: StreamWindow | None) -> None:
        """Add a block behind the others; ``share`` is the number of rows that should be here."""
        if not self.windows or self._newest_rows >= max(SMALLEST_WINDOW, share // WINDOWS_PER_STRETCH):
            if self.windows and self.windows[-1].segments:
                self.windows[-1].segments[-1].seal()
            self.windows.append(StreamWindow(self._plan, self._side))
            self._extents.append(Extent())
            self._newest_rows = 0
        self.windows[-1].insert(block, other)
        self._extents[-1].include(extent_of_numbers(block))
        self._newest_rows += len(block)
        self.blocks.append(block)
        self.rows += len(block)

    def probe(self, batch: KeyedBatch, passed_over: int = 0) -> Iterator[Match]:
        """Yield the rows here that meet a row of ``batch``; the oldest ``passed_over`` blocks are skipped."""
        if passed_over == len(self.blocks):
            return
        first = extent_of_numbers(self.blocks[passed_over]).low
        for window, numbers in zip(self.windows, self._extents, strict=True):
            if numbers.high < first:
                continue
            found = window.probe(batch)
            yield from found if numbers.low >= first else from_number(found, first)

    def drop_oldest(self) -> KeyedBatch:
        """Remove the oldest block and return it."""
        block = self.blocks.popleft()
        self.rows -= len(block)
        first = extent_of_numbers(self.blocks[0]).low if self.blocks else None
        while self.windows and (first is None or self._extents[0].high < first):
            self.windows.popleft()
            self._extents.popleft()
        return block

    @property
    def newest(self) -> StreamWindow | None:
        """The window of the newest rows."""
        return self.windows[-1] if self.windows else None


class Alive:
    """The number of rows in a stream's window: those of the blocks that entered, less those that expired."""

    def __init__(self) -> None:
        self._blocks: deque[tuple[int, int]] = deque()
        self.rows = 0

    def enter(self, block: KeyedBatch) -> int:
        """Count a block; return how many rows there are now."""
        self._blocks.append((block.place().high, len(block)))
        self.rows += len(block)
        return self.rows

    def expire(self, before: int) -> bool:
        """Remove the oldest blocks that lie before ``before``; tell whether there were any."""
        rows = self.rows
        while self._blocks and self._blocks[0][0] < before:
            self.rows -= self._blocks.popleft()[1]
        return self.rows < rows


def extent_of_numbers(block: KeyedBatch) -> Extent:
    """Return the numbers of a block's first and last row."""
    numbers = numbers_of(block.rows)
    return Extent(int(numbers[0]), int(numbers[-1]))


def from_number(matches: Iterator[Match], first: int) -> Iterator[Match]:
    """Yield the pairs whose stored row has at least the number ``first``."""
    for match in matches:
        keep = numbers_of(match.stored)[match.row] >= first
        if keep.any():
            yield replace(match, who=match.who[keep], row=match.row[keep])
