"""A join on Spark without Spark: the real packers, sequencer, cores and unpacker; only who calls them stands in.

A :class:`Query` cuts a micro-batch's rows into tasks, hands their envelopes to the cores by key and keeps the watermark
as Spark does: the smallest of the streams' largest timestamps less the lateness, in milliseconds, as of the micro-batch
before. State lies in dictionaries. A *checkpoint* is a copy of them; :func:`forget` does what the end of a process does
to all that it remembers.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

from watersmeet.engine.intake import Streams
from watersmeet.engine.multiway.plan import plan_streams
from watersmeet.engine.result import result_schema
from watersmeet.spark import envelope, runs
from watersmeet.spark.core_ids import core_ids
from watersmeet.spark.core_processor import CoreOptions
from watersmeet.spark.envelope import ENVELOPE, arranger, packer
from watersmeet.spark.identity import join_identity
from watersmeet.spark.late_rows import LateRows
from watersmeet.spark.multiway import processor as multiway
from watersmeet.spark.multiway.processor import MultiJoinProcessor, StrategyOptions
from watersmeet.spark.multiway.routing import choose_multi_routing
from watersmeet.spark.output import OUTPUT
from watersmeet.spark.processor import JoinProcessor
from watersmeet.spark.result_files import unpacker
from watersmeet.spark.routing.choose import choose_routing
from watersmeet.spark.routing.contract import Routes
from watersmeet.spark.schema import Columns
from watersmeet.spark.sequencer import Sequencer
from watersmeet.spark.tables import Tables
from watersmeet.spec.kinds import How, preserved
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.streams import read_predicate
from watersmeet.spec.window import windows_of
from watersmeet.window.plan import plan_join

MICROSECONDS = {"s": 10**6, "ms": 10**3, "us": 1}
TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "array<bigint>": pa.list_(pa.int64()),
}
"""Arrow types of the columns that operators hand to Spark, by their names in SQL."""
Cells = dict[Any, dict[tuple[str, Any], tuple[Any, ...]]]
"""Values of the state by grouping key, then by the state's name and, in a map, the map's key."""


@dataclass
class Value:
    """Stands in for Spark's ``ValueState``."""

    handle: Handle
    name: str

    def get(self) -> tuple[Any, ...] | None:
        return self.handle.of_key.get((self.name, None))

    def update(self, value: tuple[Any, ...]) -> None:
        self.handle.of_key[self.name, None] = value


@dataclass
class Map:
    """Stands in for Spark's ``MapState``."""

    handle: Handle
    name: str

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:  # noqa: N802
        return self.handle.of_key.get((self.name, key))

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:  # noqa: N802
        self.handle.of_key[self.name, key] = value

    def removeKey(self, key: tuple[Any, ...]) -> None:  # noqa: N802
        self.handle.of_key.pop((self.name, key), None)


@dataclass
class Handle:
    """Stands in for Spark's ``StatefulProcessorHandle``: state of the key whose turn it is."""

    cells: Cells
    timers: dict[Any, set[int]]
    key: Any = None

    @property
    def of_key(self) -> dict[tuple[str, Any], tuple[Any, ...]]:
        return self.cells.setdefault(self.key, {})

    def getValueState(self, name: str, _: str) -> Value:  # noqa: N802
        return Value(self, name)

    def getMapState(self, name: str, *_: str) -> Map:  # noqa: N802
        return Map(self, name)

    def registerTimer(self, moment: int) -> None:  # noqa: N802
        self.timers.setdefault(self.key, set()).add(moment)


@dataclass
class Checkpoint:
    """What a query goes on from."""

    numbered: Cells = field(default_factory=dict)
    joined: Cells = field(default_factory=dict)
    timers: dict[Any, set[int]] = field(default_factory=dict)
    largest: dict[str, int] = field(default_factory=dict)
    """Each stream's largest timestamp, in microseconds."""
    watermark: int = 0


