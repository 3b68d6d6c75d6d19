"""Rows of plain columns are held in arenas: the same rows come out as from chunks, and memory goes back in steps."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.window.arena import CAN_FREE
from watersmeet.window.chunks import ChunkedRows
from watersmeet.window.payload import Extent, Numbers, Payload
from watersmeet.window.plain_rows import PlainRows, can_be_plain

pytestmark = pytest.mark.skipif(not CAN_FREE, reason="this system takes no single pages back, so rows lie in chunks")

SCHEMA = pa.schema(
    [
        ("int8", pa.int8()),
        ("half", pa.float16()),
        ("date", pa.date32()),
        ("double", pa.float64()),
        ("decimal", pa.decimal128(20, 2)),
        ("wide", pa.decimal256(60, 0)),
        ("fixed", pa.binary(3)),
    ]
)


def some_rows(first: int, count: int, *, nulls: bool) -> pa.RecordBatch:
    """Return rows whose values tell their numbers; with ``nulls`` every third value is null."""
    numbers = np.arange(first, first + count)
    columns: list[list[Any]] = [
        [int(n % 100) for n in numbers],
        [np.float16(n % 100) for n in numbers],
        [int(n) for n in numbers],
        [float(n) for n in numbers],
        [Decimal(int(n)) for n in numbers],
        [Decimal(int(n)) ** 5 for n in numbers],
        [(int(n) % 2**24).to_bytes(3, "big") for n in numbers],
    ]
    arrays = []
    for shift, (field, values) in enumerate(zip(SCHEMA, columns, strict=True)):
        some = [None if nulls and (n + shift) % 3 == 0 else value for n, value in zip(numbers, values, strict=True)]
        arrays.append(pa.array(some, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def numbers(first: int, count: int) -> Numbers:
    """Return arrival numbers, and as many rows of the other stream seen."""
    return np.arange(first, first + count), 2 * np.arange(count)


def taken(payload: Payload, who: np.ndarray[Any, Any], row: np.ndarray[Any, Any]) -> list[tuple[Any, ...]]:
    """Return the pairs that survive, as (who, arrival number, values), sorted by who."""
    found = []
    for stored, some_who, some_row in payload.split(who, row):
        assert stored.numbers is not None
        values = stored.rows.take(pa.array(some_row)).to_pylist()
        found += list(
            zip(some_who.tolist(), np.column_stack(stored.numbers)[some_row].tolist(), map(repr, values), strict=True)
        )
    return sorted(found)


@pytest.mark.parametrize("nulls_from", [0, 3, 1000])
@pytest.mark.parametrize("reserve", [1, 10_000])
def test_differential_plain_and_chunked_rows(nulls_from: int, reserve: int) -> None:
    rng = np.random.default_rng(7)
    plain: Payload = PlainRows(SCHEMA, 40, reserve)
    chunked: Payload = ChunkedRows(40)
    history: list[pa.RecordBatch] = []
    departed: dict[bool, list[str]] = {False: [], True: []}
    end = 0
    for number in range(40):
        count = int(rng.integers(1, 60))
        # Sliced, so that values and bits do not begin at the first byte.
        batch = some_rows(end - 5, count + 5, nulls=number >= nulls_from).slice(5)
        history.append(batch)
        for payload in (plain, chunked):
            payload.append(batch, numbers(end, count), Extent(end, end + count - 1))
        end += count
        for payload in (plain, chunked):
            left = payload.expire(end - 300)
            departed[payload is plain] += [row for part in left for row in map(repr, part.rows.to_pylist())]
            assert sum(part.rows.num_rows for part in left) == sum(
                len(part.numbers) for part in left if part.numbers is not None
            )
            assert payload.appended == end
            assert payload.place == Extent(end - payload.held, end - 1)
            assert min(end, 300) <= payload.held <= 300 + 100
        who = np.arange(50, dtype=np.int32)
        row = rng.integers(max(0, end - 300), end, 50).astype(np.int32)
        found = taken(plain, who, row)
        assert len(found) == 50
        assert found == taken(chunked, who, row)
    ((rows, saved),) = plain.save()
    rows.validate(full=True)
    everything = pa.concat_batches(history)
    assert rows.equals(everything.slice(end - plain.held))
    for payload, gone in ((plain, departed[True]), (chunked, departed[False])):
        assert gone == list(map(repr, everything.slice(0, end - payload.held).to_pylist()))
    assert saved is not None
    assert saved[0].tolist() == list(range(end - plain.held, end))


def test_no_pair_with_a_dropped_row_is_left() -> None:
    payload = PlainRows(SCHEMA, 10, 100)
    for first in range(0, 100, 10):
        payload.append(some_rows(first, 10, nulls=False), numbers(first, 10), Extent(first, first + 9))
    assert payload.expire(50)
    assert not payload.expire(50)
    row = np.arange(100, dtype=np.int32)
    assert [number for _, (number, _), _ in taken(payload, row, row)] == list(range(50, 100))
    assert taken(payload, row[:50], row[:50]) == []


def test_keys_that_are_no_column_are_computed_once_for_every_row() -> None:
    schema = pa.schema([("x", pa.int64())])
    payload = PlainRows(schema, 10, 1)
    asked: list[int] = []

    def doubled(rows: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.int64]]:
        asked.append(rows.num_rows)
        return 2 * np.asarray(rows.column(0))

    def as_they_are(rows: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.asarray(rows.column(0))

    raw = 0
    for first in range(0, 2000, 500):
        payload.append(
            pa.record_batch([np.arange(first, first + 500)], schema=schema), None, Extent(first, first + 499)
        )
        raw = payload.nbytes
        assert payload.keys(0, as_they_are).tolist() == list(range(first + 500))
        assert payload.nbytes == raw if not asked else payload.nbytes > 0
        assert payload.keys(1, doubled).tolist() == list(range(0, 2 * (first + 500), 2))
        assert payload.keys(1, doubled)[-1] == 2 * (first + 499)
    assert asked == [500] * 4
    assert payload.nbytes >= raw + 8 * 500


def test_which_schemas_are_plain() -> None:
    assert can_be_plain(SCHEMA)
    for other in (pa.string(), pa.bool_(), pa.list_(pa.int8()), pa.dictionary(pa.int8(), pa.int8()), pa.null()):
        assert not can_be_plain(SCHEMA.append(pa.field("other", other)))


@pytest.mark.parametrize("also", ["", " AND left.v <> right.v"])
def test_window_that_gives_memory_back_misses_no_pair(also: str, monkeypatch: pytest.MonkeyPatch) -> None:
    #   one row a microsecond on both sides; the window spans 8,000 of them, a segment 4,000, a step 1,000
    monkeypatch.setattr("watersmeet.window.creation.SMALLEST_SEGMENT", 1_000)
    count, window, batch = 40_000, 8_000, 1_000
    rng = np.random.default_rng(11)
    sides = {
        side: pa.table(
            {
                "ts": pa.array(np.arange(count), pa.timestamp("us")),
                "x": rng.integers(0, 20_000, count),
                "v": rng.integers(0, 3, count).astype(np.int16),
            }
        )
        for side in ("left", "right")
    }
    join = wm.StreamJoin(
        left=sides["left"].schema,
        right=sides["right"].schema,
        on="left.x BETWEEN right.x - 3 AND right.x + 3" + also,
        window=wm.time_window(f"{window} microseconds", ts="ts"),
        structure="bi_sort",
    )
    found = 0
    for first in range(0, count, batch):
        pairs = join.push(**{side: table.slice(first, batch) for side, table in sides.items()})
        for side, table in sides.items():
            row = pairs[f"{side}_ts"].cast(pa.int64())
            for name in ("x", "v"):
                assert pairs[f"{side}_{name}"].combine_chunks() == table[name].take(row).combine_chunks()
        found += pairs.num_rows
        if first > 3 * window:  # the first segment does not know yet how long it will be, and expires as a whole
            assert join.metrics.left_window_rows <= window + 2 * batch + 1_000
    (lx, lv), (rx, rv) = ([np.asarray(table[name]) for name in ("x", "v")] for table in sides.values())
    expected = 0
    for row in range(count):
        near = slice(max(0, row - window), row + window + 1)
        meets = np.abs(rx[near] - lx[row]) <= 3
        expected += int(np.count_nonzero(meets & (rv[near] != lv[row]) if also else meets))
    assert found == expected
