"""The errors that users can get.

All have one base class, so ``except WatersmeetError`` catches them. An error consists of three parts, and none can be
left out: what was given, what is allowed, and the next step. It is pickled with its parts, so it passes from one
process to another.
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
    """Base class of all errors that watersmeet raises."""

    def __init__(self, given: str, allowed: str, next_step: str) -> None:
        super().__init__(given, allowed, next_step)
        self.given = given
        self.allowed = allowed
        self.next_step = next_step

    def __str__(self) -> str:
        """Return the three parts as text, one below the other."""
        return f"{self.given}\n  allowed: {self.allowed}\n  next step: {self.next_step}"


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
