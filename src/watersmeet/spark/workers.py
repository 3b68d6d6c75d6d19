"""Checks once a session, before its first join, that Spark's Python workers can run joins.

Workers run the Python that ``PYSPARK_PYTHON`` named when the session began, which has its own packages. Without the
check, a missing package would show only in the first micro-batch, at the end of a long trace of the JVM. The check is a
job of one row, in which a worker imports what joins need; that worker is then ready for the query.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Final
from weakref import WeakSet

import pyarrow as pa
from pyspark.sql import SparkSession

from watersmeet.spec.errors import SpecificationError

__all__ = ["check_workers"]

REASONS: Final = (
    re.compile(r"No module named '([^']+)'"),
    re.compile(r"Cannot run program \"([^\"]+)\""),
    re.compile(r"\[PYTHON_VERSION_MISMATCH\] ([^\n]+)"),
)
CHECKED: Final[WeakSet[SparkSession]] = WeakSet()


def check_workers(spark: SparkSession) -> None:
    """Raise unless a Python worker of the session has all that joins need."""
    if spark in CHECKED:
        return
    try:
        spark.range(0, 1, 1, 1).mapInArrow(_imported, "python string").collect()
    except Exception as error:
        reason = next((found[0] for pattern in REASONS if (found := pattern.search(str(error)))), None)
        if reason is None:
            raise
        raise SpecificationError(
            f"the Python of Spark's workers cannot run the join: {reason}",
            f"a Python {sys.version_info.major}.{sys.version_info.minor} with watersmeet[spark], on every machine",
            f"install it there, or set PYSPARK_PYTHON before the session begins; here to {sys.executable}",
        ) from error
    CHECKED.add(spark)


def _imported(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the worker's Python. To run this a worker must import this module, which is the check."""
    import watersmeet.spark.multiway.processor  # noqa: F401, PLC0415 -- the worker's, with all it imports

    for _ in batches:
        yield pa.record_batch({"python": [sys.executable]})
