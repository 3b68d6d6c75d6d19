"""What a row, a pair and a message cost one core of this machine, measured with the real windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.experiment import seconds_of
from watersmeet.arrays import Int64s
from watersmeet.balance.generation import Generation, first_generation
from watersmeet.engine.result import gather_pairs, result_schema
from watersmeet.spec.options import Structure
from watersmeet.spec.predicates import equal
from watersmeet.spec.window import time_window
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.plan import plan_join
from watersmeet.window.stream_window import StreamWindow

__all__ = ["Costs", "measure_costs"]

MEASURED_ROWS: Final = 1 << 17
REPETITIONS: Final = 9
SCHEMA: Final = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("v", pa.int64())])


@dataclass(frozen=True)
class Costs:
    """Seconds of one core."""

    probe: float
    """Per row that looks for partners, found or not."""
    store: float
    """Per row that is stored."""
    pair: float
    """Per pair found and gathered."""
    comparison: float
    """Per stored row of its group that a row is compared with, where nothing is indexed."""
    message: float
    """Per message, however small: packed by one side and opened by the other."""
    sent: float
    """Per row in a message."""
    extract: float
    """Per row of a core's that is looked through for those of a group."""


@cache
def measure_costs(rows: int = MEASURED_ROWS) -> Costs:
    """Measure the costs with the real windows: extendible hashing, and for comparisons the scan."""
    distinct, absent = np.arange(rows) * 7, np.arange(rows // 4) * 7 + 1
    store = _time(lambda: _window("hash", distinct), rows)
    window, whole = _window("hash", distinct), _window("hash", np.repeat(np.arange(rows // 16), 16))
    probe = _time(lambda: _found(window, absent), len(absent))
    hits = np.arange(rows // 16)
    pair = max(1e-10, (_time(lambda: _found(whole, hits), 1) - probe * len(hits)) / rows)
    few = _window("scan", np.arange(1 << 12) * 2)
    comparison = _time(lambda: _found(few, np.arange(1 << 9) * 8 + 1), 1 << 21)
    message = _time(lambda: [_sent(_batch(np.arange(1))) for _ in range(64)], 64)
    large = _batch(distinct)
    owners = first_generation(1)
    extract = _time(lambda: _extracted(large, owners), rows)
    return Costs(probe, store, pair, comparison, message, _time(lambda: _sent(large), rows), extract)


def _time(work: Callable[[], object], count: int) -> float:
    """Return the seconds of one of ``count`` things; the shortest time is the one that others disturbed least."""
    work()  # compiles
    return min(seconds_of(work) for _ in range(REPETITIONS)) / count


def _batch(keys: Int64s) -> pa.RecordBatch:
    numbers = np.arange(len(keys))
    return pa.record_batch([pa.array(numbers, pa.timestamp("us")), pa.array(keys), pa.array(numbers)], schema=SCHEMA)


def _window(structure: Structure, keys: Int64s) -> StreamWindow:
    plan = plan_join(SCHEMA, SCHEMA, equal("k"), time_window("1 hour", ts="ts"), structure)
    window = StreamWindow(plan, "right")
    window.insert(KeyedBatch(plan, "right", _batch(keys)), None)
    return window


def _found(window: StreamWindow, keys: Int64s) -> int:
    batch = KeyedBatch(window.plan, "left", _batch(keys))
    matches = list(window.probe(batch))
    return gather_pairs(batch, matches, result_schema(SCHEMA, SCHEMA)).num_rows if matches else 0


def _extracted(rows: pa.RecordBatch, generation: Generation) -> pa.RecordBatch:
    """Return the rows of one group."""
    group = generation.group_of(np.asarray(rows.column("k")))
    return rows.take(pa.array(np.flatnonzero(group == 0)))


def _sent(rows: pa.RecordBatch) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return pa.ipc.open_stream(sink.getvalue()).read_all()
