"""A topology on a test rig: the papers' benchmark, windows that are full from the start, rows fed to it.

The benchmark is that of handshake join and SplitJoin: ``R(x int, y float, z char[20])`` and ``S(a int, b float,
c double, d bool)``, joined by a band of 10 to either side in both ``x, a`` and ``y, b``, values uniform in 1 to 10,000.
Columns are as a C program has them: ``z`` is 20 bytes long, ``d`` a byte. Windows are filled without joining: a nested
loop would need hours to fill large ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet import count_window, time_window
from watersmeet.columns.gather import Columns
from watersmeet.engine.intake import PairIntake, Slice
from watersmeet.engine.result import result_schema
from watersmeet.engine.row_numbers import Numbering, gathered_schema
from watersmeet.engine.topologies import TOPOLOGIES
from watersmeet.engine.topologies.blocks import blocks_of, share_of
from watersmeet.engine.topologies.contract import Layout, Topology
from watersmeet.spec.expression import StreamName
from watersmeet.spec.options import Structure, TopologyName
from watersmeet.spec.ordering import Order, precision_of
from watersmeet.spec.sql import parse_predicate
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.plan import OTHER_SIDE, plan_join

__all__ = ["NESTED_LOOP_TOPOLOGIES", "ON", "VALUES", "Rig", "Sides", "band_rows", "core_counts", "highest_rate"]

ON: Final = "left.x BETWEEN right.a - 10 AND right.a + 10 AND left.y BETWEEN right.b - 10 AND right.b + 10"
VALUES: Final = 10_000
PIECE: Final = 1 << 22
"""Rows that are made at a time when windows are filled: the largest windows hold gigabytes."""
TEXTS: Final = pa.array([f"{number:020d}".encode() for number in range(1000)], pa.binary(20))
NESTED_LOOP_TOPOLOGIES: Final[tuple[TopologyName, ...]] = (
    "handshake",
    "low_latency_handshake",
    "splitjoin",
    "panjoin",
)
Sides = dict[StreamName, pa.Table]


def band_rows(first: int, count: int, *, seed: int, values: int = VALUES, apart: float = 1.0) -> Sides:
    """Return rows number ``first`` and on of both streams; they come ``apart`` microseconds apart."""
    numbers = np.arange(first, first + count)
    moments = pa.array((numbers * apart).astype(np.int64), pa.timestamp("us"))
    left, right = (np.random.default_rng((seed, side, first)) for side in range(2))
    return {
        "left": pa.table(
            {
                "ts": moments,
                "x": left.integers(1, values + 1, count).astype(np.int32),
                "y": left.uniform(1, values, count).astype(np.float32),
                "z": TEXTS.take(pa.array(numbers % len(TEXTS))),
                "id": numbers,
            }
        ),
        "right": pa.table(
            {
                "ts": moments,
                "a": right.integers(1, values + 1, count).astype(np.int32),
                "b": right.uniform(1, values, count).astype(np.float32),
                "c": right.uniform(size=count),
                "d": right.integers(0, 2, count).astype(np.int8),
                "number": numbers,
            }
        ),
    }


def core_counts(most: int) -> list[int]:
    """Return 1, 2, 4 ... up to the machine's cores."""
    return [cores for cores in (1, 2, 4, 8, 16, 32) if cores <= most]


@dataclass(frozen=True)
class _Observed(Layout):
    """A layout whose tables somebody sees, each in the thread that makes it: panjoin's, when its push is done."""

    observe: Callable[[pa.Table], None] | None = None

    def table(self, probing: StreamName, own: Columns, stored: Columns) -> pa.Table:
        """Return pairs as a table when whoever observes them has seen them."""
        pairs = super().table(probing, own, stored)
        if self.observe is not None:
            self.observe(pairs)
        return pairs


