"""Fingerprints: a 64-bit hash of what each row has in some columns.

Rows that are equal in all of these columns have equal fingerprints, wherever they lie; others have different ones, but
for one chance in 2^64. So fingerprints put rows into an order that follows from the rows alone. Columns may have any
type that a predicate compares. Cost: one pass over each column.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.columns.keys import text_buffers
from watersmeet.columns.plain import is_plain, words_of
from watersmeet.kernels.text import hash_strings, mix_hashes

__all__ = ["fingerprints"]

WORD: Final = 8
NULL: Final = np.int64(0x5BF03635)
"""What stands for null; a value that equals it shares its fingerprint, which nothing forbids."""


def fingerprints(rows: pa.RecordBatch, columns: Iterable[str]) -> Int64s:
    """Return the fingerprint of every row, by the ``columns`` of these names, in their order."""
    found = np.zeros(rows.num_rows, np.int64)
    for name in columns:
        column = rows.column(name)
        for words in _words(column):
            known = np.where(np.asarray(column.is_valid()), words, NULL) if column.null_count else words
            found = mix_hashes(found, known)
    return found


def _words(column: pa.Array) -> list[Int64s]:
    """Return a column's values as whole numbers: one of each value, or several of wide ones."""
    if pa.types.is_boolean(column.type):
        return [np.asarray(column.cast(pa.uint8()).fill_null(0)).astype(np.int64)]
    if not is_plain(column.type):
        return [hash_strings(*text_buffers(column))]
    words = words_of(column)
    if words.itemsize <= WORD:
        return [words.astype(np.int64)]
    wide = np.ascontiguousarray(words).view(np.int64).reshape(len(words), -1)
    return [np.ascontiguousarray(part) for part in wide.T]
