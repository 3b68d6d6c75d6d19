"""Compiles kernels, all with the same flags.

Flags: ``nogil`` (threads run kernels side by side), ``error_model="numpy"`` (no Python exceptions inside loops), never
``fastmath`` (results must be exact). Compiled code is cached on disk: beside the source, or in the user's cache folder
if the package is read-only. If neither can be written, every process compiles the kernel. A cached kernel is compiled
again if its own file changes, but not if :mod:`watersmeet.kernels.instructions` does.

With ``NUMBA_DISABLE_JIT=1`` kernels run as Python, so that their coverage can be measured (``make coverage``). Integers
then wrap around without a warning, as compiled ones do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numba
import numpy as np

__all__ = ["kernel"]

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` on first call."""
    if numba.config.DISABLE_JIT:
        return np.errstate(all="ignore")(function)
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        compiled: Callable[P, R] = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # Numba: "no locator available": there is no folder to cache in
        compiled = numba.njit(**options)(function)
    return compiled
