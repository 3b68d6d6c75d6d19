"""Excludes long-lived objects from the garbage collection that Spark's Python workers do after every task.

A collection visits all objects. Imported packages and compiled kernels have more than a hundred thousand, which live as
long as the worker. Visiting them takes 0.06 s or more, after each of the several tasks that a core has in every
micro-batch. So after the first task of each kind all objects are frozen: later collections skip them. Frozen objects
are still freed when nothing refers to them; only reference cycles among them stay.
"""

from __future__ import annotations

import gc
from functools import cache

__all__ = ["freeze_once"]


@cache
def freeze_once(task: str) -> None:  # noqa: ARG001 -- once for each kind of task
    """Freeze all objects after the first task of this kind in this process."""
    gc.collect()
    gc.freeze()
