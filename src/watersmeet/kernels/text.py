"""Strings to int64: a hash for equality, the first bytes for order. String *i* is ``data[offset[i]:offset[i+1]]``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from watersmeet.kernels.compile import kernel

__all__ = ["hash_strings", "mix_hashes", "prefix_strings"]

Int64s = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.int32] | npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

FIRST = np.uint64(0xCBF29CE484222325)
FACTOR = np.uint64(0x9E3779B97F4A7C15)
SIGN = np.uint64(1 << 63)


@kernel
def _scramble(h: np.uint64) -> np.uint64:
    """Spread every bit of ``h`` over all others (the finaliser of SplitMix64)."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@kernel
def hash_strings(offset: Offsets, data: Bytes) -> Int64s:
    """Return a 64-bit hash of every string, eight bytes at a step."""
    n = len(offset) - 1
    result = np.empty(n, np.int64)
    for i in range(n):
        h = FIRST ^ np.uint64(offset[i + 1] - offset[i])
        word = np.uint64(0)
        filled = 0
        for j in range(offset[i], offset[i + 1]):
            word = (word << np.uint64(8)) | np.uint64(data[j])
            filled += 1
            if filled == 8:
                h = _scramble(h ^ word) * FACTOR
                word = np.uint64(0)
                filled = 0
        result[i] = np.int64(_scramble(h ^ word))
    return result


@kernel
def prefix_strings(offset: Offsets, data: Bytes) -> Int64s:
    """Return the first eight bytes of every string as a number: ``a < b`` implies ``prefix(a) <= prefix(b)``."""
    n = len(offset) - 1
    result = np.empty(n, np.int64)
    for i in range(n):
        word = np.uint64(0)
        for j in range(8):
            at = offset[i] + j
            byte = np.uint64(data[at]) if at < offset[i + 1] else np.uint64(0)
            word = (word << np.uint64(8)) | byte
        result[i] = np.int64(word ^ SIGN)
    return result


@kernel
def mix_hashes(seed: Int64s, key: Int64s) -> Int64s:
    """Return one hash for two columns of keys."""
    result = np.empty(len(key), np.int64)
    for i in range(len(key)):
        result[i] = np.int64(_scramble((np.uint64(seed[i]) * FACTOR) ^ np.uint64(key[i])))
    return result
