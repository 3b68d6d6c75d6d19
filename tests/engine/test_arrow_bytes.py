"""Rows as bytes and back: what was written is read, and nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet.engine.arrow_bytes import DAMAGE, check_rows, read_rows, write_rows

BATCH = pa.record_batch(
    {
        "x": pa.array([1, None, 3]),
        "text": pa.array(["a", "bc", None]),
        "word": pa.array(["a", "b", "a"]).dictionary_encode(),
        "list": pa.array([[1], [], None]),
    }
)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_what_is_written_reads_back(count: int) -> None:
    schema, batches = read_rows(write_rows(BATCH.schema, [BATCH.slice(number) for number in range(count)]))
    assert schema == BATCH.schema
    assert [batch.to_pylist() for batch in batches] == [BATCH.slice(number).to_pylist() for number in range(count)]


@pytest.mark.parametrize("names", [["x"], ["word"], ["x", "text", "word", "list"]], ids=str)
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_rows_are_refused_before_they_are_expanded(codec: str, names: list[str]) -> None:
    some = BATCH.select(names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, some.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(some)
    with pytest.raises(ValueError, match="compressed"):
        read_rows(bytes(sink.getvalue()))


def test_bytes_behind_the_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="5 bytes follow the rows"):
        read_rows(write_rows(BATCH.schema, [BATCH]) + b"extra")


def test_a_stream_that_ends_early_gives_no_rows() -> None:
    """Arrow takes the end of the bytes for the end of the stream where a message could begin."""
    whole = write_rows(BATCH.schema, [BATCH])
    for size in range(0, len(whole) - 16, 8):
        try:
            _, batches = read_rows(whole[:size])
        except DAMAGE:
            continue
        assert batches == []


def test_nulls_where_there_must_be_none_are_refused() -> None:
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    check_rows(pa.record_batch([pa.array([1, 2])], schema=schema))
    with pytest.raises(ValueError, match="column 'x' has nulls"):
        check_rows(pa.record_batch([pa.array([1, None])], schema=schema))


def test_an_index_beyond_its_dictionary_is_refused() -> None:
    wrong = pa.DictionaryArray.from_arrays(pa.array([0, 9], pa.int8()), pa.array(["a"]), safe=False)
    with pytest.raises(DAMAGE):
        check_rows(pa.record_batch({"word": wrong}))