@dataclass
class Rig:
    """A topology with windows of ``window`` rows a side: by count, or by time when rows come ``apart`` microseconds."""

    topology: TopologyName
    window: int
    cores: int
    block_rows: int
    seed: int
    structure: Structure = "scan"
    apart: float | None = None
    order: Order | None = None
    values: int = VALUES
    observe: Callable[[pa.Table], None] | None = None
    build: Callable[[Layout], Topology] | None = None
    """Builds the topology in some other way than by its name."""
    on: str = ON
    rows_of: Callable[[int, int], Sides] | None = None
    """Makes rows number ``first`` and on, ``count`` of them, instead of those of the papers' benchmark."""
    fed: int = field(init=False, default=0)
    """Rows of each stream so far."""

    def __post_init__(self) -> None:
        by_time = time_window(timedelta(microseconds=int(self.window * (self.apart or 1))), ts="ts")
        schemas = {side: table.schema for side, table in self._rows(0).items()}
        window = count_window(self.window) if self.apart is None else by_time
        self.plan = plan_join(schemas["left"], schemas["right"], parse_predicate(self.on), window, self.structure)
        self.intake = PairIntake(self.plan)
        self.numbering = Numbering() if self.order is not None or TOPOLOGIES[self.topology].meets_later else None
        schema = result_schema(schemas["left"], schemas["right"])
        if self.numbering is not None:
            schema = gathered_schema("inner", schemas, schema, ("left", "right"))
        order = None if self.order is None else precision_of(self.order)
        layout = _Observed(self.plan, schema, self.cores, self.block_rows, order, observe=self.observe)
        self.engine = (self.build or TOPOLOGIES[self.topology])(layout)
        self._fill()

    def _rows(self, count: int) -> Sides:
        if self.rows_of is not None:
            return self.rows_of(self.fed, count)
        return band_rows(self.fed, count, seed=self.seed, values=self.values, apart=self.apart or 1.0)

    def _fill(self) -> None:
        while self.fed < self.window:
            rows = self._rows(min(PIECE, self.window - self.fed))
            for side in OTHER_SIDE:
                (piece,) = rows[side].combine_chunks().to_batches()
                self._load(side, piece)
            self.fed += piece.num_rows
        newest = int((self.window - 1) * (self.apart or 1.0))
        self.intake.progress = replace(
            self.intake.progress,
            largest_time=dict.fromkeys(OTHER_SIDE, newest),
            watermark=None if self.apart is None else newest,
            rows=dict.fromkeys(OTHER_SIDE, self.window),
        )
        self.engine.windows("left")  # where rows are placed only when needed

    def _load(self, side: StreamName, piece: pa.RecordBatch) -> None:
        """Store rows that follow those that have been fed."""
        sequence = self.fed + np.arange(piece.num_rows) if self.apart is None else None
        if TOPOLOGIES[self.topology].meets_later:
            assert self.numbering is not None
            self.engine.load(side, *self.numbering.restore(side, (piece, sequence)))
        else:
            self._insert(KeyedBatch(self.plan, side, piece, None if sequence is None else Arrival(sequence, sequence)))

    def _insert(self, piece: KeyedBatch) -> None:
        """Insert rows into the cores' windows in blocks, as they would have come: a whole window would be sorted."""
        if self.numbering is not None:
            rows, _ = self.numbering.restore(piece.side, (piece.rows, None))
            piece = KeyedBatch(self.plan, piece.side, rows, piece.arrival)
        windows = self.engine.windows(piece.side)
        for core, window in enumerate(windows):
            share = share_of(piece, self.fed, core, len(windows))
            for block in blocks_of(share, max(1, self.block_rows // len(windows))):
                window.insert(block, None)

    def feed(self, count: int) -> tuple[float, int]:
        """Feed so many rows of each stream; return the seconds that they took, and the pairs."""
        rows = self._take(count)
        begin = time.perf_counter()
        pairs = 0
        for part in self._parts(rows):
            pairs += sum(table.num_rows for table in self.engine.push(part))
            self.engine.expire(part.expire_before)
        return time.perf_counter() - begin, pairs

    def submit(self, count: int) -> None:
        """Let so many rows of each stream in, and do not wait for their pairs."""
        for part in self._parts(self._take(count)):
            self.engine.submit(part)
            self.engine.expire(part.expire_before)

    def _take(self, count: int) -> Sides:
        rows = self._rows(count)
        self.fed += count
        return rows

    def _parts(self, rows: Sides) -> Iterator[Slice]:
        accepted = self.intake.accept_pair(rows["left"], rows["right"])
        for part in accepted.slices:
            yield part if self.numbering is None else self.numbering.number(part)
        self.intake.progress = accepted.progress

    def rate(self, count: int, repetitions: int) -> float:
        """Return the rows of both streams that can be taken in a second: the median of some repetitions."""
        self.feed(min(count, self.block_rows))  # starts the threads, compiles
        return float(2 * count / np.median([self.feed(count)[0] for _ in range(repetitions)]))

    def close(self) -> None:
        """End its threads."""
        self.engine.close()


def highest_rate(make: Callable[[float], Rig], steps: int, low: float, high: float, seconds: float) -> float:
    """Return the highest rate per stream at which a rig keeps up, by bisection.

    In a time window the rate decides how many rows the window holds, so every step has a rig of its own. It keeps up
    if the rows of ``seconds`` seconds take no longer than that.
    """
    for _ in range(steps):
        middle = (low * high) ** 0.5
        rig = make(middle)
        rig.feed(rig.block_rows)
        count = max(1, int(middle * seconds))
        taken, _ = rig.feed(count)
        rig.close()
        low, high = (middle, high) if taken <= seconds else (low, middle)
    return low
