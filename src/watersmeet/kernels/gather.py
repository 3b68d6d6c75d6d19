"""Gather rows of plain columns: all columns, from all pieces of memory they lie in, with one call.

Columns are given by their addresses, since their values have any width. One call matters twice: the interpreter's lock
is given back and asked for once, and no values are looked at from Python.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from watersmeet.kernels.compile import kernel
from watersmeet.kernels.instructions import copy_bytes, copy_value

__all__ = ["gather_values"]

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


@kernel
def gather_values(sources: Int64s, widths: Int64s, rows: Int32s, ends: Int64s, targets: Int64s) -> None:
    """Copy values of ``widths[c]`` bytes to ``targets[c]``, one behind the other, for every column *c*.

    The rows before ``ends[p]`` are those of piece *p*, whose column begins at ``sources[c, p]``.
    """
    for column in range(len(widths)):
        width = widths[column]
        target = targets[column]
        begin = 0
        for piece in range(len(ends)):
            source = sources[column, piece]
            some = rows[begin : ends[piece]]
            if width == 8:
                for i in range(len(some)):
                    copy_value(target + 8 * i, source + 8 * some[i], np.int64)
            elif width == 4:
                for i in range(len(some)):
                    copy_value(target + 4 * i, source + 4 * some[i], np.int32)
            elif width == 2:
                for i in range(len(some)):
                    copy_value(target + 2 * i, source + 2 * some[i], np.int16)
            elif width == 1:
                for i in range(len(some)):
                    copy_value(target + i, source + some[i], np.int8)
            else:
                for i in range(len(some)):
                    copy_bytes(target + width * i, source + width * some[i], width)
            target += width * len(some)
            begin = ends[piece]
