"""Messages as rows, without a session: what pyarrow wrote, what Python's parser reads; nothing of a message is lost."""

from __future__ import annotations

import decimal
import json
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from decoded_messages import ROW, UTC_MOMENT, decoded, written
from watersmeet.spark.decoding import json_rows
from watersmeet.spark.decoding.json_rows import JsonRows
from watersmeet.spec.options import MessageFormat

# --- JSON -----------------------------------------------------------------------------------------------------------

FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "s": st.none() | st.text(max_size=5),
        "x": st.none() | st.integers(-(2**31), 2**31 - 1),
        "f": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "b": st.none() | st.booleans(),
        "l": st.none() | st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3),
        "o": st.none() | st.fixed_dictionaries({}, optional={"s": st.text(max_size=3), "more": st.integers()}),
        "unknown": st.lists(st.dictionaries(st.text(max_size=2), st.integers(), max_size=2), max_size=2),
    },
)
DRAWN = pa.schema(
    [
        ("f", pa.float64()),
        ("s", pa.string()),
        ("l", pa.list_(pa.int64())),
        ("x", pa.int32()),
        ("o", pa.struct([("s", pa.string())])),
        ("b", pa.bool_()),
    ]
)


@given(rows=st.lists(st.none() | FIELDS, max_size=5), indent=st.sampled_from([None, 1]), text=st.booleans())
def test_oracle_json_is_what_pythons_parser_reads(rows: list[Any], indent: int | None, text: bool) -> None:
    messages = [None if row is None else json.dumps(row, indent=indent, ensure_ascii=False).encode() for row in rows]
    expected = []
    for number, row in enumerate(rows):
        known = {name: (row or {}).get(name) for name in DRAWN.names}
        if known["o"] is not None:
            known["o"] = {"s": known["o"].get("s")}
        expected.append(known | {"number": number})
    assert decoded("json", messages, DRAWN, message_type=pa.large_string() if text else None) == (expected, 0)


BAD_JSON = [
    b"null",
    b"5",
    b"[{}]",
    b"{}{}",
    b'{"x":1',
    b',"s":"a"}',
    b'{"x":1.5}',
    b'{"x":2147483648}',
    b'{"x":"1"}',
    b'{"s":1}',
    b'{"s":{}}',
    b'{"s":"\xff"}',
    b'{"s":"a\nb"}',
    b'{"x":1,"x":2}',
    b'{"ts":"soon"}',
    b'{"ts":1767605400}',
    b'{"ts":"2026-02-30"}',
    b'{"x":1,}',
    b"{'x':1}",
    b'{"x":\0}',
]


@pytest.mark.parametrize("message", BAD_JSON, ids=repr)
def test_a_bad_message_is_named_or_left_out_and_counted(message: bytes) -> None:
    messages = [b'{"x":1}', b'{"x":2}', message, b'{"x":3}', None]
    with pytest.raises(wm.SchemaError, match="cannot be decoded as json") as caught:
        decoded("json", messages)
    assert "number 2, of task 0, number 2" in str(caught.value)
    assert repr(message) in str(caught.value)
    rows, left_out = decoded("json", messages, drops_bad=True)
    assert [(row["x"], row["number"]) for row in rows] == [(1, 0), (2, 1), (3, 3), (None, 4)]
    assert left_out == 1


@given(bad=st.sets(st.integers(0, 39)), size=st.integers(1, 40), at_once=st.sampled_from([1, 40, 1 << 20]))
def test_bad_messages_among_others(bad: set[int], size: int, at_once: int) -> None:
    """Whichever of them are bad, and however many are read together, all others are rows, in their order."""
    bad = {number for number in bad if number < size}
    messages = [BAD_JSON[number % len(BAD_JSON)] if number in bad else b'{"x":%d}' % number for number in range(size)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_rows, "TEXT_BYTES", at_once)
        rows, left_out = decoded("json", messages, drops_bad=True)
    assert [row["x"] for row in rows] == [row["number"] for row in rows] == sorted(set(range(size)) - bad)
    assert left_out == len(bad)


def test_nothing_to_read_is_a_row_of_nulls() -> None:
    rows, left_out = decoded("json", [None, b"", b" \r\n\t", b"{}"])
    assert rows == [{"ts": None, "s": None, "x": None, "number": number} for number in range(4)]
    assert left_out == 0


