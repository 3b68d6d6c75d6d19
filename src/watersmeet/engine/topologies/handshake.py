"""Handshake join: two streams flow past each other along a chain of cores (sections 3 and 4, figure 7).

Left rows enter at core 0 and move to the right, right rows enter at the last core and move to the left. A core holds a
stretch of both windows (the paper's segment). A block that enters a stretch is compared with the other stream's stretch
there (*eager scan*, here by the rows' index) and then stored. When a stretch has more than its share of rows, its
oldest blocks move on. So any two rows meet on exactly one core, provided that they cannot pass each other between two
cores:

*Two-phase forwarding.* A block that was sent stays in its old stretch, marked as sent, until the receiver has
acknowledged it. Acknowledgements travel in the same FIFO as blocks. Suppose that a left and a right block cross between
two cores. The left block arrives at the right core before the acknowledgement of the right block, which was sent later,
so they meet there. If the left core had received the right block first, they would have met at the left core, and the
acknowledgement would arrive first, so that the left block finds nothing. An acknowledgement is always for the oldest
block, so it need not name it. Of two blocks that cross, one must not find the other: a right block skips left blocks
that are marked as sent. (The paper's figures show this, its pseudo code does not.)

*Pipeline ends* (section 4.3). The message of expiry starts at the end where a stream leaves, in the FIFO of the other
stream: all rows that could still meet the expired ones have entered before. It runs along the chain and tells every
core how many rows are left, from which the core's share follows: the rows of a window are spread evenly, or by
``weights``.

Invariant: when nothing moves, a left and a right row have met iff the left row's core is not to the left of the right
row's core, or both rows were restored (all rows in a snapshot have met). ``owed`` relies on that.

Order (footnote 2). Punctuations flow with the rows, and results are held back until they have met: see
:mod:`watersmeet.engine.topologies.flowing_order`.

Bounds. A core never waits to send, so no two cores can wait for each other: at most ``UNACKNOWLEDGED`` blocks of each
stream are unacknowledged, and the rest stays in the core's stretch. The caller waits while an end of the chain is full.

Departures. Messages are blocks. Blocks that wait one behind the other probe together, and are then stored and
acknowledged one by one. A core sends blocks on before it probes, so that all cores down the chain work at the same
time; it may do so at any time, because two blocks that cross always meet once. In a time window too, rows move on by
number, not by age (section 3.6), so a burst spreads over all cores. By age it is a bubble, and the core that it is on
has several times the work of the others (``benchmarks/experiments/engine/bursts.py``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.engine.intake import Slice
from watersmeet.engine.row_numbers import in_order_of_arrival
from watersmeet.engine.threads import Crew, Inbox
from watersmeet.engine.topologies.blocks import blocks_of, joined_blocks
from watersmeet.engine.topologies.contract import Layout, Topology, drained
from watersmeet.engine.topologies.flowing_order import HeldBack, Passing, Punctuated, Punctuation
from watersmeet.engine.topologies.stretch import Alive, Stretch, extent_of_numbers, from_number
from watersmeet.spec.expression import StreamName
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.expiry import Bounds, Departed
from watersmeet.window.plan import OTHER_SIDE
from watersmeet.window.segment import SavedSegment
from watersmeet.window.stream_window import Match, StreamWindow

__all__ = ["Handshake"]


UNACKNOWLEDGED: Final = 8
BLOCKS_PER_PUNCTUATION: Final = 16
"""Blocks of each stream between two punctuations within a push."""
LANE: Final[dict[StreamName, int]] = {"left": 0, "right": 1}
"""Left rows come in the lane from the left, right rows in the lane from the right."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A block that moves on, or several that probe together; ``alive`` rows of its stream are in the window."""

    blocks: tuple[KeyedBatch, ...]
    alive: int


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """The oldest block of ``side`` that was sent has arrived."""

    side: StreamName


@dataclass(frozen=True, slots=True)
class Expiry:
    """Rows of ``side`` before ``before`` have expired; ``alive`` are left."""

    side: StreamName
    before: int
    alive: int


Message = Rows | Acknowledgement | Expiry | Punctuation


def _joined(first: Message, second: Message) -> Message | None:
    match first, second:
        case Rows(blocks), Rows(behind, alive) if joined_blocks((blocks[-1], *behind)) is not None:
            return Rows(blocks + behind, alive)
        case Punctuation(side), Punctuation(newer) if side == newer:
            return second
    return None


