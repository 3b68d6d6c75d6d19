"""Pairs between two Python workers: in a file where one can be written, as blobs where not."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pyarrow as pa
import pytest

from watersmeet.spark import result_files
from watersmeet.spark.envelope import to_blobs
from watersmeet.spark.result_files import FOLDER, read_results, unpacker, write_results

PAIRS = pa.table({"x": range(300_000), "y": [str(number % 7) for number in range(300_000)]})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},another")
    return tmp_path / FOLDER


def test_a_file_is_read_once_and_gone(folder: Path) -> None:
    name = write_results(PAIRS)
    assert name is not None
    batches = list(read_results(name))
    assert pa.Table.from_batches(batches) == PAIRS
    assert max(batch.nbytes for batch in batches) < 2 * result_files.BATCH_BYTES
    assert list(folder.iterdir()) == []


def test_the_unpacker_takes_files_and_blobs(folder: Path) -> None:
    first, rest = PAIRS.slice(0, 1000), PAIRS.slice(1000)
    blobs = to_blobs(rest).to_pylist()
    columns = {"blob": [None, None, *blobs], "file": [write_results(first), None, *[None] * len(blobs)]}
    sent = pa.RecordBatch.from_pydict(columns, pa.schema({"blob": pa.binary(), "file": pa.string()}))
    assert pa.Table.from_batches(unpacker()([sent])) == PAIRS
    assert list(folder.iterdir()) == []


def test_no_file_without_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert write_results(PAIRS) is None


def test_no_file_where_none_can_be_written(folder: Path) -> None:
    folder.write_text("not a folder")
    assert write_results(PAIRS) is None


def test_files_that_nobody_takes_have_a_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_files, "LIMIT_BYTES", 2 * PAIRS.nbytes + 100_000)
    names = [write_results(PAIRS) for _ in range(3)]
    assert names[2] is None
    assert names[0] is not None
    now = time.monotonic()
    monkeypatch.setattr(result_files.time, "monotonic", lambda: now + result_files.ABANDONED_SECONDS + 1)
    assert write_results(PAIRS) is not None, "the others were abandoned"
    assert not (folder / names[0]).exists()


def test_part_of_the_disk_is_left_free(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_files, "room_on_disk", lambda _: PAIRS.nbytes - 1)
    assert write_results(PAIRS) is None
    monkeypatch.setattr(result_files, "room_on_disk", lambda _: PAIRS.nbytes)
    assert write_results(PAIRS) is not None
    assert len(list(folder.iterdir())) == 1


def test_a_disk_that_becomes_full_while_pairs_are_written_leaves_no_file(folder: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (PAIRS.nbytes // 2, before[1]))
    try:
        assert write_results(PAIRS) is None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(folder.iterdir()) == []
