"""A view under a null was not validated, but read all the same where it was cast: the process ended.

Arrow leaves nulls out where it validates, and its cast of views to offsets copies what lies under them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from decoded_messages import decoded, written
from watersmeet.engine.arrow_bytes import DAMAGE, check_rows

LONG = "a text that does not lie in its view"


def views(kind: pa.DataType, under_null: list[int]) -> pa.Array:
    raw = np.array([[1, ord("a"), 0, 0], under_null], np.int32)
    more = pa.py_buffer(LONG.encode())
    return pa.Array.from_buffers(kind, 2, [pa.py_buffer(b"\x01"), pa.py_buffer(raw.tobytes()), more])


def begin() -> int:
    return int(np.frombuffer(LONG[:4].encode(), np.int32)[0])


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()], ids=str)
@pytest.mark.parametrize("under_null", [[-1, 0, 0, 0], [-(2**31), 0, 0, 0], [20, 0, 9, 0], [20, begin(), 0, 2**30]])
def test_what_lies_under_a_null_is_validated(kind: pa.DataType, under_null: list[int]) -> None:
    column = views(kind, under_null)
    column.validate(full=True)
    index = pa.array([0, 1, 0], pa.int8())
    pair = pa.array([0, 1, 2], pa.int32())
    for nested in (
        column,
        pa.concat_arrays([column, column]).slice(1, 2),
        pa.ListArray.from_arrays(pair, column),
        pa.LargeListArray.from_arrays(pair.cast(pa.int64()), column),
        pa.FixedSizeListArray.from_arrays(column, 1),
        pa.MapArray.from_arrays(pair, pa.array([1, 2]), column),
        pa.StructArray.from_arrays([column], ["a"]),
        pa.DictionaryArray.from_arrays(index, column, safe=False),
    ):
        with pytest.raises(DAMAGE):
            check_rows(pa.record_batch({"x": nested}))
    table = pa.table({"x": column})
    wanted = pa.string() if kind == pa.string_view() else pa.binary()
    with pytest.raises(wm.SchemaError, match="cannot be decoded as arrow"):
        decoded("arrow", [written("arrow", table)], pa.schema([("x", wanted)]))


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()], ids=str)
def test_sound_views_are_read(kind: pa.DataType) -> None:
    wanted = pa.string() if kind == pa.string_view() else pa.binary()
    values = pa.array(["a", None, LONG, "", LONG * 2]).cast(kind)
    under_null = views(kind, [len(LONG), begin(), 0, 0])
    for column in (values, values.slice(1, 3), under_null):
        rows, _ = decoded("arrow", [written("arrow", pa.table({"x": column}))], pa.schema([("x", wanted)]))
        assert [row["x"] for row in rows] == column.to_pylist()
