"""The one way a kernel is compiled.

Flags: ``nogil`` (threads run kernels side by side), ``error_model="numpy"`` (no Python exceptions inside loops), never
``fastmath`` (results must be exact). Compiled code is cached on disk: beside the source, or in the user's cache folder
when the package is read-only. Where neither can be written the kernel is compiled in every process. A cached kernel is
compiled again when its own file changes, not when :mod:`watersmeet.kernels.instructions` does.

With ``NUMBA_DISABLE_JIT=1`` kernels run as the Python they are written in, which is how their coverage is measured
(``make coverage``). Numbers then wrap around as compiled ones do, without a warning.
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
