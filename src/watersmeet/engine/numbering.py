"""Numbers for rows in the order in which they arrive, in a hidden last column, and results in that order.

Rows carry a number where something depends on the order of arrival: results that are wanted in order (SplitJoin,
definitions 1 and 2), and handshake join, whose cores hold a stretch of a stream from one number to another. Numbers of
both streams are of one sequence, so of a pair the row with the larger one is the later. Inside a batch they ascend.

When they are handed out. For results in order, when rows are pushed: slices of time and collected batches then hold
rows in another order than that of arrival, and the numbers keep it. In a count window the order of arrival is part of
the join, and the numbers follow from it. For handshake join, when rows enter the chain: that is the order they move in.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.columns.hidden import add_hidden, hidden_at, hidden_field, hidden_of, own_schema, split_hidden
from watersmeet.engine.intake import Slice
from watersmeet.spec.expression import Side
from watersmeet.spec.options import Order
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.plan import OTHER_SIDE
from watersmeet.window.segment import SavedSegment

__all__ = ["Numbering", "by_arrival", "numbered_schema", "numbers_of", "pair_numbers", "sort_pairs", "without_numbers"]


class Numbering:
    """Hands out the numbers."""

    def __init__(self) -> None:
        self._next = 0

    def number_rows(self, rows: dict[Side, pa.RecordBatch]) -> dict[Side, pa.RecordBatch]:
        """Return the rows of a push with their numbers: left before right."""
        return {side: _with_numbers(side, batch, self._take(batch.num_rows)) for side, batch in rows.items()}

    def _take(self, count: int) -> Int64s:
        numbers = self._next + np.arange(count)
        self._next += count
        return numbers

    def number(self, part: Slice) -> Slice:
        """Return a slice whose rows carry their numbers: left before right, or as a count window's order says."""
        return Slice(self._numbered(part.left), self._numbered(part.right), part.expire_before)

    def _numbered(self, batch: KeyedBatch) -> KeyedBatch:
        if batch.arrival is None:
            numbers = self._take(len(batch))
        else:  # what came before a row, of both streams
            numbers = batch.arrival.sequence + batch.arrival.seen
            if np.any(numbers[1:] < numbers[:-1]):
                order = np.argsort(numbers)
                batch, numbers = batch.take(order), numbers[order]
        return batch.with_rows(_with_numbers(batch.side, batch.rows, numbers))

    def restore(self, side: Side, saved: SavedSegment) -> SavedSegment:
        """Return saved rows with numbers that precede those of all rows to come and keep the rows' order."""
        rows, sequence = saved
        numbers = self._next + np.arange(rows.num_rows) if sequence is None else sequence
        self._next += rows.num_rows
        return _with_numbers(side, rows, numbers), sequence


def by_arrival(part: Slice) -> Slice:
    """Return a slice of numbered rows in the order of their numbers."""
    return Slice(_ascending(part.left), _ascending(part.right), part.expire_before)


def _ascending(batch: KeyedBatch) -> KeyedBatch:
    numbers = numbers_of(batch.rows)
    if not np.any(numbers[1:] < numbers[:-1]):
        return batch
    return batch.take(np.argsort(numbers))


def _with_numbers(side: Side, rows: pa.RecordBatch, numbers: Int64s) -> pa.RecordBatch:
    return add_hidden(rows, {side: numbers})


def numbers_of(rows: pa.RecordBatch) -> Int64s:
    """Return the numbers of some rows."""
    return hidden_at(rows, -1)


def without_numbers(saved: list[SavedSegment]) -> list[SavedSegment]:
    """Return rows as they are saved: as one subwindow in the order of arrival, its numbers dropped."""
    if not saved:
        return []
    rows = pa.concat_batches([segment for segment, _ in saved])
    sequences = [sequence for _, sequence in saved if sequence is not None]
    order = np.argsort(numbers_of(rows), kind="stable")
    own, _ = split_hidden(rows, own_schema(rows.schema, 1))
    in_turn = own.take(pa.array(order))
    return [(in_turn, np.concatenate(sequences)[order] if sequences else None)]


def numbered_schema(left: pa.Schema, right: pa.Schema, result: pa.Schema) -> pa.Schema:
    """Return the schema of pairs whose rows carry numbers: one behind the columns of each side."""
    fields = list(result)
    assert len(fields) == len(left) + len(right), "a result has the columns of both sides"
    return pa.schema([*fields[: len(left)], hidden_field("left"), *fields[len(left) :], hidden_field("right")])


def pair_numbers(pairs: pa.Table) -> dict[Side, Int64s]:
    """Return the numbers of both rows of every pair."""
    return {side: hidden_of(pairs, side) for side in OTHER_SIDE}


def sort_pairs(pairs: pa.Table, order: Order) -> pa.Table:
    """Return pairs by their later row's arrival; for ``inner`` then by their earlier row's."""
    left, right = pair_numbers(pairs).values()
    later, earlier = np.maximum(left, right), np.minimum(left, right)
    place = np.argsort(later, kind="stable") if order == "outer" else np.lexsort((earlier, later))
    return pairs.take(pa.array(place))
