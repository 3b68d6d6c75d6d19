"""Stages: the windows of all streams, and how partial results pass through them (Circular-MJ, section II).

A *stage* is one stream's window. It holds the stream's rows once, and finds them by number. For every stream that it
has a condition with it has an index, which is a :class:`~watersmeet.window.stream_window.StreamWindow` over the columns
that the condition reads. A partial result passes through a stage by probing the index with one of its rows. The
candidates are verified by all that the probe has not enforced: the conditions and windows between the stage's stream
and all bound streams, and the conjuncts of more than two streams whose last stream is bound now.

*Order control* (section II-C (2)). Blocks of rows enter one after the other, and each knows how many rows of every
stream had entered before. The paper's order control unit consists of three rules. By them a result is found exactly
once, by the one of its rows that entered last, no matter when a stage stores rows:

- *refine*: rows that were stored too early (with a number at or above the block's limit) are excluded;
- *compute* and EBuf: a row expires only when no block, present or to come, can need it, so nothing is compared again;
- OBuf: a stage stores all rows that entered before a block, and only then is probed with the block's partial results.

A stage may be built from *indexed chunks*: chunks of rows with an index segment per neighbour that were made earlier.

Cost of a probe: each row of the probing stream probes once, although several partial results may share it. Memory is
bounded, because partial results leave a stage in portions (:mod:`watersmeet.engine.multiway.portions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.columns.hidden import hidden_at
from watersmeet.columns.keys import row_ranges
from watersmeet.columns.widths import cuts_at, has_fixed_values
from watersmeet.engine import result
from watersmeet.engine.intake import Arrived
from watersmeet.engine.multiway.block import Block, arrival_of, numbered_rows
from watersmeet.engine.multiway.partial import Expansion, Partials, distinct
from watersmeet.engine.multiway.plan import MultiPlan, PairPlan
from watersmeet.engine.multiway.portions import in_portions, merged
from watersmeet.engine.multiway.rows import FoundRows, RowStore, chunk_of, keys_of
from watersmeet.spec.expression import Column, Predicate, StreamName, columns_of
from watersmeet.spec.typing import Schemas
from watersmeet.subwindow.contract import Pairs
from watersmeet.window import verify
from watersmeet.window.arrival import Counts
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.chunks import Chunk
from watersmeet.window.expiry import Bounds, Departed, expire
from watersmeet.window.payload import Extent
from watersmeet.window.segment import Segment
from watersmeet.window.stream_window import Match, StreamWindow
from watersmeet.window.verify import in_count_window, in_ranges, in_time, kept_pairs, truth

__all__ = ["IndexedChunk", "Stage", "Stages", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """Partial results get a row of each of ``streams``, which their row of ``via`` probes.

    Two streams at a time come from the stash (see :mod:`watersmeet.engine.multiway.stash`).
    """

    streams: tuple[StreamName, ...]
    via: StreamName


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """Some rows of a stream as a stage holds them: themselves, and an index segment for each neighbour."""

    chunk: Chunk
    segments: dict[StreamName, Segment]


@dataclass(slots=True)
class Passage:
    """Counts of partial results that have passed through a stage."""

    probing: int = 0
    candidates: int = 0
    found: int = 0


class Stage:
    """One stream's window."""

    def __init__(self, plan: MultiPlan, stream: StreamName, first: int = 0) -> None:
        self.plan = plan
        self.stream = stream
        self.rows = self._store(first)
        self.windows: dict[StreamName, StreamWindow] = {}
        for partner in plan.neighbours[stream]:
            pair = plan.pair(stream, partner)
            self.windows[partner] = StreamWindow(pair.plan, pair.side(stream))

    def _store(self, first: int) -> RowStore:
        return RowStore(self.plan.streams_from(self.stream), self.plan.schemas[self.stream], first)

    def hold(self, block: Block) -> None:
        """Hold a block's rows, so that they are found by number; probes do not find them yet."""
        if len(block):
            self.rows.append(block.rows, block.counts, self._place(block))

    def index(self, block: Block, stages: Mapping[StreamName, Stage]) -> None:
        """Index a block's rows, so that probes find them; other ``stages`` are sampled when a segment is created."""
        for partner, window in self.windows.items():
            opposite = stages[partner].windows.get(self.stream)
            window.insert(block.batch(self.plan.edge(self.stream, partner)), opposite)

    def index_for(self, partners: set[StreamName]) -> None:
        """Have an index for these streams too, with which only derived equalities connect it, and for no other such."""
        given = self.plan.neighbours[self.stream]
        self.windows = {
            partner: own for partner, own in self.windows.items() if partner in given or partner in partners
        }
        for partner in sorted(partners.difference(self.windows)):
            pair = self.plan.edge(self.stream, partner)
            window = self.windows[partner] = StreamWindow(pair.plan, pair.side(self.stream))
            for chunk in self.rows.chunks:
                window.insert(
                    Block(self.stream, chunk.rows, self.rows.counts(chunk), chunk.first, {}).batch(pair), None
                )

    def add_block(self, block: Block, stages: Mapping[StreamName, Stage]) -> IndexedChunk:
        """Hold and index the rows of a block (at least one) as an indexed chunk, and return that."""
        streams, place = self.plan.streams_from(self.stream), self._place(block)
        chunk = chunk_of(streams, self.rows.end, block.rows, block.counts, place)
        self.rows.add(chunk)
        segments = {}
        for partner, window in self.windows.items():
            batch = block.batch(self.plan.pair(self.stream, partner))
            segments[partner] = window.append(batch, stages[partner].windows[self.stream])
        return IndexedChunk(chunk, segments)

    def add(self, indexed: IndexedChunk) -> None:
        """Add an indexed chunk that was made earlier; they come in the order of their rows' numbers."""
        self.rows.add(indexed.chunk)
        for partner, window in self.windows.items():
            window.segments.append(indexed.segments[partner])

    def replace(self, chunks: Iterable[IndexedChunk]) -> None:
        """Hold these indexed chunks instead of those that were merged into them."""
        self.rows = self._store(self.rows.end)
        for window in self.windows.values():
            window.segments.clear()
        for indexed in chunks:
            self.add(indexed)

    def reached(self, partner: StreamName, limit: int) -> int:
        """Return how many segments of an index, the oldest ones, may hold rows with numbers below ``limit``.

        All rows are found by probes, so segments end where the rows do, and no row in them is counted twice.
        """
        segments = self.windows[partner].segments
        first, count = self.rows.end, len(segments)
        for segment in reversed(segments):
            first -= segment.rows
            if first < limit:
                break
            count -= 1
        return count

    def expire(self, before: int) -> list[Departed]:
        """Drop rows that lie before ``before``, a time or a number, in whole steps; return them."""
        for window in self.windows.values():
            window.expire(before)
        return self.rows.expire(before)

    @property
    def nbytes(self) -> int:
        """Bytes held by rows and indexes."""
        return self.rows.nbytes + sum(window.nbytes for window in self.windows.values())

    def _place(self, block: Block) -> Extent:
        """Return where a block lies in the window: any neighbour's view of it knows."""
        return block.batch(self.plan.pair(self.stream, self.plan.neighbours[self.stream][0])).place()


