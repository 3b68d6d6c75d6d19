"""Count windows on Spark: one task numbers the rows of all streams, then they are joined in parallel.

A count window is a predicate on numbers: each row's own, and how many rows of every other stream came before it. Only
giving these numbers needs all rows on one core. The sequencer gets every row of a micro-batch, numbers it (micro-batch
after micro-batch, and inside one in the order of :func:`watersmeet.count_window`), and routes it. Its state is a
counter per stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from watersmeet.spark.core_ids import KEEPER
from watersmeet.spark.envelope import ENVELOPE, Envelope, envelopes, joinable, one_batch, open_blob, seal, to_blobs
from watersmeet.spark.gc_freeze import freeze_once
from watersmeet.spark.routing.contract import Routes
from watersmeet.spec.expression import StreamName
from watersmeet.window.admission import keep_rows
from watersmeet.window.arrival import count_arrivals
from watersmeet.window.streams import Streams

__all__ = ["Sequencer"]


class Sequencer(StatefulProcessor):
    """Numbers rows and routes them."""

    def __init__(self, streams: Streams, routes: Routes, core_ids: tuple[int, ...]) -> None:
        self._streams = streams
        self._routes = routes
        self._core_ids = core_ids

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._counts = handle.getValueState("counts", "counts array<bigint>")

    def handleInputRows(  # noqa: N802 -- Spark's name
        self,
        key: Any,  # noqa: ANN401, ARG002
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        """Give the rows of one micro-batch their numbers, and route them."""
        saved = self._counts.get()
        names = list(self._streams.schemas)
        first = dict(zip(names, [0] * len(names) if saved is None else map(int, saved[0]), strict=True))
        arrived, bad_messages = self._in_order(rows)
        sizes = {stream: batch.num_rows for stream, batch in arrived.items()}
        counts = count_arrivals(sizes, self._streams.moments(arrived), first)
        totals = {stream: first[stream] + size for stream, size in sizes.items()}
        router = self._routes.now()
        live = router.table.newest.number, router.table.oldest
        for stream, batch in arrived.items():
            keep, nulls = joinable(self._streams, stream, batch)
            if stream in router.preserved and not keep.all():
                core = self._core_ids[router.lone_core(sum(first.values()))]
                yield _rows(core, stream, (0, 0), (totals, live), to_blobs(keep_rows(batch, ~keep)), lone=True)
            kept = {other: before[keep] for other, before in counts[stream].items()}
            whole = Envelope(keep_rows(batch, keep), None, kept)
            for core, envelope in envelopes(stream, router, whole, first[stream]):
                yield _rows(self._core_ids[core], stream, (0, 0), (totals, live), seal(envelope))  # a core's only ones
            for core in (
                *(self._core_ids[core] for core in router.table.cores),
                KEEPER,
            ):  # each hears of every micro-batch
                lost, bad_messages[stream] = (nulls, bad_messages[stream]), 0
                yield _rows(core, stream, lost, (totals, live), pa.nulls(1, pa.binary()))
                nulls = 0
        self._counts.update((list(totals.values()),))
        freeze_once("number")

    def close(self) -> None:
        """Nothing to close: Spark owns the state."""

    def _in_order(
        self, frames: Iterator[pd.DataFrame]
    ) -> tuple[dict[StreamName, pa.RecordBatch], dict[StreamName, int]]:
        """Return each stream's rows in the order of arrival, and how many bad messages were left out."""
        schemas = self._streams.schemas
        parts: dict[StreamName, list[tuple[int, pa.RecordBatch]]] = {stream: [] for stream in schemas}
        lost = dict.fromkeys(schemas, 0)
        for frame in frames:
            columns = (frame[name] for name in ("stream", "part", "bad_messages", "blob"))
            for stream, part, bad_messages, blob in zip(*columns, strict=True):
                lost[stream] += int(bad_messages)
                if blob is not None:
                    parts[stream].append((part, open_blob(blob, schemas[stream]).rows))
        ordered = {}
        for stream, some in parts.items():
            batches = [rows for _, rows in sorted(some, key=lambda item: item[0])]
            ordered[stream] = one_batch(pa.Table.from_batches(batches, schemas[stream]))
        return ordered, lost


def _rows(
    core: int,
    stream: StreamName,
    lost: tuple[int, int],
    known: tuple[Mapping[StreamName, int], tuple[int, int]],
    blobs: pa.BinaryArray,
    *,
    lone: bool = False,
) -> pd.DataFrame:
    """Return rows of ``ENVELOPE``; ``known`` are the streams' counts and the live generations.

    ``lost`` says how many null rows and bad messages were left out.
    """
    totals, live = known
    counts = [list(totals.values())] * len(blobs)
    values = (
        core,
        stream,
        np.arange(len(blobs)),
        *lost,
        counts,
        *live,
        lone,
        pd.array(blobs, pd.ArrowDtype(pa.binary())),
    )
    return pd.DataFrame(dict(zip(ENVELOPE, values, strict=True)))
