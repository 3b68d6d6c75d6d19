"""The one way a kernel is compiled.

Flags: ``nogil`` (threads run kernels side by side), ``error_model="numpy"`` (no Python exceptions inside loops), never
``fastmath`` (results must be exact). Compiled code is cached on disk: beside the source, or in the user's cache folder
when the package is read-only. Where neither can be written the kernel is compiled in every process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = ["kernel", "prefetch"]

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


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, array: Any, position: Any) -> Any:  # noqa: ARG001 -- Numba's calling convention
    """Ask the processor to fetch ``array[position]`` into its cache; never faults, so any position is allowed."""
    signature = types.void(array, position)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte_pointer = ir.IntType(8).as_pointer()
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte_pointer)
        number = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte_pointer, number, number, number]),
            "llvm.prefetch.p0i8",
        )
        for_reading, keep_in_all_levels, data_cache = number(0), number(3), number(1)
        builder.call(function, [address, for_reading, keep_in_all_levels, data_cache])
        return context.get_dummy_value()

    return signature, generate
