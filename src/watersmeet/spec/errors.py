"""Every error a user can meet.

One base class, so that ``except WatersmeetError`` catches all of them. A text has three parts: what was given, what is
allowed, and the next step; :func:`explain_refusal` puts them together so that no error forgets one.
"""

from __future__ import annotations

__all__ = [
    "ColumnTypeError",
    "LateRowError",
    "SchemaError",
    "SnapshotError",
    "SpecificationError",
    "WatersmeetError",
]


class WatersmeetError(Exception):
    """Base class of all errors raised by watersmeet."""


class SpecificationError(WatersmeetError, ValueError):
    """The join asked for cannot be built: a bad window, option, or predicate text."""


class ColumnTypeError(WatersmeetError, TypeError):
    """Two values cannot be compared or combined, or a column has a type its role does not allow."""


class SchemaError(WatersmeetError, ValueError):
    """A table lacks a column, or its schema is not the one the join was built for."""


class LateRowError(WatersmeetError, ValueError):
    """A row arrived behind the watermark and the join was told to fail on late rows."""


class SnapshotError(WatersmeetError, ValueError):
    """A snapshot is damaged, or was written by a version this one cannot read."""


def explain_refusal(given: str, allowed: str, next_step: str) -> str:
    """Return the text of an error: what was given, what is allowed, what to do next."""
    return f"{given}\n  allowed: {allowed}\n  next step: {next_step}"