class Stages:
    """The stages of all streams, and the steps through them."""

    def __init__(self, plan: MultiPlan, firsts: Mapping[StreamName, int] | None = None) -> None:
        self.plan = plan
        self.of: dict[StreamName, Stage] = {
            stream: Stage(plan, stream, 0 if firsts is None else firsts[stream]) for stream in plan.streams
        }

    # --- enter, store, expire ----------------------------------------------------------------------------------------

    def block(
        self, stream: StreamName, rows: pa.RecordBatch, counts: Counts | None = None, times: Int64s | None = None
    ) -> Block:
        """Return rows as the next block; the caller lets a stage hold it before it asks for another."""
        limits = {other: stage.rows.end for other, stage in self.of.items()}
        return Block(stream, rows, counts, self.of[stream].rows.end, limits, times=times)

    def enter(
        self, stream: StreamName, rows: pa.RecordBatch, counts: Counts | None = None, times: Int64s | None = None
    ) -> Block:
        """Let rows enter: they get numbers, and their stage holds them."""
        block = self.block(stream, rows, counts, times)
        self.of[stream].hold(block)
        return block

    def index(self, block: Block) -> None:
        """Index a block that has entered, so that probes find it."""
        if len(block):
            self.of[block.stream].index(block, self.of)

    def enter_all(self, arrived: Arrived) -> Iterator[Block]:
        """Let the rows of all streams enter, one stream after the other; yield the blocks, none of them empty."""
        for stream, rows in arrived.rows.items():
            if rows.num_rows:
                counts = None if arrived.counts is None else arrived.counts[stream]
                times = None if arrived.times is None else arrived.times[stream]
                yield self.enter(stream, rows, counts, times)

    def expire(self, before: Bounds) -> dict[StreamName, list[Departed]]:
        """Drop what no row to come can meet; return what has left."""
        return expire({stream: [stage] for stream, stage in self.of.items()}, before)

    # --- a step ------------------------------------------------------------------------------------------------------

    def start(self, block: Block, limits: Mapping[StreamName, int] | None = None) -> Partials:
        """Return a block's rows as partial results; ``limits`` may be lower than the block's own."""
        return Partials(block, block.limits if limits is None else limits, {block.stream: block.numbers})

    def pass_through(self, partials: Partials, step: Step, passage: Passage) -> Iterator[Partials]:
        """Yield partial results (at least one given) with a row of one more stream, in portions, none of them empty."""
        (stream,) = step.streams
        batch, expansion = self.probing(partials, step.via, stream)
        stage = self.of[stream]
        matches = stage.windows[step.via].probe(batch, stage.reached(step.via, partials.limits[stream]))
        enforced = [self.plan.pair(step.via, stream)]
        yield from self.extended(partials, matches, expansion, passage, new=step.streams, enforced=enforced)

    def probing(self, partials: Partials, via: StreamName, partner: StreamName) -> tuple[KeyedBatch, Expansion | None]:
        """Return the rows of ``via`` that probe, each once, and the partial results that share each of them."""
        pair = self.plan.edge(via, partner)
        if len(partials.numbers) == 1:
            return partials.block.batch(pair), None
        numbers, expansion = distinct(partials.numbers[via])
        found = self.of[via].rows.find(numbers)
        names = pair.columns(via)
        rows = numbered_rows(names, [found.column(name) for name in names], numbers)
        counts = found.counts(via, partner) if pair.plan.time is None else None
        return KeyedBatch(pair.plan, pair.side(via), rows, arrival_of(via, partner, counts)), expansion

    def extended(
        self,
        partials: Partials,
        matches: Iterator[Match],
        expansion: Expansion | None,
        passage: Passage,
        *,
        new: tuple[StreamName, ...],
        enforced: list[PairPlan],
        accept: Callable[[list[Int64s]], Bools | None] | None = None,
    ) -> Iterator[Partials]:
        """Yield partial results with the rows of ``matches`` added, verified, in portions.

        The last columns of the stored rows are the numbers of the ``new`` streams' rows. Pairs of streams that are
        ``enforced`` are not verified. Rows that ``accept`` does not accept are not added.
        """
        checks = [
            self.plan.pair(stream, other)
            for position, stream in enumerate(new)
            for other in (*partials.numbers, *new[:position])
            if self.plan.pair(stream, other) not in enforced
        ]
        passage.probing += len(partials)
        bound = partials.bound.union(new)
        residual = [
            term.predicate
            for term in self.plan.residual
            if term.streams <= bound and not term.streams <= partials.bound
        ]

        def accepted(match: Match) -> tuple[Int32s, list[Int64s]]:
            numbers = [hidden_at(match.stored, position).take(match.row) for position in range(-len(new), 0)]
            verdicts = [self._live(stream, own, partials.limits) for stream, own in zip(new, numbers, strict=True)]
            verdicts += [] if accept is None else [accept(numbers)]
            if all(verdict is None for verdict in verdicts):
                return match.who, numbers
            keep = np.logical_and.reduce([verdict for verdict in verdicts if verdict is not None])
            return match.who[keep], [own[keep] for own in numbers]

        def verified() -> Iterator[Partials]:
            for at, numbers in in_portions(map(accepted, matches), expansion):
                passage.candidates += len(at)
                yield self._verified(partials.extended(at, dict(zip(new, numbers, strict=True))), checks, residual)

        for found in merged(verified()):
            passage.found += len(found)
            yield found

    def _live(self, stream: StreamName, numbers: Int64s, limits: Mapping[StreamName, int]) -> Bools | None:
        """Tell which rows entered before the block (*refine*) and are still held; None if all are."""
        first, limit = self.of[stream].rows.first, limits[stream]
        if len(numbers) == 0 or (int(numbers.min()) >= first and int(numbers.max()) < limit):
            return None
        return (numbers >= first) & (numbers < limit)

    # --- verify ------------------------------------------------------------------------------------------------------

    def _verified(self, partials: Partials, checks: list[PairPlan], residual: list[Predicate]) -> Partials:
        """Return the partial results that satisfy the plans of the pairs and the residual."""
        for pair in checks:
            if len(partials) == 0:
                return partials
            partials = self._holding(partials, pair)
            if pair.plan.residual is not None and len(partials):
                names = {"left": pair.left, "right": pair.right}
                partials = self._satisfying(partials, pair.plan.residual, names, pair.plan.schemas)
        for predicate in residual:
            if len(partials):
                names = {stream: stream for stream in self.plan.streams}
                partials = self._satisfying(partials, predicate, names, self.plan.schemas)
        return partials

    def _holding(self, partials: Partials, pair: PairPlan) -> Partials:
        """Check the window and all axes of a pair of streams, whose rows are gathered side by side.

        What the keys let through may be too much.
        """
        plan = pair.plan
        left, right = (self.of[stream].rows.find(partials.numbers[stream]) for stream in (pair.left, pair.right))
        every = np.arange(len(partials), dtype=np.int32)
        found = Pairs(every, every)
        for number, axis in enumerate(plan.axes):
            keys = left.numbers(keys_of(pair.left, pair, number))
            others = right.numbers(keys_of(pair.right, pair, number))
            found = kept_pairs(found, *in_ranges(found, row_ranges(axis, "right", others), keys))
            if number == plan.time:
                both, at = {"left": left.column, "right": right.column}, found.row
                keep = in_time(plan, {"left": keys[at], "right": others[at]}, both, {"left": at, "right": at})
                found = kept_pairs(found, keep, int(np.count_nonzero(keep)))
        if plan.time is None:
            of_left, of_right = left.counts(pair.left, pair.right), right.counts(pair.left, pair.right)
            stored = Arrival(of_left[pair.left], of_left[pair.right])
            probing = Arrival(of_right[pair.right], of_right[pair.left])
            found = kept_pairs(found, *in_count_window(found, plan, "left", stored, probing))
        return partials if found.count == len(partials) else partials.picked(found.row)

    def _satisfying(
        self, partials: Partials, predicate: Predicate, streams: Mapping[StreamName, StreamName], schemas: Schemas
    ) -> Partials:
        """Return the partial results that satisfy a predicate, whose sides are these ``streams``.

        They are looked at in portions of which it reads a bounded number of bytes.
        """
        cuts = list(cuts_at(self._widths(partials, predicate, streams), verify.CHECKED_BYTES))
        keep = np.concatenate([self._truth(partials, part, predicate, streams, schemas) for part in cuts])
        return partials if keep.all() else partials.picked(keep)

    def _widths(self, partials: Partials, predicate: Predicate, streams: Mapping[StreamName, StreamName]) -> Int64s:
        """Return the bytes that a predicate reads of each partial result, in columns of no fixed width."""
        widths = np.zeros(len(partials), np.int64)
        for stream, name in {(streams[column.stream], column.name) for column in columns_of(predicate)}:
            if not has_fixed_values(self.plan.schemas[stream].field(name).type):
                widths += self.of[stream].rows.find(partials.numbers[stream]).value_widths(name)
        return widths

    def _truth(
        self,
        partials: Partials,
        part: slice,
        predicate: Predicate,
        streams: Mapping[StreamName, StreamName],
        schemas: Schemas,
    ) -> Bools:
        found: dict[StreamName, FoundRows] = {}

        def gather(column: Column) -> pa.Array:
            stream = streams[column.stream]
            if stream not in found:
                found[stream] = self.of[stream].rows.find(partials.numbers[stream][part])
            return found[stream].column(column.name)

        return truth(predicate, gather, schemas, part.stop - part.start)

    # --- results -----------------------------------------------------------------------------------------------------

    def tables(self, partials: Partials) -> Iterator[pa.Table]:
        """Yield results (at least one), which bind all streams, as rows, in tables of about the bytes of one.

        So no column of results is longer than Arrow can count.
        """
        found = self._found(partials)
        widths = np.sum([own.widths() for own in found.values()], axis=0)
        cuts = list(cuts_at(widths, result.BYTES_AT_ONCE))
        for part in cuts:
            some = found if len(cuts) == 1 else self._found(partials.extended(part, {}))
            columns = [own.column(name) for stream, own in some.items() for name in self.plan.schemas[stream].names]
            yield pa.Table.from_arrays(columns, schema=self.plan.result_schema)

    def _found(self, partials: Partials) -> dict[StreamName, FoundRows]:
        return {stream: stage.rows.find(partials.numbers[stream]) for stream, stage in self.of.items()}
