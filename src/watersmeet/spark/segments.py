"""Runs as segments that can be probed: remembered by this worker, mapped from the node's cache, or read from the state.

A segment of a run is made once, when its rows arrive, and left in the cache with its sorted keys (see
:mod:`watersmeet.spark.run_cache`), so a worker that has never seen it pays for copying its keys, not for sorting. Only
a run that is in neither place is read from the state store and sorted again.

A worker remembers at most ``REMEMBERED_BYTES``, those used last. Everything here is found by a run's unique name;
nothing is ever changed.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.spark.envelope import SEQUENCE, one_batch, to_blob
from watersmeet.spark.narrow import narrow, widen
from watersmeet.spark.run_cache import MappedRun, RunCache
from watersmeet.spark.state import Run, RunKind, RunStore
from watersmeet.spec.errors import SnapshotError, explain_refusal
from watersmeet.spec.expression import Side
from watersmeet.subwindow.choose import Choice, IndexOrder, create
from watersmeet.subwindow.contract import Entries
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.payload import ChunkedRows, Extent
from watersmeet.window.plan import JoinPlan
from watersmeet.window.segment import Segment
from watersmeet.window.stream_window import StreamWindow

__all__ = ["Found", "Segments"]

Int64s = npt.NDArray[np.int64]

REMEMBERED_BYTES: Final = 2 << 30
CHOICE: Final = b"watersmeet choice"
KEY: Final = "\0key"
ROW: Final = "\0row"
GROUP: Final = "\0group"


@dataclass(slots=True)
class Found:
    """Where runs were found, in numbers."""

    remembered: int = 0
    mapped: int = 0
    read: int = 0


@dataclass(frozen=True, slots=True)
class _Remembered:
    segment: Segment
    mapped: MappedRun | None
    """The file it lies in; None for one in this worker's own memory."""
    nbytes: int


_remembered: OrderedDict[str, _Remembered] = OrderedDict()
"""Segments by the names of their runs, the last used at the end. The worker's own: nothing outside refers to it."""


class Segments:
    """Finds, makes and forgets the segments of one core's runs."""

    def __init__(self, plan: JoinPlan, store: RunStore, cache: RunCache | None) -> None:
        self._plan = plan
        self._store = store
        self._cache = cache
        self._used: list[MappedRun] = []

    def windows(self, runs: dict[Side, list[Run]], found: Found) -> dict[Side, StreamWindow]:
        """Return the windows that each side's runs make up."""
        self._used = []
        self._forget_removed({run.name for some in runs.values() for run in some})
        windows = {side: StreamWindow(self._plan, side) for side in runs}
        for side, window in windows.items():
            window.segments.extend(self._segment(side, run, found) for run in runs[side])
        return windows

    def add(self, batch: KeyedBatch, own: StreamWindow, other: StreamWindow, kind: RunKind) -> Run:
        """Store a batch (not empty) as a run, and as a segment of its window."""
        segment = own.append(batch, other)
        content = _Content(batch.rows, None if batch.arrival is None else batch.arrival.sequence)
        run = self._store.write(_to_state(content), len(batch), segment.place, kind)
        _remember(run.name, segment, None)
        if self._cache is not None:
            index = segment.choice, batch.entries(segment.choice.order, 0)
            self._cache.put(run.name, _to_cache(content, index))
        return run

    def merge(self, side: Side, runs: list[Run], other: StreamWindow) -> Run:
        """Put runs together into one of the next level, in their order."""
        parts = [self._segment(side, run, Found()).save() for run in runs]
        sequences = [sequence for _, sequence in parts if sequence is not None]
        sequence = np.concatenate(sequences) if sequences else None
        table = pa.Table.from_batches([rows for rows, _ in parts])
        batch = KeyedBatch(
            self._plan, side, one_batch(table), None if sequence is None else Arrival(sequence, sequence)
        )
        last = runs[-1]
        run = self.add(batch, StreamWindow(self._plan, side), other, RunKind(last.level + 1, last.generation))
        for merged in runs:
            self.remove(merged)
        return run

    def remove(self, run: Run) -> None:
        """Forget a run everywhere."""
        self._store.remove(run)
        _remembered.pop(run.name, None)
        if self._cache is not None:
            self._cache.drop(run.name)

    def check(self) -> None:
        """Raise if a file that was read for this micro-batch has been changed meanwhile: its pairs may be wrong."""
        if not all(mapped.is_intact for mapped in self._used):
            raise SnapshotError(
                explain_refusal(
                    "a file of the cache of runs was changed while it was read",
                    "files that only the join itself writes and removes",
                    "restart the query: it goes on from its checkpoint, without the damaged file",
                )
            )

    def _forget_removed(self, live: set[str]) -> None:
        """Forget runs that other workers have removed: those whose files are gone."""
        if self._cache is None:
            return
        for name in [name for name in _remembered if name not in live and not self._cache.has(name)]:
            del _remembered[name]

    def _segment(self, side: Side, run: Run, found: Found) -> Segment:
        known = _remembered.get(run.name)
        if known is not None and (known.mapped is None or known.mapped.is_intact):
            _remembered.move_to_end(run.name)
            found.remembered += 1
            if known.mapped is not None:
                self._used.append(known.mapped)
            return known.segment
        mapped = None if self._cache is None else self._cache.get(run.name)
        if mapped is not None:
            found.mapped += 1
            self._used.append(mapped)
            segment = self._mapped(run, *_from_cache(mapped.content, self._plan.schemas[side]))
        else:
            found.read += 1
            content = _from_state(self._store.read(run), self._plan.schemas[side])
            arrival = None if content.sequence is None else Arrival(content.sequence, content.sequence)
            window = StreamWindow(self._plan, side)
            segment = window.append(KeyedBatch(self._plan, side, content.rows, arrival), window)
        _remember(run.name, segment, mapped)
        return segment

    def _mapped(self, run: Run, content: _Content, index: _Index) -> Segment:
        """Return a segment of rows whose sorted keys are known."""
        choice, entries = index
        segment = Segment(choice, create(choice, run.rows, None), run.rows, ChunkedRows(run.rows))
        arrival = None if content.sequence is None else Arrival(content.sequence, content.sequence)
        segment.store(entries, content.rows, arrival, Extent(run.low, run.high))
        return segment


