"""The stash: matches of two streams, kept for the rows of the others (Stashed-MJ, section III).

Matches of the two streams are found anyway when a new row of either enters. They are appended to the stash. A row of
another stream that has a condition with one of the two probes the stash, instead of both windows one after the other.
For every stream that can probe it the stash has an index: a window over the columns of one of the two that the
condition reads, with the numbers of both rows behind them.

*Best effort.* The stash is bounded in pairs, and the oldest are overwritten. Pairs come in the order in which blocks
enter, so what is left is complete from some *border* on: it holds every pair of which at least one row has a number at
or above the border's number of its stream. Pairs with both numbers below are not looked for in the stash, and are
*recomputed* by passing through both windows as without a stash, restricted to numbers below the border. So results are
exact, each once, whatever has been overwritten; and when no row below the border is left in one of the two windows,
there is nothing to recompute.

Cost: a pair is one entry in each index. Entries are overwritten a segment at a time. They expire with the later of
their rows, so a stash that is complete holds up to twice the pairs of which both rows are still in their windows.

A stash that begins in the middle of a join enters the matches of stored rows again, in the order in which they came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from watersmeet.arrays import Bools, Int64s
from watersmeet.engine.multiway.block import Block, arrival_of, numbered_rows
from watersmeet.engine.multiway.partial import Partials
from watersmeet.engine.multiway.plan import PairPlan
from watersmeet.engine.multiway.stage import Passage, Stages, Step
from watersmeet.spec.expression import StreamName
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.stream_window import StreamWindow

__all__ = ["SEGMENTS", "Border", "Stash", "StashPlan"]

Border = tuple[int, int]
"""Numbers of rows of the two streams."""

SEGMENTS: Final = 8
"""A full stash is overwritten in this many steps."""


@dataclass(slots=True)
class StashIndex:
    """An index of the pairs by one of their rows, that of ``member``, for rows of another stream."""

    member: StreamName
    pair: PairPlan
    window: StreamWindow
    border: Border
    """Pairs with both numbers below it are not in this index, or no longer."""
    begins: deque[Border] = field(default_factory=deque)
    """For every segment the border from which it and all newer ones are complete."""

    def insert(self, batch: KeyedBatch, begin: Border, probing: StreamWindow, capacity: int) -> int:
        """Add pairs, which are complete from ``begin`` on; return how many others they have overwritten."""
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
    """The streams whose matches are stashed, and for each other stream the one that it probes (``members``)."""

    streams: tuple[StreamName, StreamName]
    members: dict[StreamName, StreamName]


class Stash:
    """Matches of two streams. It begins with those of stored rows from ``begin`` on, a border."""

    def __init__(self, stages: Stages, plan: StashPlan, capacity: int, begin: Border) -> None:
        self.plan = plan
        self.streams = plan.streams
        self.capacity = capacity
        self.overwritten = 0
        self._stages = stages
        self.indexes: dict[StreamName, StashIndex] = {}
        for via, member in plan.members.items():
            pair = stages.plan.pair(member, via)
            self.indexes[via] = StashIndex(member, pair, StreamWindow(pair.plan, pair.side(member)), begin)
        for block in self._entered_since(begin):
            self.add_all(block)

    def _entered_since(self, begin: Border) -> Iterator[Block]:
        """Yield the stored rows from a border on as blocks of both streams in turn, as if they entered again."""
        now = dict(zip(self.streams, begin, strict=True))
        begins = now.copy()
        ends = {stream: stage.rows.end for stream, stage in self._stages.of.items()}
        for turn in range(1, SEGMENTS + 1):
            for stream in self.streams:
                end = begins[stream] + (ends[stream] - begins[stream]) * turn // SEGMENTS
                store = self._stages.of[stream].rows
                for chunk in store.chunks:
                    part = slice(max(0, now[stream] - chunk.first), max(0, end - chunk.first))
                    rows, counts = chunk.rows[part], store.counts(chunk)
                    if rows.num_rows:
                        own = None if counts is None else {name: numbers[part] for name, numbers in counts.items()}
                        yield Block(stream, rows, own, chunk.first + part.start, {**ends, **now})
                        now[stream] += rows.num_rows

    def __len__(self) -> int:
        return max((index.window.rows for index in self.indexes.values()), default=0)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(index.window.nbytes for index in self.indexes.values())

    def step(self, block: Block) -> Step:
        """Return the step by which a block of one of the two streams finds its matches."""
        return Step(tuple(stream for stream in self.streams if stream != block.stream), block.stream)

    def add_all(self, block: Block) -> None:
        """Append the matches of a block."""
        passage = Passage()
        for pairs in self._stages.pass_through(self._stages.start(block), self.step(block), passage):
            self.add(block, pairs, is_first=passage.found == len(pairs))

    def add(self, block: Block, pairs: Partials, *, is_first: bool) -> None:
        """Append matches that a block has found; ``is_first`` if they are its first ones. Blocks come in order."""
        limits = {**block.limits, block.stream: block.limits[block.stream] + len(block)}
        begin, after = ((where[self.streams[0]], where[self.streams[1]]) for where in (block.limits, limits))
        self._append(pairs, begin if is_first else after, after)

    def _append(self, pairs: Partials, begin: Border, after: Border) -> None:
        """Append pairs; a segment that begins with the first is complete from ``begin``, later ones from ``after``."""
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
        found = self._stages.of[member].rows.find(pairs.numbers[member])
        names = pair.columns(member)
        rows = numbered_rows(
            names, [found.column(name) for name in names], *(pairs.numbers[own] for own in self.streams)
        )
        arrival = arrival_of(member, via, None if pair.plan.time is not None else found.counts(member, via))
        return KeyedBatch(pair.plan, pair.side(member), rows, arrival)

    def pass_through(self, partials: Partials, step: Step, passage: Passage) -> Iterator[Partials]:
        """Yield partial results (at least one given) with a row of both streams, as far as the stash is complete."""
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

    def missing(self, via: StreamName) -> Border | None:
        """Return the border below which pairs must be recomputed, or None if no such pair is left."""
        border = self.indexes[via].border
        return border if self._has_rows_below(border) else None

    def _has_rows_below(self, border: Border) -> bool:
        return all(
            self._stages.of[stream].rows.first < number for stream, number in zip(self.streams, border, strict=True)
        )

    def expire(self, before: Mapping[StreamName, int | None]) -> None:
        """Drop pairs that no row to come can meet."""
        for index in self.indexes.values():
            place = before[index.member]
            if place is not None:
                index.expire(place)
