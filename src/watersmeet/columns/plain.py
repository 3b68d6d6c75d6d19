"""Plain columns: every value has the same number of whole bytes, so values are copied and gathered as bytes.

Numbers, dates, times, decimals and fixed-size binaries are plain. Text, nested and dictionary columns are not, and
neither are booleans, which Arrow stores as bits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.arrays import Bytes

__all__ = ["Words", "from_words", "is_plain", "plain_width", "word_type", "words_of"]

Words = npt.NDArray[Any]
"""The values of a plain column, each as a word whose meaning is not looked at."""

WORD_TYPES: Final = {kind.itemsize: kind for kind in map(np.dtype, (np.uint8, np.uint16, np.uint32, np.int64))}


@lru_cache(maxsize=256)
def plain_width(kind: pa.DataType) -> int:
    """Return the bytes of a value of this type if columns of it are plain, otherwise 0."""
    fixed = pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind)
    return kind.bit_width // 8 if fixed and kind.bit_width % 8 == 0 else 0


def is_plain(kind: pa.DataType) -> bool:
    """Tell whether a column of this type is plain."""
    return plain_width(kind) > 0


def word_type(kind: pa.DataType) -> np.dtype[Any]:
    """Return the type of a plain column's words."""
    width = plain_width(kind)
    return WORD_TYPES[width] if width in WORD_TYPES else np.dtype(f"V{width}")


def words_of(column: pa.Array) -> Words:
    """Return a view of a plain column's words; rows with null may have any."""
    _, data = column.buffers()
    if data is None:  # Arrow may omit the values if all are null
        return np.zeros(len(column), word_type(column.type))
    return np.frombuffer(data, word_type(column.type), len(column), column.offset * column.type.bit_width // 8)


def from_words(kind: pa.DataType, words: Words, valid: Bytes | None = None) -> pa.Array:
    """Return a plain column with these words, without a copy; ``valid`` has a bit for each row, set if not null."""
    bits = None if valid is None else pa.py_buffer(valid)
    return pa.Array.from_buffers(kind, len(words), [bits, pa.py_buffer(words)])
