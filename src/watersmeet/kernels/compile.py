"""The one way a kernel is compiled.

Flags: ``nogil`` (threads run kernels side by side), ``error_model="numpy"`` (no Python exceptions inside loops), never
``fastmath`` (results must be exact). Compiled code is cached on disk: beside the source, or in the user's cache folder
when the package is read-only. Where neither can be written the kernel is compiled in every process. A cached kernel is
compiled again when its own file changes, not when :mod:`watersmeet.kernels.instructions` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numba

__all__ = ["kernel"]

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` on first call."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        compiled: Callable[P, R] = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # Numba: "no locator available": there is no folder to cache in
        compiled = numba.njit(**options)(function)
    return compiled
