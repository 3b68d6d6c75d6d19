"""Decoded runs of a join of many streams: rows, and an index segment for each neighbour."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.balance.generation_sets import GenerationSets
from watersmeet.engine.multiway.block import Block, arrival_of, numbered_rows
from watersmeet.engine.multiway.plan import MultiPlan
from watersmeet.engine.multiway.rows import chunk_of
from watersmeet.engine.multiway.stage import IndexedChunk, Stages
from watersmeet.spark.envelope import one_batch
from watersmeet.spark.run_cache import RunCache
from watersmeet.spark.runs import Content, DecodedRuns, Index
from watersmeet.spark.state import Origin, Run, RunStore
from watersmeet.spark.window_runs import segment_of
from watersmeet.spec.expression import StreamName
from watersmeet.subwindow.contract import Entries
from watersmeet.window.payload import Extent
from watersmeet.window.segment import Segment

__all__ = ["StageRuns"]


@dataclass(frozen=True, slots=True)
class StageRun:
    """A decoded run, and the generations under which its rows have their home on its core (None: all)."""

    indexed: IndexedChunk
    homes: GenerationSets | None = None


class StageRuns(DecodedRuns[StageRun]):
    """The decoded runs of one core of a join of many streams."""

    def __init__(self, plan: MultiPlan, store: RunStore, cache: RunCache | None) -> None:
        super().__init__(store, cache, plan.structure)
        self._plan = plan
        self.homes: dict[str, GenerationSets | None] = {}
        """Of the rows of all runs, by the runs' keys."""

    def stages(self, runs: dict[StreamName, list[Run]]) -> Stages:
        """Return the stages that consist of the streams' runs."""
        stages = Stages(self._plan, {stream: some[0].first if some else 0 for stream, some in runs.items()})
        self.homes.clear()
        for stream, some in runs.items():
            for run in some:
                known = self.find(stream, run)
                self.homes[run.key] = known.homes
                stages.of[stream].add(known.indexed)
        return stages

    def add(self, block: Block, stages: Stages, origin: Origin, homes: GenerationSets | None = None) -> Run:
        """Store a block (not empty) as a run, and add it to its stage."""
        stage = stages.of[block.stream]
        indexed = stage.add_block(block, stages.of)
        content = Content(block.rows, block.counts or {}, self._indexes(block, indexed), homes)
        run = self.keep(content, StageRun(indexed, homes), indexed.chunk.place, origin)
        self.homes[run.key] = homes
        return run

    def merge(self, stream: StreamName, runs: list[Run], stages: Stages) -> Run:
        """Merge runs into one of the next level; ``stages`` are sampled when its indexes are chosen."""
        store = stages.of[stream].rows

        def add(known: list[StageRun], origin: Origin) -> Run:
            chunks = [run.indexed for run in known]
            homes = GenerationSets.joined([run.homes for run in known], [len(each.chunk.rows) for each in chunks])
            rows = one_batch(pa.Table.from_batches([indexed.chunk.rows for indexed in chunks]))
            counted = [counts for indexed in chunks if (counts := store.counts(indexed.chunk)) is not None]
            counts = {name: np.concatenate([own[name] for own in counted]) for name in counted[0]} if counted else None
            alone = Stages(self._plan, dict.fromkeys(self._plan.streams, origin.first))
            for name, stage in stages.of.items():
                if name != stream:
                    alone.of[name] = stage
            return self.add(Block(stream, rows, counts, origin.first, {}), alone, origin, homes)

        return self.merged(stream, runs, add)

    def schema(self, stream: StreamName) -> pa.Schema:
        """Return the schema of a stream."""
        return self._plan.schemas[stream]

    def decode(self, stream: StreamName, run: Run, content: Content) -> StageRun:
        """Return a decoded run."""
        counts = dict(content.numbers) or None
        numbers = run.first + np.arange(run.rows)
        segments = {}
        for partner, index in content.indexes.items():
            names = self._plan.pair(stream, partner).columns(stream)
            rows = numbered_rows(names, [content.rows.column(name) for name in names], numbers)
            segments[partner] = segment_of(index, rows, arrival_of(stream, partner, counts), run)
        place = Extent(run.low, run.high)
        chunk = chunk_of(self._plan.streams_from(stream), run.first, content.rows, counts, place)
        return StageRun(IndexedChunk(chunk, segments), content.homes)

    def index(self, stream: StreamName, run: Run, content: Content) -> tuple[StageRun, dict[str, Index]]:
        """Return a decoded run, and an index for each neighbour."""
        alone = Stages(self._plan, dict.fromkeys(self._plan.streams, run.first))
        block = Block(stream, content.rows, dict(content.numbers) or None, run.first, {})
        indexed = alone.of[stream].add_block(block, alone.of)
        return StageRun(indexed, content.homes), self._indexes(block, indexed)

    def nbytes(self, decoded: StageRun, *, is_mapped: bool) -> int:
        """Return the bytes of memory that a decoded run takes."""
        indexed = decoded.indexed
        own = sum(segment.index.nbytes if is_mapped else segment.nbytes for segment in indexed.segments.values())
        return own if is_mapped else own + indexed.chunk.nbytes

    def _indexes(self, block: Block, indexed: IndexedChunk) -> dict[str, Index]:
        return {
            partner: Index(segment.choice, self._entries(block, partner, segment))
            for partner, segment in indexed.segments.items()
        }

    def _entries(self, block: Block, partner: StreamName, segment: Segment) -> Entries:
        return block.batch(self._plan.pair(block.stream, partner)).entries(segment.choice.order, 0)
