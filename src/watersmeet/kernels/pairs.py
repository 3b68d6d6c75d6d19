"""Index pairs: sort them by chunk, keep those that passed a check."""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.kernels.compile import kernel

__all__ = ["compress_pairs", "split_pairs"]


@kernel
def split_pairs(who: Int32s, row: Int32s, starts: Int64s) -> tuple[Int64s, Int32s, Int32s]:
    """Order pairs by the chunk of their stored row.

    Returns
    -------
    Where each chunk's pairs end, the probing rows, and the stored rows numbered within their chunks.
    """
    n = len(row)
    chunks = len(starts) - 1
    chunk = np.empty(n, np.int32)
    ends = np.zeros(chunks, np.int64)
    for i in range(n):
        r = row[i]
        c = 0
        for later in starts[1:chunks]:  # chunks are few and rows come in any order: counting needs no branch
            c += later <= r
        chunk[i] = c
        ends[c] += 1
    next_at = np.empty(chunks, np.int64)
    total = 0
    for c in range(chunks):
        next_at[c] = total
        total += ends[c]
        ends[c] = total
    split_who = np.empty(n, np.int32)
    split_row = np.empty(n, np.int32)
    for i in range(n):
        c = chunk[i]
        at = next_at[c]
        next_at[c] = at + 1
        split_who[at] = who[i]
        split_row[at] = row[i] - starts[c]
    return ends, split_who, split_row


@kernel
def compress_pairs(who: Int32s, row: Int32s, keep: Bools, kept: int) -> tuple[Int32s, Int32s]:
    """Return the ``kept`` pairs whose flag is set."""
    kept_who = np.empty(kept, np.int32)
    kept_row = np.empty(kept, np.int32)
    o = 0
    for i in range(len(who)):
        if keep[i]:
            kept_who[o] = who[i]
            kept_row[o] = row[i]
            o += 1
    return kept_who, kept_row
