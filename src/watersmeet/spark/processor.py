"""One core of the join: a ``StatefulProcessor`` that gets envelopes and gives pairs to the unpacker.

Order inside a micro-batch. Right rows probe the stored left rows, then are stored; left rows probe the stored right
rows, new ones included, then are stored. With broadcast routing a core stores only some rows, so a pair of two new rows
is found once, where the right row is stored.

Between micro-batches nothing is kept here: the windows are put together from the segments of the manifest's runs (see
:mod:`watersmeet.spark.segments`), which costs little where these are at hand.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from watersmeet.engine.result import gather_pairs, result_schema
from watersmeet.spark.envelope import BYTES_AT_ONCE, Envelope, open_blob, to_blobs
from watersmeet.spark.hand_over import leave_pairs
from watersmeet.spark.run_cache import RunCache
from watersmeet.spark.segments import Found, Segments
from watersmeet.spark.state import Manifest, RunStore, mergeable
from watersmeet.spec.errors import LateRowError, explain_refusal
from watersmeet.spec.expression import Side
from watersmeet.window.admission import keep_rows
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.plan import OTHER_SIDE, JoinPlan
from watersmeet.window.stream_window import Match, StreamWindow

__all__ = ["METRIC_NAMES", "OUTPUT", "JoinProcessor"]

OUTPUT: Final = (
    "blob binary, file string, core int, rows_in bigint, pairs bigint, late_rows bigint, null_rows bigint, "
    "window_rows bigint, state_bytes bigint, runs int, runs_remembered int, runs_mapped int, runs_read int, "
    "busy_seconds double"
)
"""Pairs in files or blobs, and for each core and micro-batch one record of metrics."""
PAIRS_AT_ONCE: Final = 1 << 20
METRIC_NAMES: Final = tuple(column.split()[0] for column in OUTPUT.split(", ")[2:])


@dataclass(slots=True)
class _Arrived:
    """What a micro-batch brought for one side: rows that probe, and those of them that are stored here."""

    probing: KeyedBatch
    storing: KeyedBatch
    counted: int
    """Rows of this side's stream so far, in a count window."""


@dataclass(slots=True)
class _Counts:
    """Rows of a micro-batch: that arrived, that were late, that were left out for a null."""

    rows_in: int = 0
    late_rows: int = 0
    null_rows: int = 0