def test_bytes_under_a_null_are_not_read() -> None:
    whole = pa.array([b'{"x":1}', b'{"x":2}'], pa.binary())
    messages = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\x02"), *whole.buffers()[1:]])
    ((rows, numbers),) = JsonRows(ROW, "UTC").read(messages, lambda *_: pytest.fail("none is bad"))
    assert rows["x"].to_pylist() == [None, 2]
    assert numbers.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("2026-01-05T09:30:00.25Z", "Europe/Berlin", datetime(2026, 1, 5, 9, 30, 0, 250_000, UTC)),
        ("2026-01-05T09:30:00.1234567Z", "UTC", datetime(2026, 1, 5, 9, 30, 0, 123_456, UTC)),
        ("2026-01-05 09:30:00.123456789", "UTC", datetime(2026, 1, 5, 9, 30, 0, 123_456, UTC)),
        ("2026-01-05T09:30:00", "Europe/Berlin", datetime(2026, 1, 5, 8, 30, tzinfo=UTC)),
        ("2026-07-05T09:30:00", "Europe/Berlin", datetime(2026, 7, 5, 7, 30, tzinfo=UTC)),
        ("2026-10-25T02:30:00", "Europe/Berlin", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),  # twice: the first time
        ("2026-01-05T09:30+02:00", "Europe/Berlin", datetime(2026, 1, 5, 7, 30, tzinfo=UTC)),
        ("2026-01-05", "+02:00", datetime(2026, 1, 4, 22, 0, tzinfo=UTC)),
        ("1969-12-31T23:59:59.9999999Z", "UTC", datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
    ],
)
def test_moments_in_json(text: str, zone: str, moment: datetime) -> None:
    """Alone, and beside others that are written in another way."""
    for messages in ([text], [text, "2026-01-05T09:30:00Z", None, "2026-01-05T00:00:00"]):
        rows, _ = decoded("json", [json.dumps({"ts": one}).encode() for one in messages], zone=zone)
        assert rows[0]["ts"] == moment


def test_other_types_in_json() -> None:
    schema = pa.schema(
        [
            ("d", pa.date32()),
            ("n", pa.timestamp("us")),
            ("m", pa.decimal128(10, 2)),
            ("deep", pa.list_(pa.struct([("at", UTC_MOMENT), ("on", pa.list_(pa.date32()))]))),
        ]
    )
    message = (
        b'{"d":"2026-01-05","n":"2026-01-05T09:30:00","m":1.5,'
        b'"deep":[{"at":"2026-01-05T09:30:00Z","on":["2026-01-06",null]},null,{"at":null}]}'
    )
    rows, _ = decoded("json", [message, b'{"m":"-12.3","deep":null}'], schema)
    assert rows[0] == {
        "d": date(2026, 1, 5),
        "n": datetime(2026, 1, 5, 9, 30),  # noqa: DTZ001 -- it has no zone
        "m": decimal.Decimal("1.50"),
        "deep": [
            {"at": datetime(2026, 1, 5, 9, 30, tzinfo=UTC), "on": [date(2026, 1, 6), None]},
            None,
            {"at": None, "on": None},
        ],
        "number": 0,
    }
    assert rows[1] == {"d": None, "n": None, "m": decimal.Decimal("-12.30"), "deep": None, "number": 1}
    (more,), _ = decoded("json", [b'{"n":"2026-01-05T09:30:00.1234567"}'], schema)
    assert more["n"].microsecond == 123_456
    for bad in (b'{"n":"2026-01-05T09:30:00Z"}', b'{"m":1.239}', b'{"m":123456789.5}', b'{"d":"2026-1-5x"}'):
        assert decoded("json", [bad], schema, drops_bad=True) == ([], 1)


# --- Arrow and Parquet ----------------------------------------------------------------------------------------------

TABLE = pa.table(
    {
        "more": pa.array([1.5, 2.5, 3.5]),
        "x": pa.array([1, None, 3], pa.int32()),
        "ts": pa.array([0, 1, None], UTC_MOMENT),
        "s": pa.array(["a", None, "c"]),
    }
)
ROWS = TABLE.select(ROW.names).to_pylist()
FORMS: list[tuple[MessageFormat, dict[str, Any]]] = [("arrow", {}), ("arrow", {"file": True}), ("parquet", {})]


