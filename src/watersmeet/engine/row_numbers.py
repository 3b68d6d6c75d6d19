"""Numbers rows in the order of arrival, in a hidden last column, and puts results in that order.

Rows have a number if the order of arrival matters: for results in order (SplitJoin, definitions 1 and 2), and in
handshake join, whose cores hold a stretch of a stream from one number to another. Both streams share one sequence of
numbers, so of a pair the row with the larger number is the later one. Inside a batch numbers ascend. In a join that
says something of rows that met nobody (:mod:`watersmeet.engine.unmatched`), rows of the side that it says it of have
one too: by it they are known in pairs.

When rows get their numbers. For results in order it is when they are pushed: slices of time and collected batches have
rows in another order, and the numbers keep that of arrival. In a count window the numbers follow from the arrival,
which is part of the join. In handshake join it is when rows enter the chain, which is the order in which they move; so
where its results have an order, a push is not cut into slices of time, and rows enter as they arrived.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.columns.gather import in_order, picked
from watersmeet.columns.hidden import hidden_at, hidden_field, hidden_of, own_schema, split_hidden
from watersmeet.columns.widths import cuts_at, table_widths
from watersmeet.engine.intake import Slice
from watersmeet.spec.expression import StreamName
from watersmeet.spec.kinds import How, gives_pairs
from watersmeet.spec.ordering import Relaxed
from watersmeet.window import chunks
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.plan import OTHER_SIDE
from watersmeet.window.segment import SavedSegment

__all__ = [
    "Numbering",
    "by_arrival",
    "gathered_columns",
    "gathered_schema",
    "in_order_of_arrival",
    "numbers_of",
    "pair_numbers",
    "sort_pairs",
    "without_numbers",
]


class Numbering:
    """Gives the rows of both sides, or of one, their numbers."""

    def __init__(self, sides: Collection[StreamName] = tuple(OTHER_SIDE)) -> None:
        self.sides = sides
        self._next = 0
        self._schemas: dict[StreamName, pa.Schema] = {}

    def number_rows(self, rows: dict[StreamName, pa.RecordBatch]) -> dict[StreamName, pa.RecordBatch]:
        """Return the rows of a push with numbers: left rows before right ones."""
        return {side: self._with_numbers(side, batch, self._take(batch.num_rows)) for side, batch in rows.items()}

    def _take(self, count: int) -> Int64s:
        numbers = self._next + np.arange(count)
        self._next += count
        return numbers

    def number(self, part: Slice) -> Slice:
        """Return a slice whose rows have numbers: left rows before right ones, or in a count window's order."""
        return Slice(self._numbered(part.left), self._numbered(part.right), part.expire_before)

    def _numbered(self, batch: KeyedBatch) -> KeyedBatch:
        if batch.side not in self.sides:
            return batch
        if batch.arrival is None:
            numbers = self._take(len(batch))
        else:  # the number of rows of both streams that came before
            numbers = batch.arrival.sequence + batch.arrival.seen
            if np.any(numbers[1:] < numbers[:-1]):
                order = np.argsort(numbers)
                batch, numbers = batch.take(order), numbers[order]
        return batch.with_rows(self._with_numbers(batch.side, batch.rows, numbers))

    def _with_numbers(self, side: StreamName, rows: pa.RecordBatch, numbers: Int64s) -> pa.RecordBatch:
        if side not in self._schemas:  # that of all rows of the side, which takes as long to make as the rows
            self._schemas[side] = pa.schema([*rows.schema, hidden_field(side)])
        return pa.RecordBatch.from_arrays([*rows.columns, pa.array(numbers)], schema=self._schemas[side])

    def restore(self, side: StreamName, saved: SavedSegment) -> SavedSegment:
        """Return saved rows with numbers that keep their order and are less than those of all rows to come."""
        if side not in self.sides:
            return saved
        rows, sequence = saved
        numbers = self._next + np.arange(rows.num_rows) if sequence is None else sequence
        self._next += rows.num_rows
        return self._with_numbers(side, rows, numbers), sequence


def by_arrival(part: Slice) -> Slice:
    """Return a slice of numbered rows in the order of their numbers."""
    return Slice(_ascending(part.left), _ascending(part.right), part.expire_before)


def _ascending(batch: KeyedBatch) -> KeyedBatch:
    numbers = numbers_of(batch.rows)
    if not np.any(numbers[1:] < numbers[:-1]):
        return batch
    return batch.take(np.argsort(numbers))


def numbers_of(rows: pa.RecordBatch) -> Int64s:
    """Return the numbers of rows."""
    return hidden_at(rows, -1)


def without_numbers(saved: list[SavedSegment]) -> list[SavedSegment]:
    """Return rows without their numbers."""
    return [(split_hidden(rows, own_schema(rows.schema, 1))[0], sequence) for rows, sequence in saved]


def in_order_of_arrival(saved: list[SavedSegment]) -> list[SavedSegment]:
    """Return numbered rows in the order of their numbers, as one segment unless they have too much text for one."""
    if not saved:
        return []
    batches = [rows for rows, _ in saved]
    order = np.argsort(np.concatenate([numbers_of(rows) for rows in batches]), kind="stable")
    sequences = [sequence for _, sequence in saved if sequence is not None]
    sequence = np.concatenate(sequences) if sequences else None
    widths = table_widths(pa.Table.from_batches(batches), but_fixed=True)[order]
    places = [order[part] for part in cuts_at(widths, chunks.MOST_BYTES)]
    return [(picked(batches, place), None if sequence is None else sequence[place]) for place in places]


def gathered_schema(
    how: How, schemas: Mapping[StreamName, pa.Schema], result: pa.Schema, numbered: tuple[StreamName, ...]
) -> pa.Schema:
    """Return the schema of what topologies return: pairs with their numbers, without columns that nobody asks for."""
    own: dict[StreamName, list[pa.Field]] = {"left": [], "right": []}
    if how != "anti":
        own = {"left": list(result)[: len(schemas["left"])], "right": list(result)[len(schemas["left"]) :]}
    return pa.schema(
        [field for side in OTHER_SIDE for field in (*own[side], *([hidden_field(side)] if side in numbered else []))]
    )


def gathered_columns(
    how: How, schemas: Mapping[StreamName, pa.Schema], numbered: tuple[StreamName, ...]
) -> dict[StreamName, list[int]] | None:
    """Return which columns of each side's rows those are; None: all."""
    if gives_pairs(how):
        return None
    own = {"left": len(schemas["left"]) if how == "semi" else 0, "right": 0}
    return {side: [*range(own[side]), *([len(schema)] if side in numbered else [])] for side, schema in schemas.items()}


def pair_numbers(pairs: pa.Table) -> dict[StreamName, Int64s]:
    """Return the numbers of both rows of every pair."""
    return {side: hidden_of(pairs, side) for side in OTHER_SIDE}


def sort_pairs(pairs: pa.Table, order: Relaxed) -> pa.Table:
    """Return pairs in the order of their later rows' arrival, then of their earlier rows', as precisely as asked."""
    left, right = pair_numbers(pairs).values()
    later = np.maximum(left, right) // order.rows
    if order.comparisons is None:
        place = np.argsort(later, kind="stable")
    else:
        place = np.lexsort((np.minimum(left, right) // order.comparisons, later))
    return in_order(pairs, place)
