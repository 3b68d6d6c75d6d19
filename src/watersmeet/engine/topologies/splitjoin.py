"""SplitJoin: storing and processing are split, and neither needs a coordinator.

*Distribution* (sections 4.2, 4.3). Blocks of both streams go to every core in the order of arrival, down a tree whose
inner nodes are threads that pass messages on. A core processes all rows and stores some: it counts the rows of each
stream, and stores those whose number is its own modulo the number of cores.

*Join core* (algorithm 2). The left region stores left rows, and right rows probe it; the right region is the opposite.
Expiry (section 4.4) is local: each core drops rows of its own regions, and no messages are needed. Between two pushes
the driver gives the bounds.

*Gathering* (section 5). A core punctuates its results with stars: after a number of probing rows, and within one
probing row after a number of stored rows. Mergers combine the results of all cores between the same two stars, two
cores at a time, and pass one star on. With a star after every probing row results are in outer order, with a star after
every stored row also in inner order. With fewer stars results are out of order only between two of them. A star is a
mark that all results before it share, so merging is a stable sort by marks.

Departures. Messages are blocks, so a core marks the results of a block together. Stars count arrivals, not comparisons,
because an index makes few comparisons. A merger works when the block has been processed, in the caller's thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.engine.intake import Slice
from watersmeet.engine.row_numbers import pair_numbers
from watersmeet.engine.threads import Crew, Inbox
from watersmeet.engine.topologies.blocks import blocks_in_order_of_arrival, blocks_of, joined_blocks, share_of
from watersmeet.engine.topologies.contract import Layout, Topology
from watersmeet.spec.expression import StreamName
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.plan import OTHER_SIDE
from watersmeet.window.stream_window import StreamWindow

__all__ = ["Punctuation", "SplitJoin", "merge_marked"]


FANOUT: Final = 8
FAN_IN: Final = 2


@dataclass(frozen=True)
class Punctuation:
    """How often a core sets a star: after every ``rows`` arrivals of probing rows, and ``stored`` of stored rows.

    Two results may be out of order only if their probing rows arrived fewer than ``rows`` apart, or if they have the
    same probing row and their stored rows arrived fewer than ``stored`` apart (None: any number apart).
    """

    rows: int = 1
    stored: int | None = None


@dataclass(frozen=True, slots=True)
class Marked:
    """Results with the marks of their stars, ascending."""

    pairs: pa.Table
    outer: Int64s
    inner: Int64s


@dataclass(frozen=True, slots=True)
class _NumberedBlock:
    """A block of one stream, and its number among those of its push."""

    batch: KeyedBatch
    number: int


class JoinCore:
    """One join core: its regions of both windows."""

    def __init__(self, layout: Layout, number: int, punctuation: Punctuation | None) -> None:
        self.number = number
        self.windows: dict[StreamName, StreamWindow] = {side: StreamWindow(layout.plan, side) for side in OTHER_SIDE}
        self._layout = layout
        self._punctuation = punctuation
        self._counted: dict[StreamName, int] = dict.fromkeys(OTHER_SIDE, 0)
        self._found: list[pa.Table] = []
        self._marked: dict[int, Marked] = {}

    def handle(self, _: int, block: _NumberedBlock) -> None:
        """Process a block and store this core's rows of it (algorithm 2)."""
        batch = block.batch
        other = self.windows[OTHER_SIDE[batch.side]]
        for pairs in self._layout.gather(batch, list(other.probe(batch))):
            if self._punctuation is None:
                self._found.append(pairs)
            else:
                self._marked[block.number] = _punctuate(pairs, batch.side, self._punctuation)
        self._store(batch)

    def _store(self, batch: KeyedBatch) -> None:
        """Store this core's rows of a batch."""
        mine = share_of(batch, self._counted[batch.side], self.number, self._layout.cores)
        self._counted[batch.side] += len(batch)
        if len(mine):
            self.windows[batch.side].insert(mine, self.windows[OTHER_SIDE[batch.side]])

    def load(self, saved: KeyedBatch) -> None:
        """Store this core's rows of saved ones."""
        mine = share_of(saved, self._counted[saved.side], self.number, self._layout.cores)
        self._counted[saved.side] += len(saved)
        if len(mine):
            self.windows[saved.side].load(mine.rows, None if mine.arrival is None else mine.arrival.sequence)

    def handed_over(self) -> list[pa.Table]:
        """Return the pairs found since the last call."""
        found, self._found = self._found, []
        return found

    def punctuated_results(self) -> dict[int, Marked]:
        """Return the results found since the last call, by the number of the block that found them."""
        marked, self._marked = self._marked, {}
        return marked


