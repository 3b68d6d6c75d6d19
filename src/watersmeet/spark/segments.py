"""Runs as segments of a window that can be probed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.spark.envelope import one_batch
from watersmeet.spark.run_cache import RunCache
from watersmeet.spark.runs import Content, Found, Index, Runs
from watersmeet.spark.state import Origin, Run, RunStore
from watersmeet.spec.expression import Side
from watersmeet.subwindow.choose import create
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.chunks import ChunkedRows
from watersmeet.window.payload import Extent
from watersmeet.window.plan import JoinPlan
from watersmeet.window.segment import Segment
from watersmeet.window.stream_window import StreamWindow

__all__ = ["Segments", "segment_of"]

Int64s = npt.NDArray[np.int64]

SEQUENCE = "sequence"
"""What is kept of a count window's numbers: each row's own. Every row to come arrives after those stored."""
WHOLE = ""
"""Name of the one index that a run has."""


class Segments(Runs[Segment]):
    """Finds, makes and forgets the segments of one core's runs."""

    def __init__(self, plan: JoinPlan, store: RunStore, cache: RunCache | None) -> None:
        super().__init__(store, cache)
        self._plan = plan

    def windows(self, runs: dict[Side, list[Run]], found: Found) -> dict[Side, StreamWindow]:
        """Return the windows that each side's runs make up."""
        windows = {side: StreamWindow(self._plan, side) for side in runs}
        for side, window in windows.items():
            window.segments.extend(self.find(side, run, found) for run in runs[side])
        return windows

    def add(self, batch: KeyedBatch, own: StreamWindow, other: StreamWindow, made: Origin) -> Run:
        """Store a batch (not empty) as a run, and as a segment of its window."""
        segment = own.append(batch, other)
        numbers = {} if batch.arrival is None else {SEQUENCE: batch.arrival.sequence}
        index = Index(segment.choice, batch.entries(segment.choice.order, 0))
        content = Content(batch.rows, numbers, {WHOLE: index})
        return self.keep(content, segment, segment.place, made)

    def merge(self, side: Side, runs: list[Run], other: StreamWindow) -> Run:
        """Put runs together into one of the next level, in their order."""

        def add(segments: list[Segment], made: Origin) -> Run:
            parts = [segment.save() for segment in segments]
            sequences = [sequence for _, sequence in parts if sequence is not None]
            sequence = np.concatenate(sequences) if sequences else None
            table = pa.Table.from_batches([rows for rows, _ in parts])
            batch = KeyedBatch(self._plan, side, one_batch(table), _arrival(sequence))
            return self.add(batch, StreamWindow(self._plan, side), other, made)

        return self.merged(side, runs, add)

    def schema(self, stream: Side) -> pa.Schema:
        """Return the schema of a side."""
        return self._plan.schemas[stream]

    def made(self, stream: Side, run: Run, content: Content) -> Segment:
        """Return the segment of a run."""
        arrival = _arrival(content.numbers.get(SEQUENCE))
        if content.indexes:
            return segment_of(content.indexes[WHOLE], content.rows, arrival, run)
        batch = KeyedBatch(self._plan, stream, content.rows, arrival)
        return StreamWindow(self._plan, stream).append(batch, None)

    def nbytes(self, piece: Segment, *, is_mapped: bool) -> int:
        """Return the bytes of memory that a segment takes."""
        return piece.index.nbytes if is_mapped else piece.nbytes


def segment_of(index: Index, rows: pa.RecordBatch, arrival: Arrival | None, run: Run) -> Segment:
    """Return a segment of rows whose sorted keys are known."""
    segment = Segment(index.choice, create(index.choice, run.rows, None), run.rows, ChunkedRows(run.rows))
    segment.store(index.entries, rows, arrival, Extent(run.low, run.high))
    return segment


def _arrival(sequence: Int64s | None) -> Arrival | None:
    return None if sequence is None else Arrival(sequence, sequence)
