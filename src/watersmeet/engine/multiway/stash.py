"""The stash: matches of two streams, kept for the rows of the others (Stashed-MJ, section III).

Matches of the two streams are found anyway, when a new row of either enters. They are appended to the stash, and a row
of any other stream that meets one of the two looks there, instead of in both windows one after the other. For every
stream that can look into it the stash has an index: a window over those columns of one of the two which the condition
between them reads, with the numbers of both rows behind them.

*Overwritten entries.* The stash is bounded in pairs, and the oldest are overwritten. Pairs come in the order in which
blocks enter, so what is left is complete from some *border* on: it holds every pair of which at least one row has a
number at or above the border's number of its stream. Pairs with both numbers below are not looked for in the stash, and
are *recomputed* by passing through both windows as without a stash, restricted to numbers below the border. So results
are exact, each once, whatever has been overwritten; and when no row below the border is left in one of the two windows,
there is nothing to recompute.

Cost: a pair is one entry in each index. Entries expire with their row, and are overwritten a segment at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from watersmeet.arrays import Bools, Int64s
from watersmeet.engine.multiway.block import Block, arrival_of, narrowed
from watersmeet.engine.multiway.partial import Partials
from watersmeet.engine.multiway.plan import PairPlan
from watersmeet.engine.multiway.stage import Passage, Stages, Step
from watersmeet.spec.expression import Side
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.stream_window import StreamWindow

__all__ = ["Border", "Stash", "StashPlan"]

Border = tuple[int, int]
"""Numbers of rows of the two streams."""

SEGMENTS: Final = 8
"""A stash that is full is overwritten in so many steps."""


@dataclass(slots=True)
class StashIndex:
    """The pairs, found through one of their two rows (that of ``member``) by rows of another stream."""

    member: Side
    pair: PairPlan
    window: StreamWindow
    border: Border
    """Pairs with both numbers below are not, or no longer, in this index."""
    begins: deque[Border] = field(default_factory=deque)
    """For every segment the border from which on it and all newer ones are complete."""

    def insert(self, batch: KeyedBatch, begin: Border, probing: StreamWindow, capacity: int) -> int:
        """Add pairs, which are complete from ``begin`` on; return how many others were overwritten for them."""
        window = self.window
        newest = window.segments[-1] if window.segments else None
        if newest is not None and newest.rows + len(batch) > capacity // SEGMENTS:
            window.append(batch, probing)
        else:
            window.insert(batch, probing)
        if window.segments[-1] is not newest:
            self.begins.append(begin)
        overwritten = 0
        while window.rows > capacity and len(window.segments) > 1:
            overwritten += window.segments.popleft().payload.held
            self.begins.popleft()
            self.border = self.begins[0]
        return overwritten

    def expire(self, before: int) -> None:
        """Drop pairs whose row lies before ``before``."""
        self.window.expire(before)
        while len(self.begins) > len(self.window.segments):
            self.begins.popleft()


@dataclass(frozen=True, slots=True)
class StashPlan:
    """Whose matches are stashed, and through whose rows (``members``) the rows of each other stream find them."""

    streams: tuple[Side, Side]
    members: dict[Side, Side]


class Stash:
    """Matches of two streams; begins with those of the rows that are stored already, or with none."""

    def __init__(self, stages: Stages, plan: StashPlan, capacity: int, *, is_filled: bool) -> None:
        self.plan = plan
        self.streams = plan.streams
        self.capacity = capacity
        self.overwritten = 0
        self._stages = stages
        stores = [stages.of[stream].rows for stream in plan.streams]
        after: Border = (stores[0].end, stores[1].end)
        begin: Border = (stores[0].first, stores[1].first) if is_filled else after
        self.indexes: dict[Side, StashIndex] = {}
        for via, member in plan.members.items():
            pair = stages.plan.pair(member, via)
            self.indexes[via] = StashIndex(member, pair, StreamWindow(pair.plan, pair.side(member)), begin)
        first, second = plan.streams
        for chunk in stores[0].chunks if is_filled else ():
            limits = {stream: stage.rows.end for stream, stage in stages.of.items()}
            rows = stages.start(Block(first, chunk.rows, stores[0].counts(chunk), chunk.first, limits))
            for pairs in stages.pass_through(rows, Step((second,), first), Passage()):
                self._append(pairs, begin, after)
                begin = after

    def __len__(self) -> int:
        return max((index.window.rows for index in self.indexes.values()), default=0)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(index.window.nbytes for index in self.indexes.values())

    def add(self, pairs: Partials, *, is_first: bool) -> None:
        """Append matches of the two streams that a block has found; ``is_first`` if they are its first portion."""
        block = pairs.block
        limits = {**block.limits, block.stream: block.limits[block.stream] + len(block)}
        begin, after = ((where[self.streams[0]], where[self.streams[1]]) for where in (block.limits, limits))
        self._append(pairs, begin if is_first else after, after)

    def _append(self, pairs: Partials, begin: Border, after: Border) -> None:
        """Append pairs; a segment that begins with these is complete from ``begin``, one within them from ``after``."""
        step = max(1, self.capacity // SEGMENTS)
        for at in range(0, len(pairs), step):
            part = pairs.extended(slice(at, at + step), {})
            for via, index in self.indexes.items():
                probing = self._stages.of[via].windows[index.member]
                batch = self._batch(part, index)
                self.overwritten += index.insert(batch, after if at else begin, probing, self.capacity)

    def _batch(self, pairs: Partials, index: StashIndex) -> KeyedBatch:
        member, pair = index.member, index.pair
        via = pair.other(member)
        places = self._stages.of[member].rows.places(pairs.numbers[member])
        names = pair.columns(member)
        rows = narrowed(names, [places.column(name) for name in names], *(pairs.numbers[own] for own in self.streams))
        arrival = arrival_of(member, via, None if pair.plan.time is not None else places.counts(member, via))
        return KeyedBatch(pair.plan, pair.side(member), rows, arrival)

    def pass_through(self, partials: Partials, step: Step, passage: Passage) -> Iterator[Partials]:
        """Yield the partial results (not none) with a row of both streams more, as far as the stash is complete."""
        index = self.indexes[step.via]
        batch, expansion = self._stages.probing(partials, step.via, index.member)
        first, second = self.streams
        enforced = [index.pair, self._stages.plan.pair(first, second)]

        def is_complete(numbers: list[Int64s]) -> Bools | None:
            return (numbers[0] >= index.border[0]) | (numbers[1] >= index.border[1])

        yield from self._stages.extended(
            partials,
            index.window.probe(batch),
            expansion,
            passage,
            new=self.streams,
            enforced=enforced,
            accept=is_complete if self._has_rows_below(index.border) else None,
        )

    def missing(self, via: Side) -> Border | None:
        """Return the border below which pairs have to be recomputed; None when no such pair is left."""
        border = self.indexes[via].border
        return border if self._has_rows_below(border) else None

    def _has_rows_below(self, border: Border) -> bool:
        return all(
            self._stages.of[stream].rows.first < number for stream, number in zip(self.streams, border, strict=True)
        )

    def expire(self, before: Mapping[Side, int | None]) -> None:
        """Drop pairs that no row to come can meet."""
        for index in self.indexes.values():
            place = before[index.member]
            if place is not None:
                index.expire(place)
