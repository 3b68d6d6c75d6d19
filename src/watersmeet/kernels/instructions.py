"""Instructions of the processor that Python has no word for: fetch ahead, compare a block of keys, copy by address.

LLVM turns them into what the processor has. A block's comparison is one instruction with 512-bit registers, and two or
four with narrower ones; either way it has no branch to guess and no chain of steps that wait for each other. Where
nothing is compiled (``NUMBA_DISABLE_JIT``) stand-ins in Python take their places.
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

__all__ = ["BLOCK", "copy_bytes", "copy_value", "count_flags", "flags_at", "flags_before", "flags_up_to", "prefetch"]

BLOCK: Final = 8
"""Keys that are compared at once: 8 of 8 bytes fill a cache line."""
FLAGS: Final = ir.IntType(BLOCK)
WORD: Final = ir.IntType(64)
KEYS: Final = ir.VectorType(WORD, BLOCK)


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, array: Any, position: Any) -> Any:  # noqa: ARG001 -- Numba's calling convention
    """Ask the processor to fetch ``array[position]`` into its cache; never faults, so any position is allowed."""
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
    """Tell which keys of the block at ``begin`` are less than ``bound``, a bit for each."""
    return _comparison("<", keys, begin, bound)


@intrinsic  # type: ignore[untyped-decorator]
def flags_up_to(typing_context: Any, keys: Any, begin: Any, bound: Any) -> Any:  # noqa: ARG001
    """Tell which keys of the block at ``begin`` are not greater than ``bound``, a bit for each."""
    return _comparison("<=", keys, begin, bound)


@intrinsic  # type: ignore[untyped-decorator]
def flags_at(typing_context: Any, keys: Any, begin: Any, bound: Any) -> Any:  # noqa: ARG001
    """Tell which keys of the block at ``begin`` equal ``bound``, a bit for each."""
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
    """Copy so many bytes from one address to another."""
    signature = types.void(target, source, count)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        pointers = [builder.inttoptr(address, byte_pointer) for address in arguments[:2]]
        cgutils.raw_memcpy(builder, *pointers, arguments[2], 1)
        return context.get_dummy_value()

    return signature, generate


def _comparison(operator: str, keys: Any, begin: Any, bound: Any) -> Any:
    """Return signature and code of a comparison; the whole block is read, so it has to lie in the array."""
    if keys.dtype != types.int64 or keys.layout != "C":
        raise TypingError(f"a block of {keys}: keys are contiguous and of 64 bits")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = builder.bitcast(_element(context, builder, signature, arguments), KEYS.as_pointer())
        block = builder.load(address, align=WORD.width // 8)
        nothing = ir.Constant(KEYS, ir.Undefined)
        place = ir.IntType(32)
        one = builder.insert_element(nothing, arguments[2], place(0))
        bounds = builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(place, BLOCK), [place(0)] * BLOCK))
        return builder.zext(builder.bitcast(builder.icmp_signed(operator, block, bounds), FLAGS), WORD)

    return types.int64(keys, begin, bound), generate


def _element(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return the address of ``array[position]``, the first two arguments."""
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return builder.gep(data, [arguments[1]])


# --- stand-ins, for kernels that are not compiled ---------------------------------------------------------------------


def _flags(bits: Any) -> np.int64:
    """Return one bit for each of a block's flags."""
    return np.int64(np.packbits(bits, bitorder="little")[0])


if numba.config.DISABLE_JIT:

    def prefetch(array: Any, position: Any) -> None:
        """Do nothing: nothing is computed faster here."""

    def flags_before(keys: Any, begin: Any, bound: Any) -> Any:
        """Tell which keys of the block at ``begin`` are less than ``bound``, a bit for each."""
        return _flags(keys[begin : begin + BLOCK] < bound)

    def flags_up_to(keys: Any, begin: Any, bound: Any) -> Any:
        """Tell which keys of the block at ``begin`` are not greater than ``bound``, a bit for each."""
        return _flags(keys[begin : begin + BLOCK] <= bound)

    def flags_at(keys: Any, begin: Any, bound: Any) -> Any:
        """Tell which keys of the block at ``begin`` equal ``bound``, a bit for each."""
        return _flags(keys[begin : begin + BLOCK] == bound)

    def count_flags(flags: Any) -> Any:
        """Return how many bits are set."""
        return int(flags).bit_count()

    def copy_value(target: Any, source: Any, kind: Any) -> None:
        """Copy a number of some NumPy type from one address to another."""
        ctypes.memmove(int(target), int(source), np.dtype(kind).itemsize)

    def copy_bytes(target: Any, source: Any, count: Any) -> None:
        """Copy so many bytes from one address to another."""
        ctypes.memmove(int(target), int(source), int(count))
