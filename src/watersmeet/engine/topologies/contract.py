"""The contract of a topology: it spreads windows over cores so that every pair of rows meets exactly once.

A topology is the tactic of a join of two streams (see :mod:`watersmeet.engine.driver`). It takes *slices*, left and
right rows that are joined together, and returns tables of pairs. Whether a pair satisfies predicate and window follows
from the two rows alone (from timestamps, or a count window's arrival numbers). So any core can decide it at any time,
once it has both rows. The driver decides when rows expire, by bounds before which no row to come can match;
SplitJoin's cores find such bounds by themselves.

The contract, for all topologies:

- ``submit`` takes rows and returns while they move, if there are threads; it waits when too many rows move. ``poll``
  returns the pairs found by now, and ``settle`` waits until nothing moves any more.
- ``push`` does all three. So its result does not depend on timing: it is the pairs that its rows complete. Only in
  ``handshake`` rows meet later, as they move, and ``owed`` returns the pairs that are left.
- If results have an order, all pairs of one ``poll`` come before those of the next.
- Rows may move when the driver lets rows expire. They still meet all rows that they would have met.
- A call that looks at windows, saved rows or owed pairs waits until nothing moves.
- Expiry bounds the windows, the lanes' capacity bounds the messages, and results are kept until they are polled.
- An exception in a core is raised in the caller, by the next call of ``submit``, ``settle`` or ``poll``. The topology
  is then closed and cannot be used any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol, TypeVar

import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.columns.gather import Columns
from watersmeet.engine.forms import Form
from watersmeet.engine.intake import Slice
from watersmeet.engine.result import (
    first_for_each_left_row,
    gather_probing,
    gather_stored,
    one_for_each_left_row,
    table_of_pairs,
)
from watersmeet.spec.expression import StreamName
from watersmeet.spec.ordering import Relaxed
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.expiry import Bounds, Departed, expire
from watersmeet.window.plan import OTHER_SIDE, JoinPlan
from watersmeet.window.segment import SavedSegment
from watersmeet.window.stream_window import Match, StreamWindow

__all__ = ["FANOUT", "Layout", "Topology", "drained"]

Found = TypeVar("Found")

FANOUT: Final = 8


@dataclass(frozen=True)
class Layout:
    """The arguments of a topology."""

    plan: JoinPlan
    schema: pa.Schema
    """The schema of the pairs; if rows are numbered, with the columns of :mod:`watersmeet.engine.row_numbers`."""
    cores: int = 1
    block_rows: int = 256
    """Rows in one message between threads."""
    order: Relaxed | None = None
    """How precisely results are ordered; None: not at all."""
    fanout: int = FANOUT
    """Cores, or mergers, that a distributor or merger serves, for topologies that have such trees."""
    weights: tuple[float, ...] | None = None
    """The share of each window that each core holds, for topologies that have segments; None: equal shares."""
    form: Form | None = None
    """In which form results are given; None: as pairs."""
    columns: Mapping[StreamName, list[int]] | None = None
    """Of each side, which columns of its rows the pairs have; None: all."""
    left_alone: bool = False
    """Whether pairs stand for their left rows alone: then not all of many pairs are gathered."""

    def results(self, window: StreamWindow, probing: KeyedBatch) -> list[pa.Table]:
        """Return what a batch finds in a window, in the form asked for."""
        if self.form is None:
            return self.gather(probing, list(self.wanted(probing, window.probe(probing))))
        return self.form.tables(probing, window.find(probing))

    def wanted(self, probing: KeyedBatch, matches: Iterator[Match]) -> Iterator[Match]:
        """Yield, of the pairs that a batch finds in a probe, those that are gathered."""
        if not self.left_alone:
            return matches
        return (one_for_each_left_row if self.order is None else first_for_each_left_row)(probing, matches)

    def gather(self, probing: KeyedBatch, matches: list[Match]) -> list[pa.Table]:
        """Return the pairs that a batch found, in the form asked for, as few tables; none if it found no pairs."""
        if not matches:
            return []
        if self.form is not None:
            return self.form.tables(probing, matches)
        return [self.table(probing.side, self.own_columns(probing, matches), self.stored_columns(probing, matches))]

    def own_columns(self, probing: KeyedBatch, matches: list[Match]) -> Columns:
        """Gather the columns of a batch for the pairs that it found."""
        return gather_probing(probing, matches, None if self.columns is None else self.columns[probing.side])

    def stored_columns(self, probing: KeyedBatch, matches: list[Match]) -> Columns:
        """Gather the columns of stored rows for the pairs that a batch found."""
        columns = None if self.columns is None else self.columns[OTHER_SIDE[probing.side]]
        return gather_stored(matches, columns, probing.team)

    def table(self, probing: StreamName, own: Columns, stored: Columns) -> pa.Table:
        """Return pairs as a table from gathered columns; ``probing`` is the probing batch's side."""
        return table_of_pairs(probing, own, stored, self.schema)