class SplitJoin(Topology):
    """The distribution tree, the join cores and the mergers."""

    keeps_order: ClassVar[bool] = True

    def __init__(self, layout: Layout, *, fanout: int = FANOUT, punctuation: Punctuation | None = None) -> None:
        self._layout = layout
        if punctuation is None and layout.order is not None:
            punctuation = Punctuation(1, 1 if layout.order == "inner" else None)
        self._crew = Crew()
        self._cores = [JoinCore(layout, number, punctuation) for number in range(layout.cores)]
        self._roots = self._distribution_tree(
            [
                self._crew.hire(f"watersmeet core {core.number}", core.handle, joined=self._joined)
                for core in self._cores
            ],
            fanout,
        )

    def _distribution_tree(self, leaves: list[Inbox[_NumberedBlock]], fanout: int) -> list[Inbox[_NumberedBlock]]:
        """Return the inboxes that the caller sends to: those of the cores, or of the distributors above them."""
        while len(leaves) > fanout:
            groups = [leaves[begin : begin + fanout] for begin in range(0, len(leaves), fanout)]
            leaves = [
                self._crew.hire("watersmeet distributor", partial(_distribute, group), joined=self._joined)
                for group in groups
            ]
        return leaves

    def _joined(self, first: _NumberedBlock, second: _NumberedBlock) -> _NumberedBlock | None:
        """Return two blocks of a push as one, or None: if results are ordered, each block keeps its own number."""
        batch = joined_blocks([first.batch, second.batch]) if self._layout.order is None else None
        return None if batch is None else _NumberedBlock(batch, first.number)

    def push(self, part: Slice) -> list[pa.Table]:
        """Distribute the blocks of a slice, wait for all cores, and merge their results."""
        block_rows, ordered = self._layout.block_rows, self._layout.order is not None
        blocks = (
            blocks_in_order_of_arrival(part, block_rows)
            if ordered
            else (block for batch in (part.left, part.right) for block in blocks_of(batch, block_rows))
        )
        number = 0
        for number, batch in enumerate(blocks, 1):
            _distribute(self._roots, 0, _NumberedBlock(batch, number))
        if number:
            self._crew.wait_until_quiet()
        return self._gathered(number) if ordered else [table for core in self._cores for table in core.handed_over()]

    def _gathered(self, blocks: int) -> list[pa.Table]:
        found = [core.punctuated_results() for core in self._cores]
        parts = ([results[number] for results in found if number in results] for number in range(1, blocks + 1))
        return [merge_marked(results).pairs for results in parts if results]

    def windows(self, side: StreamName) -> Sequence[StreamWindow]:
        """Return all cores' windows of a side."""
        return [core.windows[side] for core in self._cores]

    def load(self, side: StreamName, rows: pa.RecordBatch, sequence: Int64s | None) -> None:
        """Spread saved rows over the cores."""
        arrival = None if sequence is None else Arrival(sequence, sequence)
        for core in self._cores:
            core.load(KeyedBatch(self._layout.plan, side, rows, arrival))

    def close(self) -> None:
        """End all threads."""
        self._crew.close()


def _distribute(children: list[Inbox[_NumberedBlock]], _: int, block: _NumberedBlock) -> None:
    """Pass a block on (algorithm 1)."""
    for child in children:
        child.put(block)


def _punctuate(pairs: pa.Table, probing: StreamName, stars: Punctuation) -> Marked:
    """Mark results with their stars."""
    numbers = pair_numbers(pairs)
    outer = numbers[probing] // stars.rows
    found = numbers[OTHER_SIDE[probing]]
    inner = np.zeros(len(found), np.int64) if stars.stored is None else found // stars.stored
    return _sorted(Marked(pairs, outer, inner))


def merge_marked(parts: Sequence[Marked]) -> Marked:
    """Merge the results of several cores, star by star (algorithm 5)."""
    while len(parts) > 1:
        parts = [_merged(parts[begin : begin + FAN_IN]) for begin in range(0, len(parts), FAN_IN)]
    return parts[0]


def _merged(parts: Sequence[Marked]) -> Marked:
    if len(parts) == 1:
        return parts[0]
    return _sorted(
        Marked(
            pa.concat_tables([part.pairs for part in parts]),
            np.concatenate([part.outer for part in parts]),
            np.concatenate([part.inner for part in parts]),
        )
    )


def _sorted(marked: Marked) -> Marked:
    order = np.lexsort((marked.inner, marked.outer))
    return Marked(marked.pairs.take(pa.array(order)), marked.outer[order], marked.inner[order])
