"""Processor instructions that Python does not have: prefetch, compare a cache line of keys, copy by address.

LLVM turns them into the processor's own. Comparing a line is one instruction with 512-bit registers, and two or four
with smaller ones. Either way there is no branch to predict, and no step waits for another. Uncompiled kernels
(``NUMBA_DISABLE_JIT``) use functions in Python instead.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

__all__ = ["LINE", "copy_bytes", "copy_value", "count_flags", "flags_at", "flags_before", "flags_up_to", "prefetch"]

LINE: Final = 8
"""Keys in a cache line, which are compared at once: 8 of 8 bytes."""
FLAGS: Final = ir.IntType(LINE)
WORD: Final = ir.IntType(64)
KEYS: Final = ir.VectorType(WORD, LINE)


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, array: Any, position: Any) -> Any:  # noqa: ARG001 -- Numba's calling convention
    """Ask the processor to fetch ``array[position]`` into its cache. Any position is allowed: this never faults."""
    signature = types.void(array, position)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        address = builder.bitcast(_element(context, builder, signature, arguments), byte_pointer)
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


@intrinsic  # type: ignore[untyped-decorator]
def flags_before(typing_context: Any, keys: Any, begin: Any, bound: Any) -> Any:  # noqa: ARG001
    """Return a bit for each key of the line at ``begin``: set if the key is less than ``bound``."""
    return _comparison("<", keys, begin, bound)


@intrinsic  # type: ignore[untyped-decorator]
def flags_up_to(typing_context: Any, keys: Any, begin: Any, bound: Any) -> Any:  # noqa: ARG001
    """Return a bit for each key of the line at ``begin``: set if the key is not greater than ``bound``."""
    return _comparison("<=", keys, begin, bound)


@intrinsic  # type: ignore[untyped-decorator]
def flags_at(typing_context: Any, keys: Any, begin: Any, bound: Any) -> Any:  # noqa: ARG001
    """Return a bit for each key of the line at ``begin``: set if the key equals ``bound``."""
    return _comparison("==", keys, begin, bound)


@intrinsic  # type: ignore[untyped-decorator]
def count_flags(typing_context: Any, flags: Any) -> Any:  # noqa: ARG001
    """Return how many bits are set."""
    return types.int64(flags), lambda _context, builder, _signature, arguments: builder.ctpop(arguments[0])


@intrinsic  # type: ignore[untyped-decorator]
def copy_value(typing_context: Any, target: Any, source: Any, kind: Any) -> Any:  # noqa: ARG001
    """Copy a number of some NumPy type from one address to another."""
    signature = types.void(target, source, kind)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = context.get_value_type(signature.args[2].dtype).as_pointer()
        value = builder.load(builder.inttoptr(arguments[1], pointer), align=1)
        builder.store(value, builder.inttoptr(arguments[0], pointer), align=1)
        return context.get_dummy_value()

    return signature, generate


@intrinsic  # type: ignore[untyped-decorator]
def copy_bytes(typing_context: Any, target: Any, source: Any, count: Any) -> Any:  # noqa: ARG001
    """Copy ``count`` bytes from one address to another."""
    signature = types.void(target, source, count)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        pointers = [builder.inttoptr(address, byte_pointer) for address in arguments[:2]]
        cgutils.raw_memcpy(builder, *pointers, arguments[2], 1)
        return context.get_dummy_value()

    return signature, generate


def _comparison(operator: str, keys: Any, begin: Any, bound: Any) -> Any:
    """Return signature and code of a comparison. It reads the whole line, which must lie in the array."""
    if keys.dtype != types.int64 or keys.layout != "C":
        raise TypingError(f"a line of {keys}: keys are contiguous and of 64 bits")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = builder.bitcast(_element(context, builder, signature, arguments), KEYS.as_pointer())
        line = builder.load(address, align=WORD.width // 8)
        nothing = ir.Constant(KEYS, ir.Undefined)
        index = ir.IntType(32)
        one = builder.insert_element(nothing, arguments[2], index(0))
        bounds = builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(index, LINE), [index(0)] * LINE))
        return builder.zext(builder.bitcast(builder.icmp_signed(operator, line, bounds), FLAGS), WORD)

    return types.int64(keys, begin, bound), generate


def _element(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return the address of ``array[position]``, the first two arguments."""
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return builder.gep(data, [arguments[1]])


# --- the same in Python, for kernels that are not compiled ------------------------------------------------------------


def _flags(bits: Any) -> np.int64:
    """Return one bit for each flag of a line."""
    return np.int64(np.packbits(bits, bitorder="little")[0])


if numba.config.DISABLE_JIT:

    def prefetch(array: Any, position: Any) -> None:
        """Do nothing: a prefetch only saves time."""

    def flags_before(keys: Any, begin: Any, bound: Any) -> Any:
        """Return a bit for each key of the line at ``begin``: set if the key is less than ``bound``."""
        return _flags(keys[begin : begin + LINE] < bound)

    def flags_up_to(keys: Any, begin: Any, bound: Any) -> Any:
        """Return a bit for each key of the line at ``begin``: set if the key is not greater than ``bound``."""
        return _flags(keys[begin : begin + LINE] <= bound)

    def flags_at(keys: Any, begin: Any, bound: Any) -> Any:
        """Return a bit for each key of the line at ``begin``: set if the key equals ``bound``."""
        return _flags(keys[begin : begin + LINE] == bound)

    def count_flags(flags: Any) -> Any:
        """Return how many bits are set."""
        return (int(flags) & (2**64 - 1)).bit_count()

    def copy_value(target: Any, source: Any, kind: Any) -> None:
        """Copy a number of some NumPy type from one address to another."""
        ctypes.memmove(int(target), int(source), np.dtype(kind).itemsize)

    def copy_bytes(target: Any, source: Any, count: Any) -> None:
        """Copy ``count`` bytes from one address to another."""
        ctypes.memmove(int(target), int(source), int(count))
