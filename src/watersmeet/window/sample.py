"""Samples of streams, and how selective an axis is on them."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.columns.keys import axis_keys, key_ranges
from watersmeet.spec.expression import Side
from watersmeet.spec.normal import Axis
from watersmeet.spec.typing import Schemas
from watersmeet.window.plan import OTHER_SIDE

__all__ = ["key_fractions", "sample_rows"]

SAMPLE: Final = 512


def sample_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return at most ``SAMPLE`` rows, evenly spread."""
    if rows.num_rows <= SAMPLE:
        return rows
    return rows.take(pa.array(np.linspace(0, rows.num_rows - 1, SAMPLE).astype(np.int64)))


def key_fractions(
    axis: Axis, side: Side, own: pa.RecordBatch, opposite: pa.RecordBatch | None, schemas: Schemas
) -> float:
    """Return the fraction of sampled pairs that lie in the axis' ranges.

    While nothing is known of the opposite stream its keys are taken to be distributed like the own ones.
    """
    stored = np.sort(axis_keys(axis, side, own, schemas))
    probing = stored if opposite is None else np.sort(axis_keys(axis, OTHER_SIDE[side], opposite, schemas))
    found = 0
    for wanted in key_ranges(axis, OTHER_SIDE[side], probing):
        first, last = np.searchsorted(stored, wanted.lo, "left"), np.searchsorted(stored, wanted.hi, "right")
        found += int(np.maximum(last - first, 0).sum())
    if opposite is None and axis.is_equality:
        found -= len(stored)  # a row's equality with itself says nothing
    pairs = max(1, len(stored) * len(probing))
    return (found + 0.5) / (pairs + 1)
