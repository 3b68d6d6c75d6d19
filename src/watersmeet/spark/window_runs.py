"""Decoded runs of a join of two streams: each is a segment of a window."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.spark.envelope import one_batch
from watersmeet.spark.run_cache import RunCache
from watersmeet.spark.runs import Content, DecodedRuns, Index
from watersmeet.spark.state import Origin, Run, RunStore
from watersmeet.spec.expression import StreamName
from watersmeet.subwindow.choose import create
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.chunks import ChunkedRows
from watersmeet.window.payload import Extent
from watersmeet.window.plan import JoinPlan
from watersmeet.window.segment import Segment
from watersmeet.window.stream_window import StreamWindow

__all__ = ["WindowRuns", "segment_of"]

SEQUENCE = "sequence"
"""Name of the arrival numbers that are kept: each row's own. All rows to come arrive after the stored ones."""
WHOLE = ""
"""Name of the one index that a run has."""


class WindowRuns(DecodedRuns[Segment]):
    """The decoded runs of one core of a join of two streams."""

    def __init__(self, plan: JoinPlan, store: RunStore, cache: RunCache | None) -> None:
        super().__init__(store, cache, plan.structure)
        self._plan = plan

    def windows(self, runs: dict[StreamName, list[Run]]) -> dict[StreamName, StreamWindow]:
        """Return the windows that consist of each side's runs."""
        windows = {side: StreamWindow(self._plan, side) for side in runs}
        for side, window in windows.items():
            window.segments.extend(self.find(side, run) for run in runs[side])
        return windows

    def add(self, batch: KeyedBatch, own: StreamWindow, other: StreamWindow, origin: Origin) -> Run:
        """Store a batch (not empty) as a run, and add it to its window."""
        segment = own.append(batch, other)
        numbers = {} if batch.arrival is None else {SEQUENCE: batch.arrival.sequence}
        content = Content(batch.rows, numbers, _indexes(batch, segment))
        return self.keep(content, segment, segment.place, origin)

    def merge(self, side: StreamName, runs: list[Run], other: StreamWindow) -> Run:
        """Merge runs into one of the next level, in their order."""

        def add(segments: list[Segment], origin: Origin) -> Run:
            parts = [saved for segment in segments for saved in segment.save()]
            sequences = [sequence for _, sequence in parts if sequence is not None]
            sequence = np.concatenate(sequences) if sequences else None
            table = pa.Table.from_batches([rows for rows, _ in parts])
            batch = KeyedBatch(self._plan, side, one_batch(table), _arrival(sequence))
            return self.add(batch, StreamWindow(self._plan, side), other, origin)

        return self.merged(side, runs, add)

    def schema(self, stream: StreamName) -> pa.Schema:
        """Return the schema of a side."""
        return self._plan.schemas[stream]

    def decode(self, stream: StreamName, run: Run, content: Content) -> Segment:  # noqa: ARG002 -- as declared
        """Return the segment of a run."""
        return segment_of(content.indexes[WHOLE], content.rows, _arrival(content.numbers.get(SEQUENCE)), run)

    def index(self, stream: StreamName, run: Run, content: Content) -> tuple[Segment, dict[str, Index]]:  # noqa: ARG002 -- as declared
        """Return the segment of a run, and its index."""
        batch = KeyedBatch(self._plan, stream, content.rows, _arrival(content.numbers.get(SEQUENCE)))
        segment = StreamWindow(self._plan, stream).append(batch, None)
        return segment, _indexes(batch, segment)

    def nbytes(self, piece: Segment, *, is_mapped: bool) -> int:
        """Return the bytes of memory that a segment takes."""
        return piece.index.nbytes if is_mapped else piece.nbytes


def segment_of(index: Index, rows: pa.RecordBatch, arrival: Arrival | None, run: Run) -> Segment:
    """Return a segment of rows whose sorted keys are known."""
    segment = Segment(index.choice, create(index.choice, run.rows, None), run.rows, ChunkedRows(run.rows))
    segment.store(index.entries, rows, arrival, Extent(run.low, run.high))
    return segment


def _indexes(batch: KeyedBatch, segment: Segment) -> dict[str, Index]:
    return {WHOLE: Index(segment.choice, batch.entries(segment.choice.order, 0))}


def _arrival(sequence: Int64s | None) -> Arrival | None:
    return None if sequence is None else Arrival(sequence, sequence)