@pytest.mark.parametrize(("form", "options"), FORMS, ids=str)
def test_rows_of_messages_by_name(form: MessageFormat, options: dict[str, Any]) -> None:
    """In whichever order their columns come, and of whichever types that have the same values."""
    other = pa.table(
        {
            "s": TABLE["s"].cast(pa.large_string()) if form == "arrow" else TABLE["s"].dictionary_encode(),
            "x": TABLE["x"].cast(pa.int64()),
            "ts": TABLE["ts"].cast(pa.timestamp("ns", "Europe/Berlin")),
        }
    )
    empty = TABLE.slice(0, 0)
    messages = [written(form, table, **options) for table in (TABLE, empty, other)]
    rows, left_out = decoded(form, [None, *messages])
    assert rows == [row | {"number": number} for number in (1, 3) for row in ROWS]
    assert left_out == 0


@pytest.mark.parametrize(("form", "options"), FORMS, ids=str)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (TABLE.drop_columns("x"), "there is no column 'x'"),
        (TABLE.set_column(1, "x", TABLE["x"].cast(pa.string())), "column 'x' is string, not int32"),
        (TABLE.set_column(1, "x", pa.array([2**31] * 3)), "2147483648 not in range"),
        (TABLE.set_column(2, "ts", TABLE["ts"].cast(pa.timestamp("us"))), "column 'ts' is timestamp"),
        (TABLE.set_column(2, "ts", pa.array([1] * 3, pa.timestamp("ns", "UTC"))), "would lose data"),
    ],
    ids=["missing", "text for a number", "too large", "no zone", "nanoseconds"],
)
def test_messages_that_are_no_such_rows(
    form: MessageFormat, options: dict[str, Any], change: pa.Table, said: str
) -> None:
    messages = [written(form, TABLE, **options), written(form, change, **options)]
    with pytest.raises(wm.SchemaError, match=said):
        decoded(form, messages)
    rows, left_out = decoded(form, messages, drops_bad=True)
    assert (len(rows), left_out) == (3, 1)


def test_a_column_that_is_there_twice() -> None:
    twice = pa.Table.from_arrays([*TABLE.columns, TABLE["x"]], names=[*TABLE.column_names, "x"])
    with pytest.raises(wm.SchemaError, match="more than one column 'x'"):
        decoded("arrow", [written("arrow", twice)])


def test_compressed_arrow_is_refused() -> None:
    message = written("arrow", TABLE, options=pa.ipc.IpcWriteOptions(compression="zstd"))
    with pytest.raises(wm.SchemaError, match="its rows are compressed"):
        decoded("arrow", [message])


def test_moments_in_sparks_older_form() -> None:
    message = written("parquet", TABLE, use_deprecated_int96_timestamps=True)
    assert decoded("parquet", [message])[0] == [row | {"number": 0} for row in ROWS]


@pytest.mark.parametrize(("form", "options"), FORMS, ids=str)
def test_a_message_that_was_cut(form: MessageFormat, options: dict[str, Any]) -> None:
    """At any byte: a stream that ends between two batches looks whole to Arrow."""
    whole = written(form, TABLE, **options)
    sizes = range(0, len(whole), 1 if form == "arrow" else 7)
    assert decoded(form, [whole[:size] for size in sizes], drops_bad=True) == ([], len(sizes))


@pytest.mark.parametrize(("form", "options"), FORMS, ids=str)
def test_a_message_with_a_changed_byte(form: MessageFormat, options: dict[str, Any]) -> None:
    """It gives rows, which Arrow finds valid, or is left out; nothing else happens."""
    whole, draw = written(form, TABLE, **options), np.random.default_rng(7)
    messages = []
    for place in draw.choice(len(whole), 300):
        changed = bytearray(whole)
        changed[place] ^= 1 << draw.integers(8)
        messages.append(bytes(changed))
    rows, left_out = decoded(form, messages, ROW.remove(0), drops_bad=True)  # Python has no moments beyond its own
    assert 0 < left_out < 300
    assert rows


def test_a_message_is_left_out_as_a_whole() -> None:
    """Where its first rows can be read and later ones cannot."""
    values = pa.table({"x": pa.array([1] * 1000 + [2**40])}).cast(pa.schema([("x", pa.int64())]))
    schema = pa.schema([("x", pa.int32())])
    for form, options in (("arrow", {}), ("parquet", {"row_group_size": 10})):
        assert decoded(form, [written(form, values, **options)], schema, drops_bad=True) == ([], 1)  # type: ignore[arg-type]