class HandshakeCore:
    """One core of the chain (figure 7; the comments give its lines)."""

    def __init__(self, layout: Layout, number: int, weight: float, found: deque[pa.Table]) -> None:
        self._layout = layout
        self._number = number
        self.weight = weight
        self.stretches: dict[StreamName, Stretch] = {side: Stretch(layout.plan, side) for side in OTHER_SIDE}
        self.next: dict[StreamName, Inbox[Message] | None] = dict.fromkeys(OTHER_SIDE)
        """For each stream the core that its rows move on to; None at the end."""
        self._sent: dict[StreamName, int] = dict.fromkeys(OTHER_SIDE, 0)
        self._forwarded: dict[StreamName, int] = dict.fromkeys(OTHER_SIDE, 0)
        self.punctuations = Passing()
        self._share: dict[StreamName, int] = dict.fromkeys(OTHER_SIDE, 0)
        self._expired: dict[StreamName, int | None] = dict.fromkeys(OTHER_SIDE)
        self._alive: dict[StreamName, int] = dict.fromkeys(OTHER_SIDE, 0)
        self.restored_before = 0
        """Rows with smaller numbers were restored."""
        self.found = found
        self.departed: dict[StreamName, deque[Departed]] = {side: deque() for side in OTHER_SIDE}
        """Rows that have expired at the end of the chain."""

    def handle(self, _: int, message: Message) -> None:
        """Process a message, then send on blocks that are too many (lines 2 to 7)."""
        match message:
            case Rows(blocks, alive):
                self._receive(blocks, alive)
            case Acknowledgement(side):
                self._acknowledged(side)
            case Expiry(side, before, alive):
                self._expired[side] = before
                self.count(side, alive)
                self._send(OTHER_SIDE[side], message)  # onwards, with the other stream
            case Punctuation(side):
                self.punctuations.come(message, self.must_arrive(side), self._ahead(side))
        for side in OTHER_SIDE:
            self._move_on(side)
        self.punctuations.count(self._forwarded["left"] - self._sent["left"])
        for side in OTHER_SIDE:
            self._send_punctuations(side)

    def must_arrive(self, side: StreamName) -> int:
        """Return how many left blocks have to arrive at the next core before a punctuation that comes now counts."""
        return self._forwarded["left"] if side == "right" else 0

    def _ahead(self, side: StreamName) -> int:
        """Return how many blocks have to be sent before a punctuation that comes now."""
        waiting = 0 if self.next[side] is None else len(self.stretches[side].blocks) - self._sent[side]
        return self._forwarded[side] + waiting

    def _send_punctuations(self, side: StreamName) -> None:
        for punctuation in self.punctuations.due(side, self._forwarded[side]):
            self._send(side, punctuation)

    def _receive(self, blocks: tuple[KeyedBatch, ...], alive: int) -> None:
        batch = joined_blocks(blocks)
        assert batch is not None
        side, other = batch.side, self.stretches[OTHER_SIDE[batch.side]]
        self.count(side, alive)
        self._move_on(side, len(batch))  # before probing, so that the next core need not wait
        crossing = self._sent["left"] if side == "right" else 0
        self.found += self._layout.gather(batch, self.partners(batch, crossing))  # line 12
        for block in blocks:
            self.stretches[side].insert(block, self._share[side], other.newest)  # line 13
            self._send(OTHER_SIDE[side], Acknowledgement(side))  # line 14

    def partners(self, batch: KeyedBatch, passed_over: int = 0) -> list[Match]:
        """Return the pairs of a batch with rows here that it has not met before."""
        found = self.stretches[OTHER_SIDE[batch.side]].probe(batch, passed_over)
        if extent_of_numbers(batch).high < self.restored_before:
            found = from_number(found, self.restored_before)
        return list(self._layout.wanted(batch, found))

    def _acknowledged(self, side: StreamName) -> None:
        self._sent[side] -= 1
        self.stretches[side].drop_oldest()  # line 19

    def count(self, side: StreamName, alive: int) -> None:
        """Set the number of rows in a stream's window, from which this core's share follows."""
        self._alive[side] = alive
        self._share[side] = int(alive * self.weight)

    def _move_on(self, side: StreamName, arriving: int = 0) -> None:
        """Send the oldest blocks that are too many, or at the end of the chain drop those that have expired.

        ``arriving`` rows will be stored next.
        """
        stretch = self.stretches[side]
        if self.next[side] is None:
            before = self._expired[side]
            while before is not None and stretch.blocks and stretch.blocks[0].place().high < before:
                block = stretch.drop_oldest()
                numbers = None if block.arrival is None else block.arrival.sequence
                self.departed[side].append(Departed(block.rows, numbers))
            return
        unsent = stretch.rows + arriving - sum(len(stretch.blocks[at]) for at in range(self._sent[side]))
        while unsent > self._share[side] and self._sent[side] < UNACKNOWLEDGED:  # lines 23 to 26
            if self._sent[side] == len(stretch.blocks):
                return  # more rows are arriving than should be here
            block = stretch.blocks[self._sent[side]]
            unsent -= len(block)
            self._forward(side, block)

    def _forward(self, side: StreamName, block: KeyedBatch) -> None:
        """Send a block, which stays here until it is acknowledged."""
        self._sent[side] += 1
        self._forwarded[side] += 1
        self._send(side, Rows((block,), self._alive[side]))
        self._send_punctuations(side)

    def _send(self, direction: StreamName, message: Message) -> None:
        """Send a message in the direction of a stream; at the end of the chain nothing is sent."""
        neighbour = self.next[direction]
        if neighbour is not None:
            neighbour.put_at_once(message, LANE[direction])


