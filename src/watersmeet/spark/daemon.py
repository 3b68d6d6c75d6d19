"""Forks Spark's Python workers from a process that has imported what joins need.

Spark starts one daemon, which forks its workers. That of PySpark imports next to nothing, so every worker imports
pandas, PyArrow, Numba and this package by itself: 0.8 s of a core each. The first micro-batch starts several at once,
and so does the first one after a pause, for workers that had nothing to do for a minute are ended. This daemon imports
all that first. What it has imported is frozen: no worker's garbage collection visits it, so its pages stay shared.

A fork copies one thread alone; the locks that others held are held in the child for ever. So a process with threads of
its own is not forked from: PySpark's daemon takes its place. Arrow's allocator has a thread that it prepares for forks.

Workers draw different random numbers: NumPy's generator, seeded when it is imported, is seeded anew in each.

``wm.session`` asks for this daemon. Without it everything works, at the price above.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

import numpy as np
from pyspark import daemon

__all__ = ["main"]

IMPORTED: Final = ("pyspark.worker", "watersmeet.spark.join", "watersmeet.spark.multiway.multijoin")
THREADS: Final = Path("/proc/self/task")
PREPARED_FOR_FORKS: Final = "jemalloc_bg_thd"


def main() -> None:
    """Import, and fork workers as Spark asks for them; return when Spark has ended."""
    for module in IMPORTED:
        import_module(module)
    if _has_threads():
        os.execv(sys.executable, [sys.executable, "-m", daemon.__name__, *sys.argv[1:]])  # noqa: S606 -- this Python
    os.register_at_fork(after_in_child=np.random.seed)
    gc.collect()
    gc.freeze()
    daemon.manager()


def _has_threads() -> bool:
    """Return whether there are threads that a fork would lose; also true where that cannot be known."""
    if not THREADS.exists():
        return True
    names = [(thread / "comm").read_text().strip() for thread in THREADS.iterdir()]
    return sum(name != PREPARED_FOR_FORKS for name in names) > 1


if __name__ == "__main__":
    main()
