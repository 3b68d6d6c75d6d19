"""A few hundred bytes of Arrow may hold any number of fixed-size bytes without a size, each of which took an offset."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm
from decoded_messages import decoded, written


def test_fixed_size_bytes_without_a_size_are_refused() -> None:
    column = pa.Array.from_buffers(pa.binary(0), 1000, [None, pa.py_buffer(b"")])
    message = written("arrow", pa.table({"x": column}))
    with pytest.raises(wm.SchemaError, match=r"column 'x' is fixed_size_binary\[0\], not binary"):
        decoded("arrow", [message], pa.schema([("x", pa.binary())]))
