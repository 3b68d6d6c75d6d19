"""Buckets of an axis: which ones the values lie in that a row is looked for by."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Float64s, Int64s
from watersmeet.balance.placement import Span
from watersmeet.columns.keys import axis_keys, axis_values
from watersmeet.columns.vectors import to_float
from watersmeet.kernels.keys import shift_ranges, shift_stretch
from watersmeet.kernels.team import ALONE
from watersmeet.spec.expression import StreamName
from watersmeet.spec.normal import Axis
from watersmeet.spec.typing import Schemas

__all__ = ["HERE", "Reach", "find_buckets", "is_bucketable", "reach_of"]

Reach = tuple[Fraction, Fraction]
"""The lowest and the highest difference of two values that meet."""

HERE: Final[Reach] = (Fraction(0), Fraction(0))
ROUNDINGS: Final = 64
"""Units in the last place by which rounding in a chain of eight bands moves a value at most."""
FARTHEST: Final = 2.0**44
LARGEST_EDGE: Final = 1e300


def is_bucketable(axis: Axis) -> bool:
    """Tell whether an axis bounds the difference of numbers from below and above."""
    return (
        (axis.domain.is_integer or axis.domain.kind == "double_offset")
        and not axis.domain.nulls
        and axis.differences.is_band
        and bool(axis.differences.parts)
    )


def reach_of(axis: Axis) -> Reach:
    """Return the lowest and the highest difference ``left - right`` that a band allows."""
    lows, highs = zip(*axis.differences.parts, strict=True)
    return min(lows), max(highs)


def find_buckets(
    axis: Axis, side: StreamName, schemas: Schemas, rows: pa.RecordBatch, reach: Reach
) -> Callable[[Fraction], Span]:
    """Return what finds, for any width of buckets, the first and the last one that a row is looked for by.

    A row is looked for by the values whose difference from its own lies in ``reach``. Without any reach that is its own
    value, so there is one bucket. The rows' values are computed here, once for all widths.
    """
    if axis.domain.is_integer:
        key = axis_keys(axis, side, rows, schemas)
        return lambda width: _of_integers(key, reach, width)
    values = np.broadcast_to(to_float(axis_values(axis, side, rows, schemas)), (rows.num_rows,))
    return lambda width: _of_floats(values, reach, width)


def _of_integers(key: Int64s, reach: Reach, width: Fraction) -> Span:
    step = max(1, int(width))
    if reach == HERE:
        bucket = key // step
        return bucket, bucket
    low, high, _ = shift_ranges(ALONE, shift_stretch(), key, int(reach[0]), True, int(reach[1]), True)  # noqa: FBT003
    return low // step, high // step


def _of_floats(values: Float64s, reach: Reach, width: Fraction) -> Span:
    size = max(float(width), float(np.finfo(float).tiny))
    # Values that share the last bucket anyway are moved towards zero, so that no later step overflows.
    edge = min(2 * FARTHEST * size, LARGEST_EDGE)
    values = np.clip(np.where(np.isnan(values), np.inf, values), -edge, edge)
    if reach == HERE:
        bucket = _bucket_number(values, size)
        return bucket, bucket
    # Both ends are moved outwards by more than any rounding: a bucket too many costs a copy, one too few loses a pair.
    low, high = map(float, reach)
    slack = ROUNDINGS * np.spacing(np.maximum(np.abs(values), max(abs(low), abs(high))))
    return _bucket_number(values + low - slack, size), _bucket_number(values + high + slack, size)


def _bucket_number(values: Float64s, width: float) -> Int64s:
    """Return bucket numbers; values so large that a bucket is not wider than their rounding share the last bucket."""
    return np.clip(np.floor(values / width), -FARTHEST, FARTHEST).astype(np.int64)
