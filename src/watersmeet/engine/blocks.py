"""Blocks: the rows of a slice cut into messages, and the part of a block that one core stores.

A block knows which stretch of which batch it is, so two that follow each other can be put together without a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.engine.intake import Slice
from watersmeet.engine.numbering import numbers_of
from watersmeet.window.batch import Arrival, KeyedBatch

__all__ = ["Block", "blocks_in_order_of_arrival", "blocks_of", "cut_batch", "joined_blocks", "last_place", "share_of"]

Int64s = npt.NDArray[np.int64]


@dataclass(slots=True)
class Block(KeyedBatch):
    """The rows of ``whole`` from number ``begin`` on."""

    whole: KeyedBatch = field(kw_only=True)
    begin: int = field(kw_only=True)


def joined_blocks(blocks: Sequence[KeyedBatch]) -> KeyedBatch | None:
    """Return some blocks as one, if each follows the one before it in the same batch."""
    first, last = blocks[0], blocks[-1]
    if len(blocks) == 1:
        return first
    if not (isinstance(first, Block) and isinstance(last, Block)) or not all(map(_follows, blocks[1:], blocks)):
        return None
    return cut_batch(first.whole, first.begin, last.begin + len(last))


def _follows(block: KeyedBatch, before: KeyedBatch) -> bool:
    if not (isinstance(block, Block) and isinstance(before, Block)):
        return False
    return block.whole is before.whole and block.begin == before.begin + len(before)


def blocks_of(batch: KeyedBatch, block_rows: int) -> Iterator[KeyedBatch]:
    """Yield a batch in blocks of at most so many rows."""
    for begin in range(0, len(batch), block_rows):
        yield cut_batch(batch, begin, min(begin + block_rows, len(batch)))


def blocks_in_order_of_arrival(part: Slice, block_rows: int) -> Iterator[KeyedBatch]:
    """Yield the blocks of numbered rows so that every row comes before all that arrived later.

    Where a count window's order takes rows of both streams in turn, a block ends with every turn.
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
        yield from blocks_of(cut_batch(own, at, end), block_rows)
        begin[own.side] = end


def share_of(batch: KeyedBatch, counted: int, core: int, cores: int) -> KeyedBatch:
    """Return the rows that ``core`` stores: of ``cores`` in turn, ``counted`` rows of the stream having come before."""
    if cores == 1:
        return batch
    positions = np.arange((core - counted) % cores, len(batch), cores)
    arrival = batch.arrival
    some = None if arrival is None else Arrival(arrival.sequence[positions], arrival.seen[positions])
    return KeyedBatch(batch.plan, batch.side, batch.rows.take(pa.array(positions)), some)


def last_place(batch: KeyedBatch) -> int:
    """Return the largest timestamp, or in a count window arrival number, of a batch (not empty)."""
    if batch.arrival is not None:
        return int(batch.arrival.sequence.max())
    assert batch.plan.time is not None
    return int(batch.key(batch.plan.time).max())


def cut_batch(batch: KeyedBatch, begin: int, end: int) -> KeyedBatch:
    """Return the rows of a batch from one place to another."""
    if end - begin == len(batch):
        return batch
    arrival = batch.arrival
    some = None if arrival is None else Arrival(arrival.sequence[begin:end], arrival.seen[begin:end])
    return Block(batch.plan, batch.side, batch.rows.slice(begin, end - begin), some, whole=batch, begin=begin)
