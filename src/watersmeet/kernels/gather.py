"""Gathers rows of plain columns: all columns, from several batches, with one call.

Columns are given by their addresses, because their values may have any width. The caller keeps the memory alive. There
is one call for all, so the interpreter's lock is released and taken once, and Python makes no array for each column and
batch. Row numbers are cut to the batch's size: they may come from a mapped file that is damaged while it is in use,
which its reader notices only afterwards.
"""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels.compile import kernel
from watersmeet.kernels.instructions import copy_bytes, copy_value

__all__ = ["gather_values"]


@kernel
def _within(row: int, last: int) -> int:
    return min(max(row, 0), last)


@kernel
def gather_values(sources: Int64s, sizes: Int64s, widths: Int64s, rows: Int32s, ends: Int64s, targets: Int64s) -> None:
    """Copy values of ``widths[c]`` bytes to ``targets[c]``, one behind the other, for every column *c*.

    The rows from ``ends[b - 1]`` to ``ends[b]`` are those of batch *b*, which has ``sizes[b]`` rows and whose column
    begins at ``sources[c, b]``.
    """
    for column in range(len(widths)):
        width = widths[column]
        target = targets[column]
        begin = 0
        for batch in range(len(ends)):
            source = sources[column, batch]
            last = sizes[batch] - 1
            some = rows[begin : ends[batch]]
            if width == 8:
                for i in range(len(some)):
                    copy_value(target + 8 * i, source + 8 * _within(some[i], last), np.int64)
            elif width == 4:
                for i in range(len(some)):
                    copy_value(target + 4 * i, source + 4 * _within(some[i], last), np.int32)
            elif width == 2:
                for i in range(len(some)):
                    copy_value(target + 2 * i, source + 2 * _within(some[i], last), np.int16)
            elif width == 1:
                for i in range(len(some)):
                    copy_value(target + i, source + _within(some[i], last), np.int8)
            else:
                for i in range(len(some)):
                    copy_bytes(target + width * i, source + width * _within(some[i], last), width)
            target += width * len(some)
            begin = ends[batch]