@dataclass
class Query:
    """A query of one join, from its checkpoint on."""

    streams: Streams
    ts: Mapping[str, str] | None
    """The columns of a time window."""
    lateness: timedelta
    routes: Routes
    ids: tuple[int, ...]
    core: Callable[[], Any]
    """Makes a core's processor, as every task does."""
    result: pa.Schema
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    metrics: list[list[dict[str, Any]]] = field(default_factory=list)
    """One record per core, micro-batch by micro-batch."""
    idle: timedelta | None = None
    behind: int = 0
    """Milliseconds by which the query's watermark lies behind the join's own."""
    keeps_late: bool = False
    waiting_for: str | None = None

    def run(
        self,
        tables: Mapping[str, pa.Table | None],
        cuts: np.random.Generator | None = None,
        order: np.random.Generator | None = None,
    ) -> pa.Table:
        """Run one micro-batch; ``cuts`` cuts it into tasks, whose envelopes come in any ``order``."""
        tasks = [(stream, task) for stream in self.streams.schemas for task in _tasks(tables.get(stream), cuts)]
        if self.ts is None:
            sent = _sent(tasks, lambda stream: arranger(self.streams, stream, self.ids[0]), order)
            numbering = Sequencer(self.streams, self.routes, self.ids)
            sent = _by_key(map(_as_envelopes, self._turns(numbering, self.checkpoint.numbered, sent)), order)
        else:
            sent = _sent(tasks, self._packer, order)
        turns = self._turns(self.core(), self.checkpoint.joined, sent, self.checkpoint.timers)
        frames = list(map(_as_output, turns))
        self.metrics.append([record for frame in frames for record in frame.to_dict("records") if record["core"] >= 0])
        self.waiting_for = next((some for frame in frames for some in frame["waiting_for"] if some is not None), None)
        if self.ts is not None:
            self._advance(tables)
        pairs = [
            pa.record_batch({"blob": _blobs(frame), "file": pa.array(frame["file"], pa.string())}) for frame in frames
        ]
        return pa.Table.from_batches(list(unpacker()(pairs)), self.result)

    def _packer(self, stream: str) -> Any:
        return packer(self.streams, stream, self.routes, self.ids, marks_first=self.keeps_late)

    def _turns(
        self, processor: Any, cells: Cells, sent: Mapping[int, pd.DataFrame], timers: dict[Any, set[int]] | None = None
    ) -> Iterator[pd.DataFrame]:
        """Give every key its turn, then those whose timers the watermark has reached."""
        handle = Handle(cells, {} if timers is None else timers)
        processor.init(handle)
        for key, frame in sent.items():
            handle.key = key
            yield from processor.handleInputRows((key,), iter([frame]), self._timer_values)
        for key, moments in sorted(handle.timers.items()):
            handle.key = key
            for moment in sorted(moment for moment in moments if moment <= self.checkpoint.watermark):
                yield from processor.handleExpiredTimer((key,), self._timer_values, ExpiredTimerInfo(moment))
                moments.discard(moment)
        processor.close()

    @property
    def _timer_values(self) -> TimerValues:
        return TimerValues(-1, -1 if self.ts is None else self.checkpoint.watermark)

    def _advance(self, tables: Mapping[str, pa.Table | None]) -> None:
        """Move the watermark on."""
        assert self.ts is not None
        largest = self.checkpoint.largest
        for stream, table in tables.items():
            if table is not None and table.num_rows > table[self.ts[stream]].null_count:
                moments = table[self.ts[stream]].drop_null()
                reached = int(np.asarray(moments).astype(np.int64).max()) * MICROSECONDS[moments.type.unit]
                largest[stream] = max(reached, largest.get(stream, reached))
        delay = (self.lateness + (self.idle or timedelta(0))) // timedelta(microseconds=1)
        if len(largest) == len(self.streams.schemas) or (self.idle is not None and largest):
            newest = min(largest.values()) if self.idle is None else max(largest.values())
            reached = (newest - delay) // 1000 - self.behind
            self.checkpoint.watermark = max(self.checkpoint.watermark, reached)


