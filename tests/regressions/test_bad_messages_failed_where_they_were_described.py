"""The error of a bad message failed on a kept time that Python does not have, or was as long as the message."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.spark.decoding.decoder import Decoder, LeftOut

MOMENT = pa.timestamp("us", "UTC")


def error_of(message: bytes, kept: pa.Array) -> str:
    decoder = Decoder("json", pa.schema([("ts", MOMENT)]), pa.schema([("kept", kept.type)]), "UTC", drops_bad=False)
    batch = pa.record_batch([pa.array([message]), kept], names=["message", "kept"])
    with pytest.raises(wm.SchemaError, match="cannot be decoded as json") as caught:
        list(decoder.read([batch], LeftOut()))
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (2**62, MOMENT, "kept 17036-07-06 14:00:27.387904Z"),
        (-(2**62), pa.timestamp("us"), "kept "),
        (2**31 - 1, pa.date32(), "kept <value out of range: 2147483647>"),
        (2**63 - 1, pa.duration("us"), "kept 9223372036854775807"),
        ([2**62], pa.list_(MOMENT), "kept list<"),
        ({"a": 2**62}, pa.struct([("a", MOMENT)]), "kept struct<"),
        (None, MOMENT, "kept None"),
        (0, MOMENT, "kept 1970-01-01 00:00:00.000000Z"),
        (b"\xff", pa.binary(), r"kept b'\xff'"),
    ],
    ids=str,
)
def test_kept_values_beyond_python(value: Any, kind: pa.DataType, shown: str) -> None:
    storage = pa.int32() if kind == pa.date32() else pa.int64()
    if isinstance(value, list):
        column = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(value, storage).cast(MOMENT))
    elif isinstance(value, dict):
        column = pa.StructArray.from_arrays([pa.array([value["a"]], storage).cast(MOMENT)], ["a"])
    else:
        column = pa.array([value]) if isinstance(value, bytes) else pa.array([value], storage).cast(kind)
    assert shown in error_of(b'{"ts":', column)


def test_errors_do_not_grow_with_values() -> None:
    long = b"a" * 3_000_000
    assert len(error_of(b'{"ts":"' + long + b'"}', pa.array([long.decode()]))) < 2000
