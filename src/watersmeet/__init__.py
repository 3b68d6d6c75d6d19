"""watersmeet joins streams over sliding windows: on equality, on a band, on any comparison."""

from watersmeet.engine.stream_join import JoinMetrics, StreamJoin
from watersmeet.spec.errors import (
    ColumnTypeError,
    LateRowError,
    SchemaError,
    SnapshotError,
    SpecificationError,
    WatersmeetError,
)
from watersmeet.spec.predicates import band, equal, greater, greater_equal, less, less_equal, not_equal
from watersmeet.spec.window import count_window, time_window

__all__ = [
    "ColumnTypeError",
    "JoinMetrics",
    "LateRowError",
    "SchemaError",
    "SnapshotError",
    "SpecificationError",
    "StreamJoin",
    "WatersmeetError",
    "band",
    "count_window",
    "equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "not_equal",
    "time_window",
]