class Handshake(Topology):
    """The chain of cores; the caller feeds both ends."""

    keeps_order: ClassVar[bool] = False
    meets_later: ClassVar[bool] = True
    has_segments: ClassVar[bool] = True

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        weights = [1.0] * layout.cores if layout.weights is None else layout.weights
        self._found: deque[pa.Table] = deque()
        self._cores = [
            HandshakeCore(layout, number, weight / sum(weights), self._found) for number, weight in enumerate(weights)
        ]
        self._crew = Crew()
        inboxes = [
            self._crew.hire(f"watersmeet core {number}", core.handle, lanes=2, capacity=UNACKNOWLEDGED, joined=_joined)
            for number, core in enumerate(self._cores)
        ]
        for number, core in enumerate(self._cores):
            core.next["left"] = inboxes[number + 1] if number + 1 < layout.cores else None
            core.next["right"] = inboxes[number - 1] if number else None
        self._entry: dict[StreamName, Inbox[Message]] = {"left": inboxes[0], "right": inboxes[-1]}
        self._alive: dict[StreamName, Alive] = {side: Alive() for side in OTHER_SIDE}
        self._loaded: dict[StreamName, list[SavedSegment]] = {side: [] for side in OTHER_SIDE}
        self._punctuated = Punctuated()
        self._held_back = HeldBack()

    def submit(self, part: Slice) -> None:
        """Let the blocks of both streams enter at their ends."""
        self._place_loaded()
        block_rows = self._layout.block_rows
        sides = zip_longest(blocks_of(part.left, block_rows), blocks_of(part.right, block_rows))
        for number, pair in enumerate(sides, 1):
            for block in pair:
                if block is not None:
                    alive = self._alive[block.side].enter(block)
                    self._entry[block.side].put(Rows((block,), alive), LANE[block.side])
            if number % BLOCKS_PER_PUNCTUATION == 0:
                self._punctuate(part, number * block_rows)
        self._punctuate(part, max(len(part.left), len(part.right)))
        self._punctuated.end(part)

    def _punctuate(self, part: Slice, entered: int) -> None:
        """Tell both ends up to which number all rows have entered: so many of each side of this slice have."""
        number = None if self._layout.order is None else self._punctuated.after(part, entered)
        if number is not None:
            for side in OTHER_SIDE:
                self._entry[side].put(Punctuation(side, number), LANE[side])

    def settle(self) -> None:
        """Wait until nothing moves."""
        self._crew.wait_until_quiet()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing moves."""
        return self._crew.is_quiet

    def met_before(self, side: StreamName) -> int | None:
        """Return the number of the oldest row in the chain: rows that have left it at its end have met all that came.

        Rows move in the order of their numbers, and leave when no row to come can meet them, behind all that came.
        """
        self._come_to_rest()
        blocks = (core.stretches[side].blocks for core in self._way_back(side))
        return next((extent_of_numbers(some[0]).low for some in blocks if some), None)

    def held_back(self) -> list[pa.Table]:
        """Return the pairs that rows which have not met yet may come before."""
        return self._held_back.pairs()

    def poll(self) -> list[pa.Table]:
        """Return the pairs of rows that have met; in a join with an order those that none to come belongs before."""
        self._crew.check()
        if self._layout.order is None:
            return drained(self._found)
        complete = self._all_met()  # asked first: what has met is found
        self._punctuated.complete(complete)
        self._held_back.add(drained(self._found))
        return self._held_back.release(complete)

    def _all_met(self) -> int:
        """Return the number up to which all rows have met."""
        return max(core.punctuations.complete for core in self._cores)

    def complete(self) -> dict[StreamName, int]:
        """Return how many rows of each stream have met all before them, as far as punctuations tell."""
        return self._punctuated.complete(self._all_met())

    def expire(self, before: Bounds) -> dict[StreamName, list[Departed]]:
        """Tell all cores what has expired, behind the rows that were let in. Rows leave at the end of the chain."""
        self._place_loaded()
        for side, place in before.items():
            if place is not None and self._alive[side].expire(place):
                expiry = Expiry(side, place, self._alive[side].rows)
                self._entry[OTHER_SIDE[side]].put(expiry, LANE[OTHER_SIDE[side]])
        return {side: [part for core in self._cores for part in drained(core.departed[side])] for side in before}

    def owed(self) -> list[pa.Table]:
        """Return the pairs of rows that have not met, left rows to the left of right ones, and what was not polled."""
        self._come_to_rest()
        owed = [*self._held_back.pairs(), *self._found]
        for number, core in enumerate(self._cores):
            for further in self._cores[number + 1 :]:
                for block in core.stretches["left"].blocks:
                    owed += self._layout.gather(block, further.partners(block))
        return owed

    def finish(self) -> list[pa.Table]:
        """Return the pairs of rows that have not met yet; they count as complete then."""
        owed = self.owed()
        self._punctuated.finish()
        return owed

    def windows(self, side: StreamName) -> Sequence[StreamWindow]:
        """Return the windows that index a side's rows on all cores."""
        self._come_to_rest()
        return [window for core in self._cores for window in core.stretches[side].windows]

    def save(self, side: StreamName) -> list[SavedSegment]:
        """Return a side's rows, those nearest to the end of the chain first."""
        self._come_to_rest()
        blocks = [block for core in self._way_back(side) for block in core.stretches[side].blocks]
        return [(block.rows, None if block.arrival is None else block.arrival.sequence) for block in blocks]

    def _way_back(self, side: StreamName) -> Sequence[HandshakeCore]:
        """Return the cores from the end where a stream leaves to where it enters: those of its oldest rows first."""
        return self._cores[::-1] if side == "left" else self._cores

    def load(self, side: StreamName, rows: pa.RecordBatch, sequence: Int64s | None) -> None:
        """Keep saved rows; they are spread over the chain when all have been loaded."""
        self._loaded[side].append((rows, sequence))

    def _come_to_rest(self) -> None:
        """Wait until nothing moves, before somebody looks at what is stored."""
        self._crew.rest()
        self._place_loaded()

    def _place_loaded(self) -> None:
        """Spread restored rows over the chain, the oldest nearest to the end where they leave."""
        for side, saved in self._loaded.items():
            if not saved:
                continue
            in_order = [self._batch(side, *some) for some in in_order_of_arrival(saved)]
            rows = sum(map(len, in_order))
            way = list(self._way_back(side))
            for block in (block for some in in_order for block in blocks_of(some, self._layout.block_rows)):
                share = int(rows * way[0].weight)
                if len(way) > 1 and way[0].stretches[side].rows + len(block) > share:
                    way.pop(0)
                way[0].stretches[side].insert(block, share, None)
                self._alive[side].enter(block)
            for core in self._cores:
                core.count(side, rows)
                core.restored_before = max(core.restored_before, extent_of_numbers(in_order[-1]).high + 1)
            saved.clear()

    def _batch(self, side: StreamName, rows: pa.RecordBatch, sequence: Int64s | None) -> KeyedBatch:
        """Return saved rows as a batch."""
        # They came before all rows that they have not met yet, so none of those came before them.
        arrival = None if sequence is None else Arrival(sequence, np.zeros(len(sequence), np.int64))
        return KeyedBatch(self._layout.plan, side, rows, arrival)

    def close(self) -> None:
        """End all threads."""
        self._crew.close()
