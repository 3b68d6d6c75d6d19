"""Gathers rows of plain columns: all columns, from several batches, with one call.

Columns are given by their addresses, because their values may have any width. The caller keeps the memory alive. There
is one call for all, so the interpreter's lock is released and taken once, and Python makes no array for each column and
batch. Row numbers are cut to the batch's size: they may come from a mapped file that is damaged while it is in use,
which its reader notices only afterwards.
"""

from __future__ import annotations

import numpy as np

from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels.atomic import array_at
from watersmeet.kernels.compile import kernel
from watersmeet.kernels.instructions import copy_bytes, copy_value
from watersmeet.kernels.team import job, run, stretches

__all__ = ["copy_stretch", "copy_values", "gather_stretch", "gather_values"]

GIVEN = 9
"""Words of arguments."""


@kernel
def _within(row: int, last: int) -> int:
    return min(max(row, 0), last)


@job
def gather_stretch(arguments: int, number: int) -> None:
    """Copy a stretch of all columns."""
    given = array_at(arguments, GIVEN, np.int64)
    batches, columns, pieces = given[0], given[1], given[2]
    rows = array_at(given[3], batches, np.int64)
    ends = array_at(given[4], batches, np.int64)
    sizes = array_at(given[5], batches, np.int64)
    count = ends[batches - 1]
    first = count * number // pieces
    last = count * (number + 1) // pieces
    begin = 0
    for batch in range(batches):
        end = ends[batch]
        low, high = max(begin, first), min(end, last)
        if low < high:
            some = array_at(rows[batch] + 4 * (low - begin), high - low, np.int32)
            for column in range(columns):
                width = array_at(given[6], columns, np.int64)[column]
                target = array_at(given[8], columns, np.int64)[column] + width * low
                source = array_at(given[7], columns * batches, np.int64)[column * batches + batch]
                _copy(source, sizes[batch] - 1, width, some, target)
        begin = end


@kernel
def _copy(source: int, last: int, width: int, rows: Int32s, target: int) -> None:
    if width == 8:
        for i in range(len(rows)):
            copy_value(target + 8 * i, source + 8 * _within(rows[i], last), np.int64)
    elif width == 4:
        for i in range(len(rows)):
            copy_value(target + 4 * i, source + 4 * _within(rows[i], last), np.int32)
    elif width == 2:
        for i in range(len(rows)):
            copy_value(target + 2 * i, source + 2 * _within(rows[i], last), np.int16)
    elif width == 1:
        for i in range(len(rows)):
            copy_value(target + i, source + _within(rows[i], last), np.int8)
    else:
        for i in range(len(rows)):
            copy_bytes(target + width * i, source + width * _within(rows[i], last), width)


@kernel
def gather_values(
    team: int,
    function: int,
    sources: Int64s,
    sizes: Int64s,
    widths: Int64s,
    rows: Int64s,
    ends: Int64s,
    targets: Int64s,
) -> None:
    """Copy values of ``widths[c]`` bytes to ``targets[c]``, one behind the other, for every column *c*.

    ``rows[b]`` is the address of the row numbers of batch *b*, whose values come behind those of the batches before and
    end at ``ends[b]``. It has ``sizes[b]`` rows, and its column begins at ``sources[c * batches + b]``.
    """
    if len(ends) == 0:
        return
    given = np.empty(GIVEN, np.int64)
    given[0] = len(ends)
    given[1] = len(widths)
    given[2] = stretches(team, ends[len(ends) - 1])
    given[3] = rows.ctypes.data
    given[4] = ends.ctypes.data
    given[5] = sizes.ctypes.data
    given[6] = widths.ctypes.data
    given[7] = sources.ctypes.data
    given[8] = targets.ctypes.data
    run(team, function, given, given[2])


@job
def copy_stretch(arguments: int, number: int) -> None:
    """Copy a stretch of the rows."""
    given = array_at(arguments, 4, np.int64)
    rows, pieces, columns = given[0], given[1], given[2]
    begin, end = rows * number // pieces, rows * (number + 1) // pieces
    for column in range(columns):
        words = array_at(given[3] + 24 * column, 3, np.int64)
        copy_bytes(words[1] + words[2] * begin, words[0] + words[2] * begin, words[2] * (end - begin))


@kernel
def copy_values(team: int, function: int, columns: Int64s, rows: int) -> None:
    """Copy so many values of each column from one address to another, of so many bytes each."""
    given = np.empty(4, np.int64)
    given[0] = rows
    given[1] = stretches(team, rows)
    given[2] = len(columns)
    given[3] = columns.ctypes.data
    run(team, function, given, given[1])