class JoinProcessor(StatefulProcessor):
    """Joins the envelopes of one core."""

    def __init__(self, plan: JoinPlan, fingerprint: str, *, cache_bytes: int, fail_on_late: bool) -> None:
        self._plan = plan
        self._fingerprint = fingerprint
        self._cache_bytes = cache_bytes
        self._fail_on_late = fail_on_late
        self._schema = result_schema(plan.schemas["left"], plan.schemas["right"])

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._store = RunStore(handle)
        self._segments = Segments(self._plan, self._store, RunCache.of_executor(self._cache_bytes))

    def handleInputRows(  # noqa: N802 -- Spark's name
        self,
        key: Any,  # noqa: ANN401
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Join one micro-batch of this core's envelopes."""
        begin = time.perf_counter()
        manifest = self._store.load(self._fingerprint)
        found = Found()
        windows = self._segments.windows(manifest.runs, found)
        watermark = self._watermark(timerValues)
        arrived, counts = self._arrived(rows, watermark)
        pairs = 0
        for side in ("right", "left"):
            own, other = windows[side], windows[OTHER_SIDE[side]]
            batch = arrived[side]
            for matches in _portions(other.probe(batch.probing)):
                some = gather_pairs(batch.probing, matches, self._schema)
                pairs += some.num_rows
                step = max(1, some.num_rows * BYTES_AT_ONCE // max(1, some.nbytes))
                for first in range(0, some.num_rows, step):
                    yield _pairs(some.slice(first, step))
            if len(batch.storing):
                manifest.runs[side].append(self._segments.add(batch.storing, own, other))
        for side in OTHER_SIDE:
            self._tidy(manifest, side, windows, watermark if self._plan.time is not None else arrived[side].counted)
        self._segments.check()
        self._store.save(manifest)
        runs = [run for side in OTHER_SIDE for run in manifest.runs[side]]
        yield _output(
            pa.nulls(1, pa.binary()),
            core=int(key[0]),
            pairs=pairs,
            window_rows=sum(run.rows for run in runs),
            state_bytes=sum(run.nbytes for run in runs),
            runs=len(runs),
            runs_remembered=found.remembered,
            runs_mapped=found.mapped,
            runs_read=found.read,
            busy_seconds=time.perf_counter() - begin,
            rows_in=counts.rows_in,
            late_rows=counts.late_rows,
            null_rows=counts.null_rows,
        )

    def close(self) -> None:
        """Nothing to close: Spark owns the state."""

    def _watermark(self, timers: TimerValues) -> int | None:
        """Return the query's watermark in units of the time axis; None while there is none."""
        if self._plan.time is None:
            return None
        milliseconds = timers.getCurrentWatermarkInMs()
        return milliseconds * 10 ** (self._plan.axes[self._plan.time].domain.scale - 3) if milliseconds > 0 else None

    def _tidy(self, manifest: Manifest, side: Side, windows: dict[Side, StreamWindow], reached: int | None) -> None:
        """Remove runs that have expired as a whole; merge those that have become many."""
        runs = manifest.runs[side]
        before = min((run.low for run in runs), default=0) if reached is None else reached - self._plan.length(side)
        for run in [run for run in runs if run.high < before]:
            self._segments.remove(run)
            runs.remove(run)
        kept = max((run.high for run in runs), default=before) - before  # a window's length and more: lateness
        while some := mergeable(runs, kept // 2):
            runs[-len(some) :] = [self._segments.merge(side, some, windows[OTHER_SIDE[side]])]

    def _arrived(self, frames: Iterator[pd.DataFrame], watermark: int | None) -> tuple[dict[Side, _Arrived], _Counts]:
        """Open the envelopes; leave out late rows."""
        opened: dict[Side, list[Envelope]] = {side: [] for side in OTHER_SIDE}
        counts = _Counts()
        counted: dict[Side, int] = dict.fromkeys(OTHER_SIDE, 0)
        for frame in frames:
            for row in frame.itertuples(index=False):  # a few envelopes, each of many rows
                counts.null_rows += int(row.null_rows)
                counted = {"left": int(row.left_rows), "right": int(row.right_rows)}
                if row.blob is not None:
                    opened[row.side].append(open_blob(row.blob, self._plan.schemas[row.side]))
        arrived = {}
        for side, some in opened.items():
            whole = _together(some, self._plan.schemas[side])
            counts.rows_in += whole.rows.num_rows
            batch, stored = KeyedBatch(self._plan, side, whole.rows, whole.arrival), whole.stored
            if watermark is not None and len(batch):
                assert self._plan.time is not None
                in_time = batch.key(self._plan.time) >= watermark
                late = len(batch) - int(np.count_nonzero(in_time))
                if late:
                    counts.late_rows += late
                    self._refuse_late(side, late)
                    batch = KeyedBatch(self._plan, side, keep_rows(whole.rows, in_time))
                    stored = None if stored is None else stored[in_time]
            arrived[side] = _Arrived(batch, batch if stored is None else _subset(batch, stored), counted[side])
        return arrived, counts

    def _refuse_late(self, side: Side, count: int) -> None:
        if self._fail_on_late:
            raise LateRowError(
                explain_refusal(
                    f'{count} row(s) of the {side} stream are behind the watermark, and late="error"',
                    "rows at or after the watermark",
                    'allow more lateness (withWatermark, or lateness of the window), or late="drop"',
                )
            )


def _subset(batch: KeyedBatch, keep: npt.NDArray[np.bool_]) -> KeyedBatch:
    arrival = batch.arrival
    some = None if arrival is None else Arrival(arrival.sequence[keep], arrival.seen[keep])
    return KeyedBatch(batch.plan, batch.side, keep_rows(batch.rows, keep), some)


def _together(envelopes: list[Envelope], schema: pa.Schema) -> Envelope:
    """Put the content of several envelopes into one."""
    if len(envelopes) == 1:
        return envelopes[0]
    if not envelopes:
        return Envelope(
            pa.RecordBatch.from_pylist([], schema=schema), None, Arrival(np.empty(0, np.int64), np.empty(0, np.int64))
        )
    flags = [envelope.stored for envelope in envelopes if envelope.stored is not None]
    arrivals = [envelope.arrival for envelope in envelopes if envelope.arrival is not None]
    return Envelope(
        pa.concat_batches([envelope.rows for envelope in envelopes]),
        np.concatenate(flags) if flags else None,
        Arrival(
            np.concatenate([arrival.sequence for arrival in arrivals]),
            np.concatenate([arrival.seen for arrival in arrivals]),
        )
        if arrivals
        else None,
    )


def _portions(matches: Iterator[Match]) -> Iterator[list[Match]]:
    """Yield matches, about ``PAIRS_AT_ONCE`` pairs at a time."""
    waiting: list[Match] = []
    for match in matches:
        waiting.append(match)
        if sum(len(some.who) for some in waiting) >= PAIRS_AT_ONCE:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _pairs(pairs: pa.Table) -> pd.DataFrame:
    """Return rows of ``OUTPUT`` that bring the unpacker some pairs."""
    file = leave_pairs(pairs)
    blobs = to_blobs(pairs) if file is None else pa.nulls(1, pa.binary())
    return _output(blobs, file)


def _output(blobs: pa.BinaryArray, file: str | None = None, **record: float) -> pd.DataFrame:
    """Return rows of ``OUTPUT``: pairs as blobs or in a file, or one record of metrics."""
    values = {"core": -1} | record
    frame = {"blob": pd.array(blobs, pd.ArrowDtype(pa.binary())), "file": file}
    return pd.DataFrame(frame | {name: values.get(name, 0) for name in METRIC_NAMES})
