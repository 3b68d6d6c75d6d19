"""One core of the join: a ``StatefulProcessor`` that gets envelopes and gives pairs to the unpacker.

Order inside a micro-batch. Right rows probe the stored left rows, then are stored; left rows probe the stored right
rows, new ones included, then are stored. With broadcast routing a core stores only some rows, so a pair of two new rows
is found once, where the right row is stored. While the routing table changes, a left row may be here for the sake of
some generations' right rows only (see :mod:`watersmeet.balance.placement`).

Between micro-batches nothing is kept here: the windows are put together from the segments of the manifest's runs (see
:mod:`watersmeet.spark.segments`), which costs little where these are at hand.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from watersmeet.balance.loads import GroupCounter
from watersmeet.engine.result import gather_pairs, result_schema
from watersmeet.spark.envelope import BYTES_AT_ONCE, Envelope, open_blob, to_blobs
from watersmeet.spark.hand_over import leave_pairs
from watersmeet.spark.run_cache import RunCache
from watersmeet.spark.segments import Found, Segments
from watersmeet.spark.state import Manifest, Run, RunKind, RunStore, mergeable
from watersmeet.spec.errors import LateRowError, SnapshotError, explain_refusal
from watersmeet.spec.expression import Side
from watersmeet.window.admission import keep_rows
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.plan import OTHER_SIDE, JoinPlan
from watersmeet.window.stream_window import Match, StreamWindow

__all__ = ["METRIC_NAMES", "OUTPUT", "JoinProcessor"]

OUTPUT: Final = (
    "blob binary, file string, core int, rows_in bigint, pairs bigint, late_rows bigint, null_rows bigint, "
    "window_rows bigint, state_bytes bigint, runs int, runs_remembered int, runs_mapped int, runs_read int, "
    "busy_seconds double, work_seconds double, generation bigint, oldest bigint, groups string"
)
"""Pairs in files or blobs, and for each core and micro-batch one record of metrics."""
Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Column = TypeVar("Column", Bools, Int32s, Int64s)

PAIRS_AT_ONCE: Final = 1 << 20
METRIC_NAMES: Final = tuple(column.split()[0] for column in OUTPUT.split(", ")[2:])


@dataclass(slots=True)
class _Arrived:
    """What a micro-batch brought for one side: rows that probe, and those of them that are stored here."""

    probing: KeyedBatch
    storing: KeyedBatch
    counted: int
    """Rows of this side's stream so far, in a count window."""
    stored: Bools | None
    """Which of the probing rows are stored here (None: all)."""
    probed: Int64s | None
    """The generations that each row looks into, as bits (None: all)."""
    group: Int32s | None
    """The group that each row counts for, where groups are counted."""


