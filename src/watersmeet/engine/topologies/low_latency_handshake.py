"""Low-latency handshake join: rows run through the whole chain without waiting and are stored at one home core each.

Left rows run from core 0 to the right, right rows from the last core to the left. A core passes a block on before it
joins it (*fast forwarding*). So a row reaches its partners after as many hops as they are away, not when the window has
moved that far. Stored rows do not move; their home follows from counting, as in SplitJoin.

*The fresh-tuple rule.* A row is fresh until it has passed all cores. An old row is at home, where every fresh row of
the other stream passes and finds it, once. Two fresh rows may cross anywhere, so without a rule they might be found at
both homes or at neither. By the rule they are found at the left row's home, by the row that comes there second: a right
row probes the fresh left rows that are at home there, and a left row at its home probes the fresh right rows that have
passed.

Rows become old together, an *epoch* at a time: when all rows that entered have passed all cores, each core is told so
and moves its fresh rows to its windows. An epoch has a bounded number of blocks, and so of messages. So a core never
waits to send, and no two cores can wait for each other. The end of an epoch also tells
what has expired.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar, Final

import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.engine.intake import Slice
from watersmeet.engine.threads import Crew, Inbox
from watersmeet.engine.topologies.blocks import blocks_of, joined_blocks, share_of
from watersmeet.engine.topologies.contract import Layout, Topology, drained
from watersmeet.spec.expression import StreamName
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.expiry import Bounds, Departed, expire
from watersmeet.window.plan import OTHER_SIDE
from watersmeet.window.stream_window import Match, StreamWindow

__all__ = ["LowLatencyHandshake"]


EPOCH_BLOCKS: Final = 64
"""Blocks of each stream that may be fresh at a time."""
LANE: Final[dict[StreamName, int]] = {"left": 0, "right": 1}


@dataclass(frozen=True, slots=True)
class Fresh:
    """A block that runs through the chain; ``counted`` rows of its stream entered before it."""

    batch: KeyedBatch
    counted: int


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """All rows that entered have passed all cores; rows before these places have expired."""

    before: Bounds


Message = Fresh | EpochEnd


def _joined(first: Message, second: Message) -> Message | None:
    match first, second:
        case Fresh(batch, counted), Fresh(behind, _):
            whole = joined_blocks([batch, behind])
            return None if whole is None else Fresh(whole, counted)
    return None


class LowLatencyCore:
    """One core of the chain."""

    def __init__(self, layout: Layout, number: int, found: deque[pa.Table]) -> None:
        self._layout = layout
        self._number = number
        self.windows: dict[StreamName, StreamWindow] = {side: StreamWindow(layout.plan, side) for side in OTHER_SIDE}
        self.next: dict[StreamName, Inbox[Message] | None] = dict.fromkeys(OTHER_SIDE)
        self.found = found
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        self._fresh_here = StreamWindow(self._layout.plan, "left")
        self._passed = StreamWindow(self._layout.plan, "right")
        self._to_store: list[KeyedBatch] = []

    def handle(self, _: int, message: Message) -> None:
        """Process a message."""
        match message:
            case EpochEnd(before):
                self._end_epoch()
                expire({side: [self.windows[side]] for side in before}, before)
            case Fresh(batch, counted):
                neighbour = self.next[batch.side]
                if neighbour is not None:
                    neighbour.put_at_once(message, LANE[batch.side])
                home = self.share(batch, counted)
                self.found += self._layout.results(self.windows[OTHER_SIDE[batch.side]], batch)
                if batch.side == "left":
                    self.found += self._layout.gather(home, self._meet_passed(home))
                else:
                    self.found += self._layout.gather(batch, self._meet_fresh(batch))
                if len(home):
                    self._to_store.append(home)

    def share(self, batch: KeyedBatch, counted: int) -> KeyedBatch:
        """Return the rows of a block that are at home here."""
        return share_of(batch, counted, self._number, self._layout.cores)

    def _meet_passed(self, home: KeyedBatch) -> list[Match]:
        """Probe the fresh right rows that have passed, and store these left rows for those to come."""
        if not len(home):
            return []
        found = list(self._layout.wanted(home, self._passed.probe(home)))
        self._fresh_here.insert(home, self._passed)
        return found

    def _meet_fresh(self, batch: KeyedBatch) -> list[Match]:
        """Probe the fresh left rows at home here, and store these right rows for those to come."""
        found = list(self._layout.wanted(batch, self._fresh_here.probe(batch)))
        self._passed.insert(batch, self._fresh_here)
        return found

    def _end_epoch(self) -> None:
        """Move the fresh rows at home here to the windows."""
        for home in self._to_store:
            self.windows[home.side].insert(home, self.windows[OTHER_SIDE[home.side]])
        self._begin_epoch()


class LowLatencyHandshake(Topology):
    """The chain of cores; the caller feeds both ends and ends epochs."""

    keeps_order: ClassVar[bool] = False

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._found: deque[pa.Table] = deque()
        self._cores = [LowLatencyCore(layout, number, self._found) for number in range(layout.cores)]
        self._crew = Crew()
        self._inboxes: list[Inbox[Message]] = [
            self._crew.hire(f"watersmeet core {number}", core.handle, lanes=2, joined=_joined)
            for number, core in enumerate(self._cores)
        ]
        for number, core in enumerate(self._cores):
            core.next["left"] = self._inboxes[number + 1] if number + 1 < layout.cores else None
            core.next["right"] = self._inboxes[number - 1] if number else None
        self._counted: dict[StreamName, int] = dict.fromkeys(OTHER_SIDE, 0)
        self._complete = dict(self._counted)
        self._fresh = 0  # pairs of blocks that have entered since the last epoch
        self._before: Bounds = {}
        self._released: deque[pa.Table] = deque()

    def submit(self, part: Slice) -> None:
        """Let the blocks of both streams enter, an epoch at a time; a new one begins where not all blocks fit in."""
        block_rows = self._layout.block_rows
        blocks = -(-max(len(part.left), len(part.right)) // block_rows)
        if self._fresh and self._fresh + blocks > EPOCH_BLOCKS:
            self._end_epoch()
        for pair in zip_longest(blocks_of(part.left, block_rows), blocks_of(part.right, block_rows)):
            if self._fresh == EPOCH_BLOCKS:
                self._let_grow_old()
            self._fresh += 1
            for block in pair:
                if block is not None:
                    entry = self._inboxes[0 if block.side == "left" else -1]
                    entry.put_at_once(Fresh(block, self._counted[block.side]), LANE[block.side])
                    self._counted[block.side] += len(block)

    def _end_epoch(self) -> None:
        """End an epoch between two slices: all that has been found comes before what is to come, in any order."""
        self._let_grow_old()
        self._released.extend(drained(self._found))
        self._complete = dict(self._counted)

    def _let_grow_old(self) -> None:
        """Wait until all rows have passed all cores, let them grow old, and drop what has expired by now."""
        self._crew.wait_until_quiet()
        for inbox in self._inboxes:
            inbox.put_at_once(EpochEnd(self._before))
        self._crew.wait_until_quiet()
        self._fresh = 0

    def settle(self) -> None:
        """Wait until nothing moves and no row is fresh."""
        if self._fresh:
            self._end_epoch()
        self._crew.check()

    @property
    def is_quiet(self) -> bool:
        """Whether all rows have passed all cores; they may still be fresh."""
        return self._crew.is_quiet

    def poll(self) -> list[pa.Table]:
        """Return what has been found: if results have an order, by slices whose rows are no longer fresh."""
        self._crew.check()
        if self._layout.order is None:
            return drained(self._released) + drained(self._found)
        if self._fresh and self._crew.is_quiet:
            self._end_epoch()
        return drained(self._released)

    def complete(self) -> dict[StreamName, int]:
        """Return how many rows are no longer fresh."""
        return dict(self._complete)

    def expire(self, before: Bounds) -> dict[StreamName, list[Departed]]:
        """Drop what has expired: now, or with the end of the epoch."""
        self._before = before
        return {side: [] for side in before} if self._fresh else super().expire(before)

    def windows(self, side: StreamName) -> Sequence[StreamWindow]:
        """Return all cores' windows of a side."""
        if self._fresh and not self._crew.stopped:
            self._end_epoch()
        return [core.windows[side] for core in self._cores]

    def load(self, side: StreamName, rows: pa.RecordBatch, sequence: Int64s | None) -> None:
        """Store saved rows at their homes."""
        arrival = None if sequence is None else Arrival(sequence, sequence)
        saved = KeyedBatch(self._layout.plan, side, rows, arrival)
        for core in self._cores:
            home = core.share(saved, self._counted[side])
            if len(home):
                core.windows[side].load(home.rows, None if home.arrival is None else home.arrival.sequence)
        self._counted[side] += len(saved)

    def close(self) -> None:
        """End all threads."""
        self._crew.close()
