"""A stretch of one stream: its rows on one core of handshake join's chain, coming in at one end and going at the other.

Rows come and go in blocks. They are indexed by windows of a few blocks each, *pieces*, so that an insertion costs
little and a probe finds few pieces. A block that has left is at once no longer found, though its index goes only with
all others of its piece: what the oldest piece finds is filtered by the rows' numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from watersmeet.engine.numbering import numbers_of
from watersmeet.spec.expression import Side
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.payload import Extent
from watersmeet.window.plan import JoinPlan
from watersmeet.window.stream_window import Match, StreamWindow

__all__ = ["Stretch", "extent_of_numbers", "from_number"]

PIECES_PER_STRETCH: Final = 4
SMALLEST_PIECE: Final = 1 << 10


class Stretch:
    """Blocks in their order, and the windows that index them."""

    def __init__(self, plan: JoinPlan, side: Side) -> None:
        self._plan = plan
        self._side: Side = side
        self.blocks: deque[KeyedBatch] = deque()
        self.pieces: deque[StreamWindow] = deque()
        self._extents: deque[Extent] = deque()  # numbers of the rows of each piece
        self._piece_rows = 0
        self.rows = 0

    def insert(self, block: KeyedBatch, share: int, other: StreamWindow | None) -> None:
        """Add a block behind the others; ``share`` is the number of rows that should be here."""
        if not self.pieces or self._piece_rows >= max(SMALLEST_PIECE, share // PIECES_PER_STRETCH):
            if self.pieces and self.pieces[-1].segments:
                self.pieces[-1].segments[-1].seal()
            self.pieces.append(StreamWindow(self._plan, self._side))
            self._extents.append(Extent())
            self._piece_rows = 0
        self.pieces[-1].insert(block, other)
        self._extents[-1].include(extent_of_numbers(block))
        self._piece_rows += len(block)
        self.blocks.append(block)
        self.rows += len(block)

    def probe(self, batch: KeyedBatch, passed_over: int = 0) -> Iterator[Match]:
        """Yield the rows here that meet a row of ``batch``; the oldest ``passed_over`` blocks are skipped."""
        if passed_over == len(self.blocks):
            return
        first = extent_of_numbers(self.blocks[passed_over]).low
        for piece, numbers in zip(self.pieces, self._extents, strict=True):
            if numbers.high < first:
                continue
            found = piece.probe(batch)
            yield from found if numbers.low >= first else from_number(found, first)

    def drop_oldest(self) -> KeyedBatch:
        """Remove the oldest block and return it."""
        block = self.blocks.popleft()
        self.rows -= len(block)
        first = extent_of_numbers(self.blocks[0]).low if self.blocks else None
        while self.pieces and (first is None or self._extents[0].high < first):
            self.pieces.popleft()
            self._extents.popleft()
        return block

    @property
    def newest(self) -> StreamWindow | None:
        """The window of the newest rows."""
        return self.pieces[-1] if self.pieces else None


def extent_of_numbers(block: KeyedBatch) -> Extent:
    """Return the numbers of a block's first and last row."""
    numbers = numbers_of(block.rows)
    return Extent(int(numbers[0]), int(numbers[-1]))


def from_number(matches: Iterator[Match], first: int) -> Iterator[Match]:
    """Yield the pairs whose stored row has at least the number ``first``."""
    for match in matches:
        keep = numbers_of(match.stored)[match.row] >= first
        if keep.any():
            yield Match(match.who[keep], match.stored, match.row[keep])
