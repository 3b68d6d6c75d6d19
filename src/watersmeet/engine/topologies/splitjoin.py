"""SplitJoin: storing and processing are split, and neither needs a coordinator.

*Distribution* (sections 4.2, 4.3). Blocks of both streams go, in their order of arrival, to every core: down a tree
whose inner nodes are threads that pass messages on. A core processes all rows and stores some: it counts the rows of
each stream, and those whose number is its own modulo the number of cores are its.

*Join core* (algorithm 2). The left region stores left rows and is probed by right ones, the right region the other way
round. Just before a region is probed the core drops what no row to come can meet there (section 4.4). It knows by
itself, from the rows it has seen: by their arrival numbers, or by their timestamps less the lateness. The driver's
bound is not asked for; that a part has ended is what is heard of it.

*Gathering* (section 5). A core puts stars between its results, and a tree of mergers puts those of all cores in order
by them, releasing as it goes: see :mod:`watersmeet.engine.topologies.punctuation` and
:mod:`watersmeet.engine.topologies.gathering`. Without an order there are no stars and no mergers: results are released
where they are found.

Rows flow: ``submit`` returns when the blocks are on their way, and waits only where a lane is full.

Departures. Messages are blocks, so a core looks at a block of rows at once, and processes before it stores.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.engine.intake import Slice
from watersmeet.engine.threads import Crew, Inbox
from watersmeet.engine.topologies.blocks import blocks_in_order_of_arrival, blocks_of, joined_blocks, share_of
from watersmeet.engine.topologies.contract import Layout, Topology, drained
from watersmeet.engine.topologies.gathering import Combiner, gathering_tree
from watersmeet.engine.topologies.punctuation import Run, punctuated
from watersmeet.spec.expression import StreamName
from watersmeet.spec.window import CountWindow
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.expiry import Bounds, Departed, Seen
from watersmeet.window.plan import OTHER_SIDE
from watersmeet.window.stream_window import Match, StreamWindow

__all__ = ["JoinCore", "SplitJoin"]


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of one stream: the turn of its first row among those of both streams, and the part it came with."""

    batch: KeyedBatch
    turn: int
    part: int


class JoinCore:
    """One join core: its regions of both windows."""

    hand_on: Callable[[Run], None]

    def __init__(self, layout: Layout, number: int, released: deque[pa.Table]) -> None:
        self.number = number
        self.windows: dict[StreamName, StreamWindow] = {side: StreamWindow(layout.plan, side) for side in OTHER_SIDE}
        self._layout = layout
        self._released = released
        self._counted: dict[StreamName, int] = dict.fromkeys(OTHER_SIDE, 0)
        self.seen = Seen(layout.plan)
        self._part = 0
        window = layout.plan.window
        self._in_turn = isinstance(window, CountWindow) and (window.order_by is None or layout.order is not None)

    def handle(self, _: int, block: _Block) -> None:
        """Expire, process, store (algorithm 2)."""
        batch = block.batch
        self._expire(block)
        window = self.windows[OTHER_SIDE[batch.side]]
        if self._layout.order is None:
            self._released.extend(self._layout.results(window, batch))
        else:
            matches = list(self._layout.wanted(batch, window.probe(batch)))
            self.hand_on(self.punctuated(block, matches, self._layout.gather(batch, matches)))
        self._store(batch)

    def punctuated(self, block: _Block, matches: list[Match], tables: list[pa.Table]) -> Run:
        """Put stars between what a block found."""
        assert self._layout.order is not None
        return punctuated(block.batch, block.turn, matches, tables, self._layout.order)

    def _expire(self, block: _Block) -> None:
        """Drop what no row from this block on can meet (algorithm 4)."""
        batch = block.batch
        expiring = [OTHER_SIDE[batch.side]]
        if block.part != self._part:
            self._part = block.part
            self.seen.begin()
            expiring = list(OTHER_SIDE)
        if self._in_turn:
            assert batch.arrival is not None
            self.seen.meet(OTHER_SIDE[batch.side], int(batch.arrival.seen[0]))
        for side in expiring:
            self.drop(side, self.seen.before[side])
        self.seen.see(batch.side, batch.place().high)

    def drop(self, side: StreamName, before: int | None) -> list[Departed]:
        """Drop a region's rows before a place; return what has left."""
        return [] if before is None else self.windows[side].expire(before)

    def _store(self, batch: KeyedBatch) -> None:
        """Store the rows whose turn it is."""
        mine = share_of(batch, self._counted[batch.side], self.number, self._layout.cores)
        self._counted[batch.side] += len(batch)
        if len(mine):
            self.windows[batch.side].insert(mine, self.windows[OTHER_SIDE[batch.side]])

    def load(self, saved: KeyedBatch) -> None:
        """Store this core's part of saved rows."""
        mine = share_of(saved, self._counted[saved.side], self.number, self._layout.cores)
        self._counted[saved.side] += len(saved)
        self.seen.see(saved.side, saved.place().high)
        if len(mine):
            self.windows[saved.side].load(mine.rows, None if mine.arrival is None else mine.arrival.sequence)


