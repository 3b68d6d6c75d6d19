"""A block: rows of one stream that enter together."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.columns.hidden import add_hidden
from watersmeet.engine.multiway.plan import PairPlan
from watersmeet.spec.expression import Side
from watersmeet.window.arrival import Counts
from watersmeet.window.batch import Arrival, KeyedBatch

__all__ = ["Block", "arrival_of", "narrowed"]


class Block:
    """Some rows of a stream, their numbers, and what had entered before them.

    A result is found by the block that entered last of those its rows belong to: the block takes from every other
    stream only rows with numbers below ``limits``. So each result is found exactly once, whatever a stage has stored
    by the time at which it is probed.
    """

    def __init__(
        self,
        stream: Side,
        rows: pa.RecordBatch,
        counts: Counts | None,
        first: int,
        limits: Mapping[Side, int],
        *,
        times: Int64s | None = None,
    ) -> None:
        self.stream = stream
        self.rows = rows
        self.counts = counts
        self.times = times
        """In a time window: the rows' timestamps, where they are known already."""
        self.limits = limits
        self.numbers: Int64s = first + np.arange(rows.num_rows)
        self._batches: dict[Side, KeyedBatch] = {}

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def parts(self, rows: int) -> list[Block]:
        """Return the block cut into blocks of about ``rows`` rows, which have entered together."""
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
        """Return the rows as a pair sees them: made when first asked for, then kept with its sorted keys."""
        partner = pair.other(self.stream)
        if partner not in self._batches:
            names = pair.columns(self.stream)
            columns = [self.rows.column(name) for name in names]
            rows = narrowed(names, columns, self.numbers)
            keys = {} if self.times is None or pair.plan.time is None else {pair.plan.time: self.times}
            self._batches[partner] = KeyedBatch(
                pair.plan, pair.side(self.stream), rows, arrival_of(self.stream, partner, self.counts), keys
            )
        return self._batches[partner]


def narrowed(names: list[str], columns: list[pa.Array], *numbers: Int64s) -> pa.RecordBatch:
    """Return columns with numbers of rows, of one stream or more, behind them as hidden columns."""
    hidden = {f"number{position}": own for position, own in enumerate(numbers)}
    return add_hidden(pa.RecordBatch.from_arrays(columns, names=names), hidden)


def arrival_of(stream: Side, partner: Side, counts: Counts | None) -> Arrival | None:
    """Return a count window's numbers of a stream's rows as the window of two streams wants them."""
    return None if counts is None else Arrival(counts[stream], counts[partner])
