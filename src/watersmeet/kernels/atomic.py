"""Memory by its address: read and written as one step, called as a function, seen as an array.

Threads that never take the interpreter's lock speak to each other through words of 64 bits (see
:mod:`watersmeet.kernels.team`). Every access here is sequentially consistent: all threads see all of them in one order.
Uncompiled kernels (``NUMBA_DISABLE_JIT``) run in one thread, and have functions in Python instead.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from typing import Any, Final, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing import signature as typed
from numba.extending import intrinsic

__all__ = ["add", "array_at", "call", "exchange_if", "free", "load", "malloc", "relax", "store"]

WORD: Final = ir.IntType(64)
ORDER: Final = "seq_cst"
X86: Final = ("x86_64", "AMD64")
ARM: Final = ("aarch64", "arm64")


@intrinsic  # type: ignore[untyped-decorator]
def load(typing_context: Any, address: Any) -> Any:  # noqa: ARG001 -- Numba's calling convention
    """Return the word at an address."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_pointer(builder, arguments[0]), ORDER, 8)

    return types.int64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def store(typing_context: Any, address: Any, value: Any) -> Any:  # noqa: ARG001
    """Write a word to an address."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], _pointer(builder, arguments[0]), ORDER, 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def add(typing_context: Any, address: Any, value: Any) -> Any:  # noqa: ARG001
    """Add to the word at an address; return what it was before."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", _pointer(builder, arguments[0]), arguments[1], ORDER)

    return types.int64(types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def exchange_if(typing_context: Any, address: Any, expected: Any, value: Any) -> Any:  # noqa: ARG001
    """Write a word to an address if the word there is the expected one; tell whether it was."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = _pointer(builder, arguments[0])
        return builder.extract_value(builder.cmpxchg(pointer, arguments[1], arguments[2], ORDER, ORDER), 1)

    return types.boolean(types.int64, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def call(typing_context: Any, function: Any, arguments: Any, number: Any) -> Any:  # noqa: ARG001
    """Call the function at an address with two words."""

    def generate(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [WORD, WORD])
        builder.call(builder.inttoptr(given[0], kind.as_pointer()), given[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def relax(typing_context: Any) -> Any:  # noqa: ARG001
    """Let the processor's other thread go first for a moment: in a loop that waits."""

    def generate(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        number = ir.IntType(32)
        if platform.machine() in X86:
            kind, name, hint = ir.FunctionType(ir.VoidType(), []), "llvm.x86.sse2.pause", []
        elif platform.machine() in ARM:
            kind, name, hint = ir.FunctionType(ir.VoidType(), [number]), "llvm.aarch64.hint", [number(1)]
        else:
            return context.get_dummy_value()
        builder.call(cgutils.get_or_insert_function(builder.module, kind, name), hint)
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic  # type: ignore[untyped-decorator]
def array_at(typing_context: Any, address: Any, size: Any, kind: Any) -> Any:  # noqa: ARG001
    """Return a view of ``size`` values of a NumPy type that begin at an address; somebody else keeps the memory."""
    array = types.Array(kind.dtype, 1, "C", aligned=True)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        view = context.make_array(array)(context, builder)
        item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(array.dtype)))
        context.populate_array(
            view,
            data=builder.inttoptr(arguments[0], view.data.type),
            shape=cgutils.pack_array(builder, [arguments[1]]),
            strides=cgutils.pack_array(builder, [item]),
            itemsize=item,
            meminfo=None,
        )
        return view._getvalue()  # noqa: SLF001 -- how Numba's own code returns an array

    return array(types.int64, types.int64, kind), generate


def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, WORD.as_pointer())


# --- the same in Python, for kernels that are not compiled ------------------------------------------------------------


if numba.config.DISABLE_JIT:

    def add(address: Any, value: Any) -> Any:
        """Add to the word at an address; return what it was before."""
        word = ctypes.c_int64.from_address(int(address))
        word.value, before = word.value + int(value), word.value
        return before

    def call(function: Any, arguments: Any, number: Any) -> None:
        """Call a function with two words."""
        function(arguments, number)

    def array_at(address: Any, size: Any, kind: Any) -> Any:
        """Return a view of ``size`` values of a NumPy type that begin at an address."""
        kind = np.dtype(kind)
        if not size:
            return np.empty(0, kind)
        return np.frombuffer((ctypes.c_char * (int(size) * kind.itemsize)).from_address(int(address)), kind)


_memory: dict[int, Any] = {}


def _malloc(count: int) -> int:
    room = ctypes.create_string_buffer(int(count))
    _memory[ctypes.addressof(room)] = room
    return ctypes.addressof(room)


def _free(address: int) -> None:
    del _memory[int(address)]


def _of_c(name: str, result: Any) -> Callable[[int], Any]:
    return cast("Callable[[int], Any]", types.ExternalFunction(name, typed(result, types.int64)))


malloc: Callable[[int], int] = _malloc if numba.config.DISABLE_JIT else _of_c("malloc", types.int64)
free: Callable[[int], None] = _free if numba.config.DISABLE_JIT else _of_c("free", types.void)
"""The C library's, for memory that goes from one thread to another."""