def _taken(columns: Columns, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame that PySpark can turn into rows of its operator's schema; raise for one that it cannot."""
    for name, kind in columns.items():
        pa.Array.from_pandas(frame[name], type=TYPES[kind])
    return frame


_as_envelopes, _as_output = partial(_taken, ENVELOPE), partial(_taken, OUTPUT)


def replayed(files: Checkpoint, before: Checkpoint, after: Checkpoint) -> Checkpoint:
    """Return what a restart finds when an executor wrote what changed from ``before`` to ``after`` behind ``files``."""
    found = deepcopy(after)
    for cells, own, behind in (
        (found.joined, before.joined, files.joined),
        (found.numbered, before.numbered, files.numbered),
    ):
        for key, values in cells.items():
            known = own.get(key, {})
            changed = {name: value for name, value in values.items() if known.get(name) != value}
            kept = {name: value for name, value in behind.get(key, {}).items() if name in values or name not in known}
            cells[key] = kept | changed
    return found


def run_in_a_new_process(
    make: Callable[..., Query], checkpoint: Checkpoint, tables: Mapping[str, pa.Table | None]
) -> tuple[pa.Table, Checkpoint]:
    """Run one micro-batch from a checkpoint in a process of its own; return its results and the next checkpoint."""
    with get_context("spawn").Pool(1) as processes:
        return processes.apply(_run_once, (make, checkpoint, tables))


def _run_once(
    make: Callable[..., Query], checkpoint: Checkpoint, tables: Mapping[str, pa.Table | None]
) -> tuple[pa.Table, Checkpoint]:
    query = make(checkpoint=checkpoint)
    return query.run(tables), query.checkpoint


def forget(scratch: Path) -> None:
    """Forget what a process remembers, and remove its cache."""
    runs._remembered.clear()
    multiway._remembered.clear()
    shutil.rmtree(scratch, ignore_errors=True)


def pair_query(
    schemas: Mapping[str, pa.Schema],
    on: str,
    window: Any,
    *,
    routing: str = "auto",
    structure: str = "auto",
    cores: int = 2,
    checkpoint: Checkpoint | None = None,
    tables: Tables | None = None,
    how: How = "inner",
    ends: bool = False,
    behind: int = 0,
    follows: bool = False,
    late: str = "drop",
) -> Query:
    """Return a join of two streams; with ``ends`` a micro-batch is all there is, as with batch DataFrames."""
    plan = plan_join(schemas["left"], schemas["right"], parse_predicate(on), window, structure)  # type: ignore[arg-type]
    spread = choose_routing(routing, plan, cores, how)  # type: ignore[arg-type]

    ids, tables = core_ids(cores, cores), tables or Tables(cores)
    identity = join_identity(plan, spread, ids, cores, how)

    result = result_schema(plan.schemas["left"], plan.schemas["right"], how=how)
    kept_late = LateRows(plan.schemas, result) if late == "keep" else None

    def core() -> JoinProcessor:
        return JoinProcessor(
            plan,
            identity,
            options=CoreOptions(1 << 28, late == "error", behind, follows, kept_late),
            tables=tables,
            result=result,
            how=how,
            ends=ends,
        )

    is_timed = plan.time is not None
    return Query(
        plan,
        {"left": window.left_ts, "right": window.right_ts} if is_timed else None,
        window.lateness if is_timed else timedelta(0),
        Routes(spread, tables, preserved(how)),
        ids,
        core,
        result if kept_late is None else kept_late.schema,
        deepcopy(checkpoint) or Checkpoint(),
        idle=window.idle if is_timed else None,
        behind=behind,
        keeps_late=kept_late is not None,
    )


def multi_query(
    schemas: Mapping[str, pa.Schema],
    on: str,
    window: Any,
    *,
    routing: str = "auto",
    structure: str = "auto",
    strategy: str = "auto",
    cores: int = 2,
    checkpoint: Checkpoint | None = None,
    tables: Tables | None = None,
) -> Query:
    """Return a join of many streams."""
    names = tuple(schemas)
    windows = windows_of(window, names)
    plan = plan_streams(schemas, read_predicate(on, names), windows, structure)  # type: ignore[arg-type]
    spread = choose_multi_routing(routing, plan, cores)  # type: ignore[arg-type]
    options = StrategyOptions(strategy, 1 << 12)  # type: ignore[arg-type]

    ids, tables = core_ids(cores, cores), tables or Tables(cores)
    identity = join_identity(plan, spread, ids, cores)

    def core() -> MultiJoinProcessor:
        return MultiJoinProcessor(
            plan, options, identity, core_options=CoreOptions(1 << 28), tables=tables, centre=spread.centre
        )

    is_timed = plan.lateness is not None
    return Query(
        plan,
        dict(windows.ts) if is_timed else None,  # type: ignore[union-attr]
        windows.lateness if is_timed else timedelta(0),  # type: ignore[union-attr]
        Routes(spread, tables),
        ids,
        core,
        plan.result_schema,
        deepcopy(checkpoint) or Checkpoint(),
    )


def _tasks(table: pa.Table | None, cuts: np.random.Generator | None) -> list[pa.Table]:
    """Cut a stream's rows into up to three tasks, in their order."""
    if table is None:
        return []
    at = [] if cuts is None else np.sort(cuts.integers(0, table.num_rows + 1, int(cuts.integers(0, 3)))).tolist()
    return [table.slice(begin, end - begin) for begin, end in pairwise([0, *at, table.num_rows])]


def _sent(
    tasks: list[tuple[str, pa.Table]], packs: Callable[[str], Any], order: np.random.Generator | None
) -> dict[int, pd.DataFrame]:
    """Return the envelopes of all tasks by key."""
    packed = []
    for number, (stream, rows) in enumerate(tasks):
        with patch.object(envelope, "TaskContext") as context:
            context.get().partitionId.return_value = number
            packed += [batch.to_pandas() for batch in packs(stream)(rows.to_batches())]
    return _by_key(packed, order)


def _by_key(frames: Iterable[pd.DataFrame], order: np.random.Generator | None) -> dict[int, pd.DataFrame]:
    """Put the envelopes of each key together."""
    by_key: dict[int, list[pd.DataFrame]] = defaultdict(list)
    for frame in frames:
        blobs = pd.Series(_blobs(frame).to_pylist(), frame.index, object)  # as Spark hands them over
        for key, some in frame.assign(blob=blobs).groupby("core"):
            by_key[int(key)].append(some)
    together = {key: pd.concat(some) for key, some in sorted(by_key.items())}
    if order is None:
        return together
    return {key: frame.iloc[order.permutation(len(frame))] for key, frame in together.items()}


def _blobs(frame: pd.DataFrame) -> pa.Array:
    return pa.array([None if blob is pd.NA else blob for blob in frame["blob"]], pa.binary())
