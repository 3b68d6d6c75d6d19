"""Blocks: rows of a slice that are sent in one message, and the rows of a block that one core stores.

A block is cut from a batch and knows where, so two blocks that follow each other are concatenated without a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from watersmeet.engine.intake import Slice
from watersmeet.engine.row_numbers import numbers_of
from watersmeet.window.batch import KeyedBatch

__all__ = ["blocks_in_order_of_arrival", "blocks_of", "joined_blocks", "share_of"]


def joined_blocks(blocks: Sequence[KeyedBatch]) -> KeyedBatch | None:
    """Return blocks as one, or None unless each follows the one before it in the same batch."""
    return KeyedBatch.concat(blocks) if all(map(KeyedBatch.is_followed_by, blocks, blocks[1:])) else None


def blocks_of(batch: KeyedBatch, block_rows: int) -> Iterator[KeyedBatch]:
    """Yield a batch in blocks of at most ``block_rows`` rows."""
    for begin in range(0, len(batch), block_rows):
        yield batch.slice(begin, min(begin + block_rows, len(batch)))


def blocks_in_order_of_arrival(part: Slice, block_rows: int) -> Iterator[KeyedBatch]:
    """Yield numbered rows in blocks so that every row comes before all that arrived later.

    If rows of both streams arrive in turn, as they may in a count window, a block ends at every turn.
    """
    numbers = {"left": numbers_of(part.left.rows), "right": numbers_of(part.right.rows)}
    begin = {"left": 0, "right": 0}
    while begin["left"] < len(part.left) or begin["right"] < len(part.right):
        left, right = begin["left"], begin["right"]
        own, other = part.left, "right"
        if left == len(part.left) or (right < len(part.right) and numbers["right"][right] < numbers["left"][left]):
            own, other = part.right, "left"
        at = begin[own.side]
        end = len(own)
        if begin[other] < len(numbers[other]):
            end = int(np.searchsorted(numbers[own.side], numbers[other][begin[other]]))
        yield from blocks_of(own.slice(at, end), block_rows)
        begin[own.side] = end


def share_of(batch: KeyedBatch, counted: int, core: int, cores: int) -> KeyedBatch:
    """Return the rows that ``core`` stores: ``cores`` take turns, and ``counted`` rows of the stream came before."""
    if cores == 1:
        return batch
    return batch.take(np.arange((core - counted) % cores, len(batch), cores))
