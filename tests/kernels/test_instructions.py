"""Instructions, or the stand-ins that take their places, against NumPy: the same answers compiled and uncompiled."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drawn_keys import INT64, KEYS
from watersmeet.arrays import Int64s
from watersmeet.kernels import instructions
from watersmeet.kernels.compile import kernel
from watersmeet.kernels.instructions import (
    LINE,
    copy_bytes,
    copy_value,
    count_flags,
    flags_at,
    flags_before,
    flags_up_to,
    prefetch,
)


@kernel
def compared(keys: Int64s, begin: int, bound: int) -> tuple[int, int, int, int]:
    prefetch(keys, begin)
    prefetch(keys, -(10**6))  # any position is allowed
    before = flags_before(keys, begin, bound)
    return before, flags_up_to(keys, begin, bound), flags_at(keys, begin, bound), count_flags(before)


@kernel
def copied(target: int, source: int, width: int) -> None:
    if width == 8:
        copy_value(target, source, np.int64)
    elif width == 4:
        copy_value(target, source, np.int32)
    elif width == 2:
        copy_value(target, source, np.int16)
    elif width == 1:
        copy_value(target, source, np.int8)
    else:
        copy_bytes(target, source, width)


def bits(flags: npt.NDArray[np.bool_]) -> int:
    return sum(1 << at for at, flag in enumerate(flags.tolist()) if flag)


@given(keys=st.lists(KEYS, min_size=LINE + 2, max_size=LINE + 2), begin=st.integers(0, 2), bound=KEYS)
@example(keys=[INT64.min, INT64.max] * 5, begin=1, bound=INT64.max)
@example(keys=[INT64.min, INT64.max] * 5, begin=0, bound=INT64.min)
@example(keys=[0] * 10, begin=2, bound=0)
def test_oracle_a_block_is_compared_wherever_it_begins(keys: list[int], begin: int, bound: int) -> None:
    array = np.array(keys, np.int64)
    block = array[begin : begin + LINE]
    before = block < bound
    expected = (bits(before), bits(block <= bound), bits(block == bound), np.count_nonzero(before))
    assert compared(array, begin, bound) == expected


@pytest.mark.parametrize("width", [1, 2, 4, 8, 0, 3, 40])
@pytest.mark.parametrize("shift", [0, 1, 5])
def test_oracle_bytes_are_copied_from_and_to_any_address(width: int, shift: int) -> None:
    source = np.arange(64, dtype=np.uint8)
    target = np.full(64, 255, np.uint8)
    copied(target.ctypes.data + 2 + shift, source.ctypes.data + shift, width)
    assert target[2 + shift : 2 + shift + width].tolist() == source[shift : shift + width].tolist()
    assert (np.delete(target, np.arange(2 + shift, 2 + shift + width)) == 255).all()


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="what does not fit is seen by the compiler")
@pytest.mark.parametrize("keys", [np.zeros(8, np.int32), np.zeros(16, np.int64)[::2]], ids=["narrow", "scattered"])
def test_keys_that_no_block_can_be_read_of_are_not_compiled(keys: npt.NDArray[Any]) -> None:
    with pytest.raises(numba.core.errors.TypingError, match="keys are contiguous and of 64 bits"):
        compared(keys, 0, 0)


def test_every_name_is_an_instruction_or_its_stand_in() -> None:
    assert all(hasattr(instructions, name) for name in instructions.__all__)