@dataclass(slots=True)
class _Counts:
    """Rows of a micro-batch: that arrived, that were late, that were left out for a null."""

    rows_in: int = 0
    late_rows: int = 0
    null_rows: int = 0
    live: set[tuple[int, int]] = field(default_factory=set)
    """The newest and the oldest live generation, as every routing task knew them."""
    groups: GroupCounter = field(default_factory=GroupCounter)


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
        newest, oldest = _agreed(counts.live, manifest)
        ready = time.perf_counter()
        pairs = 0
        for side in ("right", "left"):
            own, other = windows[side], windows[OTHER_SIDE[side]]
            batch = arrived[side]
            for probing, group, window in _probes(batch, other, manifest.runs[OTHER_SIDE[side]], oldest):
                for matches in _portions(window.probe(probing)):
                    some = gather_pairs(probing, matches, self._schema)
                    pairs += some.num_rows
                    if group is not None:
                        for match in matches:
                            counts.groups.add("pairs", group[match.who])
                    step = max(1, some.num_rows * BYTES_AT_ONCE // max(1, some.nbytes))
                    for first in range(0, some.num_rows, step):
                        yield _pairs(some.slice(first, step))
            if len(batch.storing):
                manifest.runs[side].append(self._segments.add(batch.storing, own, other, RunKind(0, newest)))
            if batch.group is not None:
                counts.groups.add(side, batch.group if batch.stored is None else batch.group[batch.stored])
        done = time.perf_counter()
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
            work_seconds=done - ready,
            generation=newest,
            oldest=min((run.generation for run in runs), default=newest),
            groups=counts.groups.report(),
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
                counts.live.add((int(row.generation), int(row.oldest)))
                if row.blob is not None:
                    opened[row.side].append(open_blob(row.blob, self._plan.schemas[row.side]))
        arrived = {}
        for side, some in opened.items():
            whole = _together(some, self._plan.schemas[side])
            counts.rows_in += whole.rows.num_rows
            batch = KeyedBatch(self._plan, side, whole.rows, whole.arrival)
            stored, probed, group = whole.stored, whole.probed, whole.group
            if watermark is not None and len(batch):
                assert self._plan.time is not None
                in_time = batch.key(self._plan.time) >= watermark
                late = len(batch) - int(np.count_nonzero(in_time))
                if late:
                    counts.late_rows += late
                    self._refuse_late(side, late)
                    batch = KeyedBatch(self._plan, side, keep_rows(whole.rows, in_time))
                    stored = None if stored is None else stored[in_time]
                    probed = None if probed is None else probed[in_time]
                    group = None if group is None else group[in_time]
            storing = batch if stored is None else _subset(batch, stored)
            arrived[side] = _Arrived(batch, storing, counted[side], stored, probed, group)
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
    sizes = [envelope.rows.num_rows for envelope in envelopes]
    arrivals = [envelope.arrival for envelope in envelopes if envelope.arrival is not None]
    return Envelope(
        pa.concat_batches([envelope.rows for envelope in envelopes]),
        _filled([envelope.stored for envelope in envelopes], sizes, 1),
        Arrival(
            np.concatenate([arrival.sequence for arrival in arrivals]),
            np.concatenate([arrival.seen for arrival in arrivals]),
        )
        if arrivals
        else None,
        _filled([envelope.probed for envelope in envelopes], sizes, -1),
        _filled([envelope.group for envelope in envelopes], sizes, 0),
    )


def _filled(columns: list[Column | None], sizes: list[int], default: int) -> Column | None:
    """Put columns together; one that is missing has the default in all its rows, all of them missing are None."""
    some = next((column for column in columns if column is not None), None)
    if some is None:
        return None
    filled = [
        np.full(size, default, some.dtype) if column is None else column
        for column, size in zip(columns, sizes, strict=True)
    ]
    return cast("Column", np.concatenate(filled))


def _agreed(live: set[tuple[int, int]], manifest: Manifest) -> tuple[int, int]:
    """Return the newest and the oldest live generation; raise if routing tasks or stored rows know others."""
    newest, oldest = next(iter(live))
    stored = [run.generation for runs in manifest.runs.values() for run in runs]
    if len(live) > 1 or not oldest <= min(stored, default=oldest) <= max(stored, default=newest) <= newest:
        raise SnapshotError(
            explain_refusal(
                f"rows were routed by generations {sorted(live)} (newest, oldest), stored by {sorted(set(stored))}",
                "one routing table for all tasks of a micro-batch, which knows where all stored rows lie",
                "restart the query with the folder of routing tables as it was",
            )
        )
    return newest, oldest


def _probes(
    batch: _Arrived, other: StreamWindow, runs: list[Run], oldest: int
) -> Iterator[tuple[KeyedBatch, Int32s | None, StreamWindow]]:
    """Yield rows and what they probe: the whole window, or one generation of it after the other where rows differ."""
    if batch.probed is None:
        yield batch.probing, batch.group, other
        return
    segments = list(other.segments)
    for generation in sorted({run.generation for run in runs}):
        keep = (batch.probed >> (generation - oldest) & 1).astype(bool)
        window = StreamWindow(other.plan, other.side)
        window.segments.extend(
            segment for segment, run in zip(segments, runs, strict=True) if run.generation == generation
        )
        yield _subset(batch.probing, keep), None if batch.group is None else batch.group[keep], window


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


def _output(blobs: pa.BinaryArray, file: str | None = None, **record: float | str) -> pd.DataFrame:
    """Return rows of ``OUTPUT``: pairs as blobs or in a file, or one record of metrics."""
    values = {"core": -1, "groups": None} | record
    frame = {"blob": pd.array(blobs, pd.ArrowDtype(pa.binary())), "file": file}
    return pd.DataFrame(frame | {name: values.get(name, 0) for name in METRIC_NAMES})