class SplitJoin(Topology):
    """The distribution tree, the join cores and the gathering tree."""

    keeps_order: ClassVar[bool] = True
    has_trees: ClassVar[bool] = True

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._crew = Crew()
        self._released: deque[pa.Table] = deque()
        self._combiner = Combiner()
        self._cores = [JoinCore(layout, number, self._released) for number in range(layout.cores)]
        self._roots = self._distribution_tree(
            [
                self._crew.hire(f"watersmeet core {core.number}", core.handle, joined=self._joined)
                for core in self._cores
            ]
        )
        if layout.order is not None:
            gathering_tree(self._crew, self._cores, layout.fanout, self._combiner)
        self._part = 1
        self._turn = 0
        self._entered: deque[tuple[StreamName, int, int]] = deque()  # of blocks under way: side, turn, rows
        self._complete: dict[StreamName, int] = dict.fromkeys(OTHER_SIDE, 0)

    def _distribution_tree(self, leaves: list[Inbox[_Block]]) -> list[Inbox[_Block]]:
        """Return the inboxes that the caller feeds: the cores', or those of the distributors above them."""
        fanout = self._layout.fanout
        while len(leaves) > fanout:
            groups = [leaves[begin : begin + fanout] for begin in range(0, len(leaves), fanout)]
            leaves = [
                self._crew.hire("watersmeet distributor", partial(_distribute, group), joined=self._joined)
                for group in groups
            ]
        return leaves

    def _joined(self, first: _Block, second: _Block) -> _Block | None:
        """Return two blocks that follow each other as one.

        Where rows of one star are ordered too, as they are where its rows are more than one, all cores must have cut
        the rows alike: a message ends with a star.
        """
        order = self._layout.order
        if order is not None and order.rows > 1 and order.comparisons is not None:
            return None
        batch = joined_blocks([first.batch, second.batch])
        return None if batch is None else _Block(batch, first.turn, first.part)

    def submit(self, part: Slice) -> None:
        """Distribute the blocks of a slice."""
        for batch in self._blocks(part):
            block = _Block(batch, self._turn, self._part)
            self._turn += len(batch)
            if self._layout.order is not None:
                self._entered.append((batch.side, block.turn, len(batch)))
            _distribute(self._roots, 0, block)

    def _blocks(self, part: Slice) -> Iterator[KeyedBatch]:
        block_rows = self._layout.block_rows
        if self._layout.order is not None:
            return blocks_in_order_of_arrival(part, block_rows)
        return (block for batch in (part.left, part.right) for block in blocks_of(batch, block_rows))

    def settle(self) -> None:
        """Wait until all cores and mergers are done."""
        self._crew.wait_until_quiet()

    @property
    def is_quiet(self) -> bool:
        """Whether all cores and mergers are done."""
        return self._crew.is_quiet

    def poll(self) -> list[pa.Table]:
        """Return what has been released, in the order asked for."""
        self._crew.check()
        self._forget_complete()
        return self._combiner.taken() + drained(self._released)

    def complete(self) -> dict[StreamName, int]:
        """Return how many rows of each stream have met all before them, by the stars of its results."""
        self._forget_complete()
        counted = dict(self._complete)
        for side, turn, rows in self._entered:
            counted[side] += min(rows, max(0, self._combiner.complete[side] + 1 - turn))
        return counted

    def _forget_complete(self) -> None:
        """Leave out the blocks all of whose results have been released."""
        while self._entered:
            side, turn, rows = self._entered[0]
            if self._combiner.complete[side] < turn + rows - 1:
                return
            self._complete[side] += rows
            self._entered.popleft()

    def expire(self, before: Bounds) -> dict[StreamName, list[Departed]]:
        """Take note that a part has ended: every core knows by itself what has expired."""
        self._part += 1
        return {side: [] for side in before}

    def windows(self, side: StreamName) -> Sequence[StreamWindow]:
        """Return all cores' windows of a side."""
        self._crew.rest()
        return [core.windows[side] for core in self._cores]

    def load(self, side: StreamName, rows: pa.RecordBatch, sequence: Int64s | None) -> None:
        """Share saved rows out."""
        arrival = None if sequence is None else Arrival(sequence, sequence)
        for core in self._cores:
            core.load(KeyedBatch(self._layout.plan, side, rows, arrival))

    def close(self) -> None:
        """End all threads."""
        self._crew.close()


def _distribute(children: list[Inbox[_Block]], _: int, block: _Block) -> None:
    """Pass a block on (algorithm 1)."""
    for child in children:
        child.put(block)
