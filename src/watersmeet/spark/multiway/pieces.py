"""Runs as pieces of a stage: rows, and an index segment for each neighbour."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.engine.multiway.block import Block, arrival_of, narrowed
from watersmeet.engine.multiway.plan import MultiPlan
from watersmeet.engine.multiway.rows import chunk_of
from watersmeet.engine.multiway.stage import Piece, Stages
from watersmeet.spark.envelope import one_batch
from watersmeet.spark.run_cache import RunCache
from watersmeet.spark.runs import Content, Found, Index, Runs
from watersmeet.spark.segments import segment_of
from watersmeet.spark.state import Origin, Run, RunStore
from watersmeet.spec.expression import Side
from watersmeet.subwindow.contract import Entries
from watersmeet.window.payload import Extent
from watersmeet.window.segment import Segment

__all__ = ["Pieces"]


class Pieces(Runs[Piece]):
    """Finds, makes and forgets the pieces of one core's runs."""

    def __init__(self, plan: MultiPlan, store: RunStore, cache: RunCache | None) -> None:
        super().__init__(store, cache)
        self._plan = plan

    def stages(self, runs: dict[Side, list[Run]], found: Found) -> Stages:
        """Return the stages that the streams' runs make up."""
        stages = Stages(self._plan, {stream: some[0].first if some else 0 for stream, some in runs.items()})
        for stream, some in runs.items():
            for run in some:
                stages.of[stream].add(self.find(stream, run, found))
        return stages

    def add(self, block: Block, stages: Stages, made: Origin) -> Run:
        """Store a block (not empty) as a run, and as a piece of its stage."""
        stage = stages.of[block.stream]
        piece = stage.piece(block, stages.of)
        indexes = {
            partner: Index(segment.choice, self._entries(block, partner, segment))
            for partner, segment in piece.segments.items()
        }
        content = Content(block.rows, block.counts or {}, indexes)
        return self.keep(content, piece, piece.chunk.place, made)

    def merge(self, stream: Side, runs: list[Run], stages: Stages) -> Run:
        """Put runs together into one of the next level; ``stages`` are what its indexes are chosen for."""
        store = stages.of[stream].rows

        def add(pieces: list[Piece], made: Origin) -> Run:
            rows = one_batch(pa.Table.from_batches([piece.chunk.rows for piece in pieces]))
            counted = [counts for piece in pieces if (counts := store.counts(piece.chunk)) is not None]
            counts = {name: np.concatenate([own[name] for own in counted]) for name in counted[0]} if counted else None
            alone = Stages(self._plan, dict.fromkeys(self._plan.streams, made.first))
            for name, stage in stages.of.items():
                if name != stream:
                    alone.of[name] = stage
            return self.add(Block(stream, rows, counts, made.first, {}), alone, made)

        return self.merged(stream, runs, add)

    def schema(self, stream: Side) -> pa.Schema:
        """Return the schema of a stream."""
        return self._plan.schemas[stream]

    def made(self, stream: Side, run: Run, content: Content) -> Piece:
        """Return the piece of a run."""
        counts = dict(content.numbers) or None
        if not content.indexes:
            alone = Stages(self._plan, dict.fromkeys(self._plan.streams, run.first))
            return alone.of[stream].piece(Block(stream, content.rows, counts, run.first, {}), alone.of)
        numbers = run.first + np.arange(run.rows)
        segments = {}
        for partner, index in content.indexes.items():
            names = self._plan.pair(stream, partner).columns(stream)
            rows = narrowed(names, [content.rows.column(name) for name in names], numbers)
            segments[partner] = segment_of(index, rows, arrival_of(stream, partner, counts), run)
        place = Extent(run.low, run.high)
        chunk = chunk_of(self._plan.streams_from(stream), run.first, content.rows, counts, place)
        return Piece(chunk, segments)

    def nbytes(self, piece: Piece, *, is_mapped: bool) -> int:
        """Return the bytes of memory that a piece takes."""
        own = sum(segment.index.nbytes if is_mapped else segment.nbytes for segment in piece.segments.values())
        return own if is_mapped else own + piece.chunk.nbytes

    def _entries(self, block: Block, partner: Side, segment: Segment) -> Entries:
        return block.batch(self._plan.pair(block.stream, partner)).entries(segment.choice.order, 0)
