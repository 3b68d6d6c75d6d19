"""A window with more than 2 GiB of text died: small chunks were merged by their rows alone, and Arrow's offsets ended.

The limit is patched to a few kilobytes, so that the test needs no more.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.window import chunks
from watersmeet.window.chunks import ChunkedRows, Chunks
from watersmeet.window.payload import Extent

PUSHES, ROWS, WIDTH = 80, 36, 100
LIMIT = 8 * ROWS * (WIDTH + 40)
SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.timestamp("us")), ("s", pa.string())])


@pytest.fixture(autouse=True)
def _limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "MOST_BYTES", LIMIT, raising=False)


def rows(push: int) -> pa.Table:
    numbers = range(push * ROWS, (push + 1) * ROWS)
    return pa.table([numbers, pa.array(numbers, pa.timestamp("us")), ["x" * WIDTH] * ROWS], schema=SCHEMA)


def batch(push: int, kind: pa.DataType) -> pa.RecordBatch:
    texts = [f"{push:03}-{number:02}" + "x" * WIDTH for number in range(ROWS)]
    values = {"list": [[text] for text in texts], "binary": [text.encode() for text in texts]}
    named = "list" if pa.types.is_list(kind) else "binary" if pa.types.is_binary(kind) else ""
    return pa.record_batch([pa.array(values.get(named, texts)).cast(kind)], names=["s"])


def check_sizes(held: Chunks) -> None:
    assert 1 < len(held.chunks) < PUSHES
    assert max(chunk.rows.nbytes for chunk in held.chunks) <= LIMIT


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.binary(), pa.list_(pa.string()), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_sealed_rows(kind: pa.DataType) -> None:
    pieces = [batch(push, kind) for push in range(PUSHES)]
    held = ChunkedRows(1 << 20)
    for piece in pieces:
        held.append(piece, None, Extent(0, 0))
    held.seal()
    check_sizes(held)
    saved = [rows for rows, _ in held.save()]
    assert [text for piece in saved for text in piece["s"].to_pylist()] == [
        text for piece in pieces for text in piece["s"].to_pylist()
    ]


def test_dictionary_that_all_chunks_share_does_not_count_for_each() -> None:
    words = pa.array([f"{number:05}" + "x" * WIDTH for number in range(LIMIT // WIDTH)])
    held = ChunkedRows(1 << 20)
    for push in range(64):
        shared = pa.DictionaryArray.from_arrays(pa.array([push, push + 1], pa.int32()), words)
        held.append(pa.record_batch([shared], names=["s"]), None, Extent(0, 0))
    assert len(held.chunks) == 2


def test_window_goes_on() -> None:
    join = wm.StreamJoin(
        left=SCHEMA, right=SCHEMA, on="left.k = right.k", window=wm.time_window("1 hour", ts="t"), topology="kang"
    )
    for push in range(PUSHES):
        join.push(left=rows(push))
    assert join.push(right=rows(7)).num_rows == ROWS


def test_many_streams_go_on() -> None:
    join = wm.MultiStreamJoin(
        streams={"a": SCHEMA, "b": SCHEMA}, on="a.k = b.k", window=wm.time_window("1 hour", ts="t")
    )
    for push in range(PUSHES):
        join.push(a=rows(push))
    check_sizes(join._strategy.stages.of["a"].rows)
    assert join.push(b=rows(7)).num_rows == ROWS
