"""What happens to rows before they are joined: checks, lateness, order of arrival, time slices.

The intake knows the streams' progress (largest timestamps, row counts) and nothing of windows. ``accept`` changes
nothing; its result carries the new progress, which takes effect only when the caller commits it. So a refused push
leaves no trace.

Watermark. It is the smaller of both streams' largest timestamps, less the lateness, as of the *previous* push; a stream
that has not delivered anything holds it back. A row behind it is late. Rows may be expired once the watermark *after*
the push has passed them by the window's length.

Time slices. A push that spans much more time than the window is cut into slices, joined in the order of time. Between
slices rows expire, so however long a push is, the windows stay small, and a probe sees few rows outside its reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.columns.keys import axis_keys, axis_valid
from watersmeet.spec.errors import LateRowError, SchemaError, explain_refusal
from watersmeet.spec.expression import Side
from watersmeet.spec.window import TimeWindow
from watersmeet.window.admission import drop_filtered, drop_nulls, keep_rows
from watersmeet.window.arrival import number_arrivals
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.plan import OTHER_SIDE, JoinPlan

__all__ = ["Accepted", "Intake", "Progress", "Slice"]

Int64s = npt.NDArray[np.int64]

ROWS_PER_SLICE: Final = 1 << 17


@dataclass(frozen=True)
class Progress:
    """How far the streams have come, and what was left out on the way."""

    largest_time: dict[Side, int | None] = field(default_factory=lambda: dict.fromkeys(OTHER_SIDE))
    watermark: int | None = None
    rows: dict[Side, int] = field(default_factory=lambda: dict.fromkeys(OTHER_SIDE, 0))
    late: dict[Side, int] = field(default_factory=lambda: dict.fromkeys(OTHER_SIDE, 0))
    null: dict[Side, int] = field(default_factory=lambda: dict.fromkeys(OTHER_SIDE, 0))


@dataclass(frozen=True)
class Slice:
    """Rows that are joined together, and what expires afterwards (``None``: nothing)."""

    left: KeyedBatch
    right: KeyedBatch
    expire_before: dict[Side, int | None]


@dataclass(frozen=True)
class Accepted:
    """A push that passed all checks: its slices in order, and the progress it makes."""

    slices: Iterator[Slice]
    progress: Progress


class Intake:
    """Accepts pushes."""

    def __init__(self, plan: JoinPlan, *, fail_on_late: bool) -> None:
        self.plan = plan
        self.fail_on_late = fail_on_late
        self.progress = Progress()

    def accept(self, left: pa.Table | None, right: pa.Table | None) -> Accepted:
        """Check a push and prepare it; raise before anything has changed if it cannot be joined."""
        rows = {side: self._contiguous(side, table) for side, table in (("left", left), ("right", right))}
        progress = replace(
            self.progress, rows={side: n + rows[side].num_rows for side, n in self.progress.rows.items()}
        )
        if self.plan.time is None:
            return self._accept_counted(rows, progress)
        return self._accept_timed(rows, progress)

    # --- count windows ----------------------------------------------------------------------------------------------

    def _accept_counted(self, rows: dict[Side, pa.RecordBatch], progress: Progress) -> Accepted:
        arrivals = number_arrivals(self.plan, rows, self.progress.rows)
        batches, nulls = {}, dict(progress.null)
        for side, batch in rows.items():
            keep = np.ones(batch.num_rows, bool)
            nulls[side] += drop_nulls(self.plan, side, batch, keep)
            drop_filtered(self.plan, side, batch, keep)
            arrival = Arrival(arrivals[side].sequence[keep], arrivals[side].seen[keep])
            batches[side] = KeyedBatch(self.plan, side, keep_rows(batch, keep), arrival)
        before: dict[Side, int | None] = {side: progress.rows[side] - self.plan.length(side) for side in rows}
        return Accepted(iter([Slice(batches["left"], batches["right"], before)]), replace(progress, null=nulls))

    # --- time windows -----------------------------------------------------------------------------------------------

    def _accept_timed(self, rows: dict[Side, pa.RecordBatch], progress: Progress) -> Accepted:
        assert self.plan.time is not None
        axis = self.plan.axes[self.plan.time]
        kept, times = {}, {}
        largest, late, nulls = dict(progress.largest_time), dict(progress.late), dict(progress.null)
        for side, batch in rows.items():
            time = axis_keys(axis, side, batch, self.plan.schemas)
            keep = np.ones(batch.num_rows, bool)
            valid = axis_valid(axis, side, batch, self.plan.schemas)
            if valid is not None:
                keep &= valid
            if keep.any():
                newest = int(time.max() if valid is None else time[keep].max())
                before = largest[side]
                largest[side] = newest if before is None else max(newest, before)
            if self.progress.watermark is not None and len(time) and int(time.min()) < self.progress.watermark:
                behind = keep & (time < self.progress.watermark)
                late_now = int(np.count_nonzero(behind))
                if late_now and self.fail_on_late:
                    raise self._late_error(side, late_now)
                late[side] += late_now
                keep &= ~behind
            nulls[side] += int(0 if valid is None else np.count_nonzero(~valid))
            nulls[side] += drop_nulls(self.plan, side, batch, keep)
            drop_filtered(self.plan, side, batch, keep)
            kept[side] = keep_rows(batch, keep)
            times[side] = time if kept[side] is batch else time[keep]
        watermark = self._watermark(largest)
        after = replace(progress, largest_time=largest, watermark=watermark, late=late, null=nulls)
        return Accepted(self._slices(kept, times, watermark), after)

    def _watermark(self, largest: dict[Side, int | None]) -> int | None:
        """Return the watermark for the next push; it never goes back."""
        window = self.plan.window
        assert isinstance(window, TimeWindow)
        seen = [time for time in largest.values() if time is not None]
        if len(seen) < len(largest):
            return self.progress.watermark
        reached = min(seen) - self.plan.time_units(window.lateness)
        return reached if self.progress.watermark is None else max(reached, self.progress.watermark)

    def _slices(
        self, rows: dict[Side, pa.RecordBatch], times: dict[Side, Int64s], watermark: int | None
    ) -> Iterator[Slice]:
        """Yield the push in slices of time; one slice when it is small or spans little more than the window."""
        borders = self._borders(times)
        if len(borders):
            rows, times = _in_time_order(rows, times)
        cuts = {side: [0, *np.searchsorted(time, borders, "left").tolist(), len(time)] for side, time in times.items()}
        for number in range(len(borders) + 1):
            parts = {
                side: batch.slice(cuts[side][number], cuts[side][number + 1] - cuts[side][number])
                for side, batch in rows.items()
            }
            # Rows to come in this push lie at or after the next border, those of later pushes after the watermark.
            bound = watermark
            if watermark is not None and number < len(borders):
                bound = min(watermark, int(borders[number]))
            yield Slice(
                KeyedBatch(self.plan, "left", parts["left"]),
                KeyedBatch(self.plan, "right", parts["right"]),
                {side: None if bound is None else bound - self.plan.length(side) for side in rows},
            )

    def _borders(self, times: dict[Side, Int64s]) -> Int64s:
        """Return the times at which a push is cut: slices of many rows that are not shorter than the window."""
        if sum(map(len, times.values())) < 2 * ROWS_PER_SLICE:
            return np.empty(0, np.int64)
        together = np.concatenate([times["left"], times["right"]])
        reach = max(1, self.plan.length("left") + self.plan.length("right"))
        windows = (int(together.max()) - int(together.min())) // reach
        count = min(len(together) // ROWS_PER_SLICE, windows)
        if count <= 1:
            return np.empty(0, np.int64)
        ranks = np.arange(1, count) * (len(together) // count)
        return np.unique(np.partition(together, ranks)[ranks])

    def _late_error(self, side: Side, count: int) -> LateRowError:
        return LateRowError(
            explain_refusal(
                f'{count} row(s) of the {side} stream are behind the watermark, and late="error"',
                f"rows at or after the watermark ({self.progress.watermark}, in the units of the timestamps)",
                'give the window a longer lateness, or late="drop" to leave such rows out and count them',
            )
        )

    # --- both -------------------------------------------------------------------------------------------------------

    def _contiguous(self, side: Side, table: pa.Table | None) -> pa.RecordBatch:
        """Return a push's rows of one side as one record batch, after checking their schema."""
        schema = self.plan.schemas[side]
        if table is None:
            return pa.RecordBatch.from_pylist([], schema=schema)
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        if not isinstance(table, pa.Table):
            raise SchemaError(
                explain_refusal(
                    f"{side}={type(table).__name__} was pushed",
                    "a pyarrow.Table or RecordBatch, or None",
                    "convert it, for example with pyarrow.table(…)",
                )
            )
        if not table.schema.equals(schema, check_metadata=False):
            raise SchemaError(
                explain_refusal(
                    f"the {side} table has columns {_columns(table.schema)}",
                    f"the schema the join was built with: {_columns(schema)}",
                    "select and cast the columns to that schema before the push, or build a new join",
                )
            )
        if table.num_rows == 0:
            return pa.RecordBatch.from_pylist([], schema=schema)
        batches = table.unify_dictionaries().combine_chunks().to_batches()
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _in_time_order(
    rows: dict[Side, pa.RecordBatch], times: dict[Side, Int64s]
) -> tuple[dict[Side, pa.RecordBatch], dict[Side, Int64s]]:
    """Sort each side by time, unless it is sorted already."""
    rows, times = dict(rows), dict(times)
    for side, time in times.items():
        if np.any(time[1:] < time[:-1]):
            order = np.argsort(time, kind="stable")
            rows[side], times[side] = rows[side].take(pa.array(order)), time[order]
    return rows, times


def _columns(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{column.name}: {column.type}" for column in schema) + ")"
