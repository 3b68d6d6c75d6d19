"""Blocks: rows of one stream that enter a join of many streams together."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.columns.hidden import add_hidden
from watersmeet.engine.multiway.plan import PairPlan
from watersmeet.spec.expression import StreamName
from watersmeet.window.arrival import Counts
from watersmeet.window.batch import Arrival, KeyedBatch

__all__ = ["Block", "arrival_of", "numbered_rows"]


class Block:
    """Rows of a stream, their numbers, and the numbers of rows that had entered before.

    A result is found by the last of the blocks that its rows belong to: a block meets only rows of other streams with
    numbers below ``limits``. So each result is found exactly once, no matter what a stage has stored when it is probed.
    """

    def __init__(
        self,
        stream: StreamName,
        rows: pa.RecordBatch,
        counts: Counts | None,
        first: int,
        limits: Mapping[StreamName, int],
        *,
        times: Int64s | None = None,
    ) -> None:
        self.stream = stream
        self.rows = rows
        self.counts = counts
        self.times = times
        """In a time window: the rows' timestamps, if they are known already."""
        self.limits = limits
        self.numbers: Int64s = first + np.arange(rows.num_rows)
        self._batches: dict[StreamName, KeyedBatch] = {}

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def parts(self, rows: int) -> list[Block]:
        """Return the block as blocks of about ``rows`` rows, all with the same limits."""
        count = max(1, len(self) // rows)
        if count == 1:
            return [self]
        cuts = [len(self) * number // count for number in range(count + 1)]
        first = int(self.numbers[0])
        return [
            Block(
                self.stream,
                self.rows.slice(begin, end - begin),
                None if self.counts is None else {name: own[begin:end] for name, own in self.counts.items()},
                first + begin,
                self.limits,
                times=None if self.times is None else self.times[begin:end],
            )
            for begin, end in pairwise(cuts)
        ]

    def batch(self, pair: PairPlan) -> KeyedBatch:
        """Return the rows as a batch of a pair of streams; it is made on first use and kept with its sorted keys."""
        partner = pair.other(self.stream)
        if partner not in self._batches:
            names = pair.columns(self.stream)
            columns = [self.rows.column(name) for name in names]
            rows = numbered_rows(names, columns, self.numbers)
            keys = {} if self.times is None or pair.plan.time is None else {pair.plan.time: self.times}
            self._batches[partner] = KeyedBatch(
                pair.plan, pair.side(self.stream), rows, arrival_of(self.stream, partner, self.counts), keys
            )
        return self._batches[partner]


def numbered_rows(names: list[str], columns: list[pa.Array], *numbers: Int64s) -> pa.RecordBatch:
    """Return columns with numbers of rows, of one stream or more, behind them as hidden columns."""
    hidden = {f"number{position}": own for position, own in enumerate(numbers)}
    return add_hidden(pa.RecordBatch.from_arrays(columns, names=names), hidden)


def arrival_of(stream: StreamName, partner: StreamName, counts: Counts | None) -> Arrival | None:
    """Return the arrival of a stream's rows for the window of two streams, in a count window."""
    return None if counts is None else Arrival(counts[stream], counts[partner])
