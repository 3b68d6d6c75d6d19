"""Spares Spark's Python workers most of the garbage collection that they do after every task.

A collection walks through all objects there are. Those of imported packages and compiled kernels are more than a
hundred thousand and live as long as the worker; walking through them takes 0.06 s and more, after each of the several
tasks that a core has in every micro-batch. So after the first task of a kind, all that is alive by then is set aside.
It is freed like all else when nothing refers to it any more; only what refers to itself in a circle would stay.
"""

from __future__ import annotations

import gc
from functools import cache

__all__ = ["set_aside"]


@cache
def set_aside(task: str) -> None:  # noqa: ARG001 -- once for each kind of task
    """Set aside what is alive after the first task of a kind in this process."""
    gc.collect()
    gc.freeze()
