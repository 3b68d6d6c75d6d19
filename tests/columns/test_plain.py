"""Plain columns as words, and back: whatever the width, the slice and the nulls."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.columns.plain import from_words, is_plain, word_type, words_of

PLAIN: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [-128, 0, 127]),
    "half": (pa.float16(), [np.float16(0.5), np.float16(-1), np.float16(2)]),
    "date": (pa.date32(), [date(1970, 1, 1), date.max, date.min]),
    "int64": (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    "double": (pa.float64(), [0.0, float("inf"), -1.5]),
    "time": (pa.timestamp("us", "UTC"), [0, 1, 2]),
    "decimal": (pa.decimal128(20, 2), [Decimal("1.25"), Decimal(0), Decimal("-7.50")]),
    "wide": (pa.decimal256(60, 0), [Decimal(10) ** 59, Decimal(0), Decimal(-3)]),
    "fixed": (pa.binary(3), [b"abc", b"\0\0\0", b"xyz"]),
}


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("begin", [0, 1, 3])
def test_words_come_back_as_the_values_they_were(name: str, begin: int) -> None:
    kind, values = PLAIN[name]
    assert is_plain(kind)
    column = pa.array([*values, None, *values], kind).slice(begin)
    words = words_of(column)
    assert words.dtype == word_type(kind)
    assert words.itemsize == kind.bit_width // 8
    valid = np.packbits(np.asarray(column.is_valid()), bitorder="little")
    assert from_words(kind, words, valid).equals(column)
    assert from_words(kind, words_of(column.drop_null())).equals(column.drop_null())


@pytest.mark.parametrize("name", PLAIN)
def test_a_column_without_rows_may_have_no_memory(name: str) -> None:
    kind, _ = PLAIN[name]
    for column in (pa.array([], kind), pa.Array.from_buffers(kind, 0, [None, None])):
        assert words_of(column).dtype == word_type(kind)
        assert len(from_words(kind, words_of(column))) == 0


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.bool_(), pa.null(), pa.list_(pa.int8()), pa.dictionary(pa.int8(), pa.int64()), pa.binary()],
    ids=str,
)
def test_other_columns_are_not_plain(kind: pa.DataType) -> None:
    assert not is_plain(kind)
