"""What a topology is: windows and cores put together so that every pair of rows meets exactly once.

A topology is the tactic of a join of two streams (see :mod:`watersmeet.engine.driver`). It is given *slices*, left and
right rows that arrive together, and gives tables of pairs. Whether a pair satisfies predicate and window follows from
the two rows alone (timestamps, or a count window's arrival numbers), so any core can decide it, at any time, as long as
both rows come together there. When rows expire is said by the driver, with bounds that no row to come can reach behind.

The contract, for all topologies:

- ``push`` returns when nothing moves any more, so what it returns does not depend on timing: the pairs that its rows
  complete. Only in ``handshake`` rows meet later, on their way, and ``owed`` tells what is still to be found.
- Windows are bounded by what the driver lets expire, messages by the lanes' capacity, results by one push.
- An exception in a core is raised in the caller. The topology is then closed, and of no further use.
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
from watersmeet.spec.expression import Side
from watersmeet.spec.options import Order
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.expiry import Bounds, Departed, expire
from watersmeet.window.plan import JoinPlan
from watersmeet.window.segment import SavedSegment
from watersmeet.window.stream_window import Match, StreamWindow

__all__ = ["Layout", "Topology"]


@dataclass(frozen=True)
class Layout:
    """What a topology is built from."""

    plan: JoinPlan
    schema: pa.Schema
    """Of the pairs, with the columns of :mod:`watersmeet.engine.numbering` where rows are numbered."""
    cores: int = 1
    block_rows: int = 256
    """Rows in one message between threads."""
    order: Order | None = None

    def gather(self, probing: KeyedBatch, matches: list[Match]) -> list[pa.Table]:
        """Return the pairs that a batch found as a table; none when it found none."""
        if not matches:
            return []
        return [self.table(probing.side, gather_probing(probing, matches), gather_stored(matches))]

    def table(self, probing: Side, own: Columns, stored: Columns) -> pa.Table:
        """Return pairs as a table, in the thread that has gathered their columns; ``probing`` is the batch's side."""
        return table_of_pairs(probing, own, stored, self.schema)


class Topology(Protocol):
    """Every topology keeps it; see the module's header."""

    keeps_order: ClassVar[bool]
    """Whether ``push`` returns numbered rows in the order asked for; if not, the caller sorts."""
    meets_later: ClassVar[bool] = False
    """Whether rows go on meeting after their push, as they move: then they are always numbered, and have no order."""

    def __init__(self, layout: Layout) -> None: ...

    def push(self, part: Slice) -> list[pa.Table]:
        """Join rows that arrive together; return the pairs found."""
        ...

    def expire(self, before: Bounds) -> dict[Side, list[Departed]]:
        """Drop what lies before these places; return what has left."""
        return expire({side: self.windows(side) for side in before}, before)

    def owed(self) -> list[pa.Table]:
        """Return the pairs of stored rows that have not met yet: none, where rows meet as they arrive."""
        return []

    def windows(self, side: Side) -> Sequence[StreamWindow]:
        """Return the windows, of all cores, that hold a side's rows."""
        ...

    def save(self, side: Side) -> list[SavedSegment]:
        """Return a side's rows, oldest subwindow first, so that they can expire in that order."""
        segments = [
            (segment.place.high, saved)
            for window in self.windows(side)
            for segment, saved in zip(window.segments, window.save(), strict=True)
        ]
        return [saved for _, saved in sorted(segments, key=lambda entry: entry[0])]

    def load(self, side: Side, rows: pa.RecordBatch, sequence: Int64s | None) -> None:
        """Take in a subwindow of saved rows, whatever topology saved them."""
        ...

    def close(self) -> None:
        """End all threads; what is stored can still be looked at and saved."""
        ...
