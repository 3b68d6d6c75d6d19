"""The contract of a topology: it spreads windows over cores so that every pair of rows meets exactly once.

A topology is the tactic of a join of two streams (see :mod:`watersmeet.engine.driver`). It takes *slices*, left and
right rows that are joined together, and returns tables of pairs. Whether a pair satisfies predicate and window follows
from the two rows alone (from timestamps, or a count window's arrival numbers). So any core can decide it at any time,
once it has both rows. The driver decides when rows expire, by bounds before which no row to come can match.

The contract, for all topologies:

- ``push`` returns when nothing moves any more. So its result does not depend on timing: it is the pairs that its rows
  complete. Only in ``handshake`` rows meet later, as they move, and ``owed`` returns the pairs that are left.
- Expiry bounds the windows, the lanes' capacity bounds the messages, and results are those of one push.
- An exception in a core is raised in the caller. The topology is then closed and cannot be used any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.columns.gather import Columns
from watersmeet.engine.intake import Slice
from watersmeet.engine.result import gather_probing, gather_stored, table_of_pairs
from watersmeet.spec.expression import StreamName
from watersmeet.spec.options import Order
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.expiry import Bounds, Departed, expire
from watersmeet.window.plan import JoinPlan
from watersmeet.window.segment import SavedSegment
from watersmeet.window.stream_window import Match, StreamWindow

__all__ = ["Layout", "Topology"]


@dataclass(frozen=True)
class Layout:
    """The arguments of a topology."""

    plan: JoinPlan
    schema: pa.Schema
    """The schema of the pairs; if rows are numbered, with the columns of :mod:`watersmeet.engine.row_numbers`."""
    cores: int = 1
    block_rows: int = 256
    """Rows in one message between threads."""
    order: Order | None = None

    def gather(self, probing: KeyedBatch, matches: list[Match]) -> list[pa.Table]:
        """Return the pairs that a batch found as a list of one table, or of none if it found no pairs."""
        if not matches:
            return []
        return [self.table(probing.side, gather_probing(probing, matches), gather_stored(matches))]

    def table(self, probing: StreamName, own: Columns, stored: Columns) -> pa.Table:
        """Return pairs as a table from gathered columns; ``probing`` is the probing batch's side."""
        return table_of_pairs(probing, own, stored, self.schema)


class Topology(Protocol):
    """The methods of a topology; see the module's header."""

    keeps_order: ClassVar[bool]
    """Whether ``push`` returns pairs in the order asked for; if not, the caller sorts them."""
    meets_later: ClassVar[bool] = False
    """Whether rows still meet after their push, as they move: then they are always numbered, and have no order."""

    def __init__(self, layout: Layout) -> None: ...

    def push(self, part: Slice) -> list[pa.Table]:
        """Join a slice; return the pairs found."""
        ...

    def expire(self, before: Bounds) -> dict[StreamName, list[Departed]]:
        """Drop rows that lie before these places, in whole steps; return the rows that have left."""
        return expire({side: self.windows(side) for side in before}, before)

    def owed(self) -> list[pa.Table]:
        """Return the pairs of stored rows that have not met yet: none, if rows meet when they arrive."""
        return []

    def windows(self, side: StreamName) -> Sequence[StreamWindow]:
        """Return the windows of all cores that hold a side's rows."""
        ...

    def save(self, side: StreamName) -> list[SavedSegment]:
        """Return a side's rows, oldest segment first, so that they can expire in that order."""
        segments = [
            (segment.place.high, saved)
            for window in self.windows(side)
            for segment, saved in zip(window.segments, window.save(), strict=True)
        ]
        return [saved for _, saved in sorted(segments, key=lambda entry: entry[0])]

    def load(self, side: StreamName, rows: pa.RecordBatch, sequence: Int64s | None) -> None:
        """Store a segment of saved rows, which any topology may have saved."""
        ...

    def close(self) -> None:
        """Stop all threads; stored rows can still be read and saved."""
        ...
