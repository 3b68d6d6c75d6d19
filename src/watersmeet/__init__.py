"""watersmeet joins streams over sliding windows: on equality, on a band, on any comparison.

``join``, ``multijoin``, ``decode``, ``metrics`` and ``session`` are for Spark, loaded when first used: nothing else
needs PySpark.
"""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from watersmeet.engine.metrics import Complete, JoinMetrics
from watersmeet.engine.multiway.multi_stream_join import MultiJoinMetrics, MultiStreamJoin
from watersmeet.engine.stream_join import StreamJoin
from watersmeet.spec.errors import (
    ColumnTypeError,
    LateRowError,
    SchemaError,
    SnapshotError,
    SpecificationError,
    WatersmeetError,
)
from watersmeet.spec.expression import Predicate
from watersmeet.spec.ordering import relaxed
from watersmeet.spec.predicates import band, equal, greater, greater_equal, less, less_equal, not_equal
from watersmeet.spec.window import count_window, time_window

if TYPE_CHECKING:
    from watersmeet.spark.decode import decode
    from watersmeet.spark.join import join
    from watersmeet.spark.metrics import JoinProgress, metrics
    from watersmeet.spark.multiway.multijoin import multijoin
    from watersmeet.spark.session import session

__all__ = [
    "ColumnTypeError",
    "Complete",
    "JoinMetrics",
    "JoinProgress",
    "LateRowError",
    "MultiJoinMetrics",
    "MultiStreamJoin",
    "Predicate",
    "SchemaError",
    "SnapshotError",
    "SpecificationError",
    "StreamJoin",
    "WatersmeetError",
    "__version__",
    "band",
    "count_window",
    "decode",
    "equal",
    "greater",
    "greater_equal",
    "join",
    "less",
    "less_equal",
    "metrics",
    "multijoin",
    "not_equal",
    "relaxed",
    "session",
    "time_window",
]

try:
    __version__ = version("watersmeet")
except PackageNotFoundError:  # in a source tree that was never installed
    __version__ = "(not installed)"


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- a function, which one depends on the name
    """Load the Spark layer when it is asked for."""
    if name not in ("JoinProgress", "decode", "join", "metrics", "multijoin", "session"):
        raise AttributeError(f"module 'watersmeet' has no attribute {name!r}")
    try:
        from watersmeet.spark import decode, join, metrics, session  # noqa: PLC0415 -- PySpark is optional
        from watersmeet.spark.multiway import multijoin  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise WatersmeetError(
            f"watersmeet.{name} needs {error.name}, which is not installed",
            "Python environments with the extra 'spark'",
            "pip install 'watersmeet[spark]'",
        ) from error
    return {
        "JoinProgress": metrics.JoinProgress,
        "decode": decode.decode,
        "join": join.join,
        "metrics": metrics.metrics,
        "multijoin": multijoin.multijoin,
        "session": session.session,
    }[name]
