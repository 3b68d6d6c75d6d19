"""Decimals of a message were cast beyond Arrow's tables, which gave other numbers or ended the process; floats rounded.

Arrow shifts a decimal by a power of ten out of a table, whose end it does not look for, and may overflow on the way. A
double in a float column was rounded, or became infinity.
"""

from __future__ import annotations

import io
import math
import os
import re
import subprocess
import sys
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from decoded_messages import decoded, written
from watersmeet.spark.decoding.fitting import check_columns, fitted

FLOAT = pa.schema([("x", pa.float32())])


def of(kind: pa.DataType, unscaled: int, bits: int) -> pa.Array:
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(unscaled.to_bytes(bits // 8, "little", signed=True))])


def refuse_far_scales() -> None:
    schema = pa.schema([("x", pa.decimal128(10, 2))])
    lists = pa.schema([("x", pa.list_(pa.decimal128(10, 2)))])
    for kind, bits in (
        (pa.decimal128(10, 2**30), 128),
        (pa.decimal128(10, -(2**31)), 128),
        (pa.decimal256(10, 10**7), 256),
    ):
        for values in (of(kind, 0, bits), of(kind, 1, bits)):
            nested = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), values)
            assert decoded("arrow", [written("arrow", pa.table({"x": values}))], schema, drops_bad=True) == ([], 1)
            assert decoded("arrow", [written("arrow", pa.table({"x": nested}))], lists, drops_bad=True) == ([], 1)


def test_a_scale_beyond_all_tables_is_refused() -> None:
    """In a process of its own, which it ends where it fails."""
    path = os.pathsep.join(sys.path)
    subprocess.run([sys.executable, __file__], check=True, env={**os.environ, "PYTHONPATH": path})


def test_oracle_decimals_of_all_scales_keep_their_value() -> None:
    read = 0
    for make, bits, digits in (
        (pa.decimal32, 32, 9),
        (pa.decimal64, 64, 18),
        (pa.decimal128, 128, 38),
        (pa.decimal256, 256, 76),
    ):
        for scale in range(-80, 120, 3):
            for wanted in (0, 2, 37, 38):
                schema = pa.schema([("x", pa.decimal128(38, wanted))])
                for unscaled in (0, 5, -7, 10**8, 10**digits - 1):
                    rows = pa.record_batch({"x": of(make(digits, scale), unscaled, bits)})
                    exact = unscaled * Fraction(10) ** (wanted - scale)
                    try:
                        check_columns(rows.schema, schema)
                        found = Fraction(fitted(rows, schema).column("x")[0].as_py())
                    except ValueError:
                        assert exact.denominator > 1 or abs(exact) >= 10**38 or abs(scale - wanted) > 38
                        continue
                    assert found * Fraction(10) ** wanted == exact
                    read += 1
    assert read > 1000


@pytest.mark.parametrize("value", [0.1, 1e300, -1e300, 1e-300])
def test_a_double_that_is_no_float_is_bad(value: float) -> None:
    sink = io.BytesIO()
    table = pa.table({"x": pa.array([0.5, value])})
    pq.write_table(table, sink)
    for form, message in (("arrow", written("arrow", table)), ("parquet", sink.getvalue())):
        with pytest.raises(wm.SchemaError, match=re.escape(f"{value} is no value of the type float")):
            decoded(form, [message], FLOAT)  # type: ignore[arg-type]


DEEP: list[tuple[pa.DataType, pa.DataType, Any, Any]] = [
    (pa.list_(pa.float64()), pa.list_(pa.float32()), [0.5, None], [0.1]),
    (pa.struct([("a", pa.float64())]), pa.struct([("a", pa.float32())]), {"a": 0.5}, {"a": 0.1}),
    (pa.map_(pa.string(), pa.float64()), pa.map_(pa.string(), pa.float32()), [("k", 0.5)], [("k", 1e300)]),
    (
        pa.list_(pa.struct([("a", pa.float64())])),
        pa.list_(pa.struct([("a", pa.float32())])),
        [{"a": 0.5}],
        [{"a": 0.1}],
    ),
    (pa.dictionary(pa.int8(), pa.float64()), pa.float32(), 0.5, 0.1),
]


@pytest.mark.parametrize(("own", "wanted", "good", "bad"), DEEP, ids=str)
def test_nested_doubles(own: pa.DataType, wanted: pa.DataType, good: Any, bad: Any) -> None:
    schema = pa.schema([("x", wanted)])
    messages = [written("arrow", pa.table({"x": pa.array([None, value], own)})) for value in (good, bad)]
    rows, left_out = decoded("arrow", messages, schema, drops_bad=True)
    assert [row["x"] for row in rows] == [None, good]
    assert left_out == 1


def test_doubles_that_are_floats() -> None:
    table = pa.table({"x": pa.array([0.5, None, math.inf, -math.inf, 2.0**-149, -0.0, math.nan])})
    rows, _ = decoded("arrow", [written("arrow", table)], FLOAT)
    *found, nothing = (row["x"] for row in rows)
    assert found == [0.5, None, math.inf, -math.inf, 2.0**-149, 0.0]
    assert nothing is not None
    assert math.isnan(nothing)


def test_numbers_in_json_do_not_become_infinite() -> None:
    schema = pa.schema([("x", pa.float32()), ("l", pa.list_(pa.float64()))])
    messages = [b'{"x":0.1,"l":[1e39,null]}', b'{"x":1e39}', b'{"x":-1e39}', b'{"l":[1e400]}', b"{}"]
    rows, left_out = decoded("json", messages, schema, drops_bad=True)
    assert [row["number"] for row in rows] == [0, 4]
    assert rows[0]["x"] == pytest.approx(0.1)
    assert left_out == 3


if __name__ == "__main__":
    refuse_far_scales()
