"""Count windows on Spark: one task numbers the rows of both streams, then they are joined in parallel.

A pair's count window is a pure predicate on four numbers: each row's own number and how many rows of the other stream
came before it. Only giving these numbers needs all rows in one place. The sequencer gets every row of a micro-batch,
numbers them (micro-batch after micro-batch; inside one as :func:`watersmeet.count_window` says), routes them and lets
them go: its state is two counters.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from watersmeet.spark.cores import KEEPER
from watersmeet.spark.envelope import ENVELOPE_NAMES, Envelope, envelopes, open_blob, seal
from watersmeet.spark.routing import Routing
from watersmeet.spark.tables import current_table
from watersmeet.spec.expression import Side
from watersmeet.window.admission import drop_filtered, drop_nulls, keep_rows
from watersmeet.window.arrival import number_arrivals
from watersmeet.window.batch import Arrival
from watersmeet.window.plan import OTHER_SIDE, JoinPlan

__all__ = ["Sequencer"]


class Sequencer(StatefulProcessor):
    """Numbers rows and routes them."""

    def __init__(self, plan: JoinPlan, routing: Routing, core_ids: tuple[int, ...]) -> None:
        self._plan = plan
        self._routing = routing
        self._core_ids = core_ids

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._counts = handle.getValueState("counts", "left bigint, right bigint")

    def handleInputRows(  # noqa: N802 -- Spark's name
        self,
        key: Any,  # noqa: ANN401, ARG002
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        """Give the rows of one micro-batch their numbers."""
        saved = self._counts.get()
        first = dict(zip(OTHER_SIDE, saved or (0, 0), strict=True))
        arrived = self._in_order(rows)
        arrivals = number_arrivals(self._plan, arrived, first)
        counts = {side: first[side] + batch.num_rows for side, batch in arrived.items()}
        table = current_table(self._routing)
        live = table.newest.number, table.oldest
        for side, batch in arrived.items():
            keep = np.ones(batch.num_rows, bool)
            nulls = drop_nulls(self._plan, side, batch, keep)
            drop_filtered(self._plan, side, batch, keep)
            arrival = Arrival(arrivals[side].sequence[keep], arrivals[side].seen[keep])
            whole = Envelope(keep_rows(batch, keep), None, arrival)
            for core, envelope in envelopes(self._plan, side, self._routing, whole, first[side], table=table):
                yield _rows(self._core_ids[core], side, 0, (counts, live), seal(envelope))
            for core in (*self._core_ids, KEEPER):  # every core hears of every micro-batch
                yield _rows(core, side, nulls, (counts, live), pa.nulls(1, pa.binary()))
                nulls = 0
        self._counts.update((counts["left"], counts["right"]))

    def close(self) -> None:
        """Nothing to close: Spark owns the state."""

    def _in_order(self, frames: Iterator[pd.DataFrame]) -> dict[Side, pa.RecordBatch]:
        """Return each side's rows in the order they came."""
        parts: dict[Side, list[tuple[int, pa.RecordBatch]]] = {side: [] for side in OTHER_SIDE}
        for frame in frames:
            for side, part, blob in zip(frame["side"], frame["part"], frame["blob"], strict=True):
                parts[side].append((part, open_blob(blob, self._plan.schemas[side]).rows))
        ordered = {}
        for side, some in parts.items():
            batches = [rows for _, rows in sorted(some, key=lambda item: item[0])]
            empty = pa.RecordBatch.from_pylist([], schema=self._plan.schemas[side])
            ordered[side] = pa.concat_batches(batches) if batches else empty
        return ordered


def _rows(
    core: int, side: Side, nulls: int, known: tuple[dict[Side, int], tuple[int, int]], blobs: pa.BinaryArray
) -> pd.DataFrame:
    """Return rows of ``ENVELOPE``; ``known`` are the streams' counts and the live generations."""
    counts, live = known
    blob = pd.array(blobs, pd.ArrowDtype(pa.binary()))
    values = (core, side, 0, nulls, counts["left"], counts["right"], *live, blob)
    return pd.DataFrame(dict(zip(ENVELOPE_NAMES, values, strict=True)))
