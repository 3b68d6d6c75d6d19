"""Which rows of a batch can match at all: with a value on every axis that needs one, true to their side's conjuncts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.columns.keys import axis_valid
from watersmeet.columns.values import is_true
from watersmeet.spec.expression import Side
from watersmeet.window.plan import JoinPlan

__all__ = ["drop_filtered", "drop_nulls", "keep_rows"]

Bools = npt.NDArray[np.bool_]


def drop_nulls(plan: JoinPlan, side: Side, rows: pa.RecordBatch, keep: Bools) -> int:
    """Clear ``keep`` for rows without a value on an axis where nulls match nothing; return how many were cleared."""
    before = int(np.count_nonzero(keep))
    for axis in plan.axes:
        if axis.domain.nulls:
            continue
        valid = axis_valid(axis, side, rows, plan.schemas)
        if valid is not None:
            keep &= valid
    return before - int(np.count_nonzero(keep))


def drop_filtered(plan: JoinPlan, side: Side, rows: pa.RecordBatch, keep: Bools) -> None:
    """Clear ``keep`` for rows that fail the conjuncts which speak of their side alone."""
    predicate = plan.filters[side]
    if predicate is not None:
        keep &= is_true(predicate, lambda column: rows.column(column.name), plan.schemas, rows.num_rows)


def keep_rows(rows: pa.RecordBatch, keep: Bools) -> pa.RecordBatch:
    """Return the rows to keep: the batch itself when that is all."""
    return rows if keep.all() else rows.filter(pa.array(keep))