def drained(found: deque[Found]) -> list[Found]:
    """Take all that is there now out of a queue to which other threads may add."""
    return [found.popleft() for _ in range(len(found))]


class Topology(Protocol):
    """The methods of a topology; see the module's header."""

    keeps_order: ClassVar[bool]
    """Whether ``poll`` returns pairs in the order asked for; if not, the caller sorts them."""
    meets_later: ClassVar[bool] = False
    """Whether rows still meet after their push, as they move: then they always have numbers, and enter by them."""

    has_trees: ClassVar[bool] = False
    """Whether messages are handed on in trees, which a ``fanout`` shapes."""
    has_segments: ClassVar[bool] = False
    """Whether every core holds a segment of each window, whose share ``weights`` say."""

    def __init__(self, layout: Layout) -> None: ...

    def submit(self, part: Slice) -> None:
        """Let rows in that arrive together."""
        ...

    def settle(self) -> None:
        """Wait until nothing moves any more."""
        ...

    @property
    def is_quiet(self) -> bool:
        """Whether nothing moves: then the next ``poll`` gives all that was found, but for what ``held_back`` has."""
        ...

    def poll(self) -> list[pa.Table]:
        """Return the pairs that have been found, and were not returned yet."""
        ...

    def push(self, part: Slice) -> list[pa.Table]:
        """Join rows that arrive together; return the pairs found."""
        self.submit(part)
        self.settle()
        return self.poll()

    def complete(self) -> dict[StreamName, int]:
        """Return how many of the rows let in, of each side, have met all that came before them.

        The pairs that they have found with these have been released: they were polled, or the next poll gives them.
        Asked for only where results have an order.
        """
        ...

    def expire(self, before: Bounds) -> dict[StreamName, list[Departed]]:
        """Drop what lies before these places when all rows let in so far have met.

        Return what has left now; where rows are on their way cores may drop theirs later, without a word.
        """
        return expire({side: self.windows(side) for side in before}, before)

    def met_before(self, side: StreamName) -> int | None:  # noqa: ARG002 -- where rows meet later, it matters
        """Return the number before which a side's rows have met all that they can; None: all rows that were let in.

        Asked for only when nothing moves.
        """
        return None

    def held_back(self) -> list[pa.Table]:
        """Return the pairs that have been found, and that ``poll`` does not return yet, for their order."""
        return []

    def owed(self) -> list[pa.Table]:
        """Return the pairs of stored rows that have not met yet: none, if rows meet when they arrive."""
        return []

    def finish(self) -> list[pa.Table]:
        """Return the pairs of stored rows that have not met yet, when no row is to come: then all have met."""
        return self.owed()

    def windows(self, side: StreamName) -> Sequence[StreamWindow]:
        """Return the windows of all cores that hold a side's rows."""
        ...

    def save(self, side: StreamName) -> list[SavedSegment]:
        """Return a side's rows, oldest segment first, so that they can expire in that order."""
        segments = [segment for window in self.windows(side) for segment in window.segments]
        in_turn = sorted(segments, key=lambda segment: segment.place.high)
        return [saved for segment in in_turn for saved in segment.save()]

    def load(self, side: StreamName, rows: pa.RecordBatch, sequence: Int64s | None) -> None:
        """Store a segment of saved rows, which any topology may have saved."""
        ...

    def close(self) -> None:
        """Stop all threads; stored rows can still be read and saved."""
        ...