@dataclass(frozen=True, slots=True)
class _Content:
    """What is stored of a run: its rows, and in a count window their arrival numbers."""

    rows: pa.RecordBatch
    sequence: Int64s | None


_Index = tuple[Choice, Entries]


def _to_state(content: _Content) -> pa.Buffer:
    """Return a run for the state store: an Arrow IPC stream, arrival numbers as a hidden last column."""
    rows = content.rows
    if content.sequence is not None:
        rows = rows.append_column(SEQUENCE, pa.array(content.sequence))
    return to_blob(narrow(rows))


def _from_state(blob: bytes, schema: pa.Schema) -> _Content:
    rows = pa.ipc.open_stream(pa.py_buffer(blob)).read_next_batch()
    if len(rows.schema) == len(schema):
        return _Content(widen(rows, schema), None)
    rows = widen(rows, schema.append(pa.field(SEQUENCE, pa.int64())))
    return _Content(_first_columns(rows, schema), rows.column(len(schema)).to_numpy())


def _to_cache(content: _Content, index: _Index) -> pa.Buffer:
    """Return a run for the cache: nothing is narrowed, sorted keys are hidden columns too, the order is metadata."""
    choice, entries = index
    hidden = {SEQUENCE: content.sequence, KEY: entries.key, ROW: entries.row, GROUP: entries.group}
    rows = content.rows.replace_schema_metadata({CHOICE: json.dumps(asdict(choice))})
    for name, values in hidden.items():
        if values is not None:
            rows = rows.append_column(name, pa.array(values))
    return to_blob(rows)


def _from_cache(blob: pa.Buffer, schema: pa.Schema) -> tuple[_Content, _Index]:
    """Return what :func:`_to_cache` was given, without copying it."""
    rows = pa.ipc.open_stream(blob).read_next_batch()
    hidden = {name: rows.column(name).to_numpy() for name in rows.schema.names[len(schema) :]}
    saved = json.loads(rows.schema.metadata[CHOICE])
    order = IndexOrder(tuple(saved["order"]["group"]), saved["order"]["key"])
    index = Choice(saved["structure"], order, saved["reason"]), Entries(hidden[KEY], hidden[ROW], hidden.get(GROUP))
    return _Content(_first_columns(rows, schema), hidden.get(SEQUENCE)), index


def _first_columns(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(rows.columns[: len(schema)], schema=schema)


def _remember(name: str, segment: Segment, mapped: MappedRun | None) -> None:
    nbytes = segment.index.nbytes if mapped is not None else segment.nbytes
    _remembered[name] = _Remembered(segment, mapped, nbytes)
    while len(_remembered) > 1 and sum(known.nbytes for known in _remembered.values()) > REMEMBERED_BYTES:
        _remembered.popitem(last=False)
