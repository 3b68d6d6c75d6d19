"""Kang's three steps on one core (handshake join, section 2.2), batch-wise: the reference for every other topology.

For a batch that arrives: (1) scan the other stream's window for partners, (2) insert the batch into its own window,
(3) invalidate what has expired. Of two batches that arrive together the left one goes first, so a pair of two new rows
is found once, by the right row.
"""

from __future__ import annotations

from collections.abc import Iterator

from watersmeet.spec.expression import Side
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.plan import OTHER_SIDE, JoinPlan
from watersmeet.window.stream_window import Match, StreamWindow

__all__ = ["Kang"]


class Kang:
    """Both windows on one core."""

    def __init__(self, plan: JoinPlan) -> None:
        self.windows: dict[Side, StreamWindow] = {side: StreamWindow(plan, side) for side in OTHER_SIDE}

    def push(self, left: KeyedBatch, right: KeyedBatch) -> Iterator[tuple[KeyedBatch, list[Match]]]:
        """Join two batches that arrive together, left before right; yield each with what it found."""
        for batch in (left, right):
            own, other = self.windows[batch.side], self.windows[OTHER_SIDE[batch.side]]
            yield batch, list(other.probe(batch))
            own.insert(batch, other)

    def expire(self, side: Side, before: int) -> None:
        """Drop a side's rows that lie before a time or sequence number, whole segments at a time."""
        self.windows[side].expire(before)
