"""Types: what may be compared and combined, as Spark's ANSI rules say, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.typing import ValueType, check_predicate, type_of, value_type

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("u", pa.uint64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("m", pa.decimal128(10, 2)),
        ("s", pa.string()),
        ("y", pa.binary()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("us")),
        ("n", pa.timestamp("ns")),
        ("day", pa.date32()),
        ("span", pa.duration("ms")),
        ("list", pa.list_(pa.int32())),
        ("clock", pa.time64("us")),
        ("cat", pa.dictionary(pa.int8(), pa.string())),
    ]
)
SCHEMAS = {"left": SCHEMA, "right": SCHEMA}


@pytest.mark.parametrize(
    "text",
    [
        "left.i = right.s",
        "left.b = right.i",
        "left.t = right.i",
        "left.day = right.i",
        "left.s = right.y",
        "left.t = right.span",
        "left.s + 1 = right.i",
        "left.b + 1 = right.i",
        "left.t + 1 = right.t",
        "left.t + right.t = right.t",
        "left.t * 2 = right.t",
        "left.day * 2 = right.day",
        "1 - left.day = right.day",
        "left.span - left.t = right.t",
        "left.span / 2 = right.span",
        "-left.s = right.s",
        "-left.t = right.t",
        "ABS(left.s) = right.s",
        "LEAST(left.i, right.s) = 1",
        "CAST(left.s AS INT) = right.i",
        "CAST(left.i AS STRING) = right.s",
        "CAST(left.t AS BIGINT) = right.l",
        "CAST(left.d AS DECIMAL(10,2)) = right.m",
        "CAST(left.i AS DATE) = right.day",
        "left.i",
        "left.i AND right.b",
        "NOT left.s",
        "left.list = right.list",
        "left.clock = right.clock",
        "left.list IS NULL",
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(wm.ColumnTypeError) as caught:
        check_predicate(parse_predicate(text), SCHEMAS)
    assert "allowed:" in str(caught.value)
    assert "next step:" in str(caught.value)
    assert isinstance(caught.value, wm.WatersmeetError)


@pytest.mark.parametrize(
    "text",
    [
        "left.i = right.d",
        "left.u = right.m",
        "left.s = right.cat",
        "left.day < right.t",
        "left.n >= right.t",
        "left.t - right.t <= left.span",
        "left.t + INTERVAL 1 SECOND > right.t + left.span",
        "left.day + 1 = right.day - INTERVAL 1 DAY",
        "INTERVAL 1 DAY + left.day = right.day",
        "3 * INTERVAL 1 SECOND = left.span",
        "left.b = (right.i = 1)",
        "left.b AND NOT right.b",
        "left.s = NULL",
        "NULL",
        "CAST(NULL AS DATE) = left.day",
        "CAST(left.b AS INT) = right.i",
        "left.y = right.y",
    ],
)
def test_allowed(text: str) -> None:
    check_predicate(parse_predicate(text), SCHEMAS)


@pytest.mark.parametrize(
    ("text", "kind", "digits", "scale"),
    [
        ("left.i + left.l", "int", 21, 0),
        ("left.i * left.l", "int", 31, 0),
        ("left.i / left.l", "double", 0, 0),
        ("left.i + left.m", "decimal", 13, 2),
        ("left.m * left.m", "decimal", 21, 4),
        ("left.m / left.m", "decimal", 23, 13),
        ("left.f + left.f", "float", 0, 0),
        ("left.f / left.f", "double", 0, 0),
        ("left.f + left.i", "double", 0, 0),
        ("left.u", "decimal", 20, 0),
        ("left.day + 1", "date", 10, 0),
        ("left.day + INTERVAL 1 HOUR", "timestamp", 19, 6),
        ("left.n - left.t", "interval", 19, 9),
        ("GREATEST(left.i, left.d)", "double", 0, 0),
        ("CAST(left.i AS DECIMAL(12,3))", "decimal", 12, 3),
    ],
)
def test_type_of(text: str, kind: str, digits: int, scale: int) -> None:
    (value,) = parse_predicate(f"({text}) IS NULL").children()
    assert type_of(value, SCHEMAS) == ValueType(kind, digits, scale)  # type: ignore[arg-type]


def test_missing_and_repeated_columns_are_named() -> None:
    with pytest.raises(wm.SchemaError, match="no column 'price' in the right stream"):
        check_predicate(wm.equal("i", "price"), SCHEMAS)
    twice = pa.schema([("i", pa.int32()), ("i", pa.int32())])
    with pytest.raises(wm.SchemaError, match="more than once in the left stream"):
        check_predicate(wm.equal("i"), {"left": twice, "right": SCHEMA})


@pytest.mark.parametrize(
    "arrow", [pa.list_(pa.int32()), pa.struct([("a", pa.int32())]), pa.map_(pa.string(), pa.int32()), pa.time32("s")]
)
def test_types_that_only_travel(arrow: pa.DataType) -> None:
    assert value_type(arrow) is None
