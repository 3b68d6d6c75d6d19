"""Spark's scratch folder: where it is, and how much of its disk is left to others. No session is needed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from watersmeet.spark.scratch import RESERVED_BYTES, room_on_disk, scratch_folder


@pytest.mark.parametrize(
    ("folders", "expected"), [("/a", Path("/a/runs")), ("/a/b,/c", Path("/a/b/runs")), ("", None), (None, None)]
)
def test_the_first_of_sparks_folders(
    monkeypatch: pytest.MonkeyPatch, folders: str | None, expected: Path | None
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    if folders is not None:
        monkeypatch.setenv("SPARK_LOCAL_DIRS", folders)
    assert scratch_folder("runs") == expected


@pytest.mark.parametrize(
    ("total", "free", "room"),
    [
        (100 * RESERVED_BYTES, 5 * RESERVED_BYTES, 4 * RESERVED_BYTES),
        (100 * RESERVED_BYTES, 0, -RESERVED_BYTES),
        (1000, 500, 400),  # of a small disk a tenth
        (1000, 50, -50),
    ],
)
def test_part_of_the_disk_is_left_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, total: int, free: int, room: int
) -> None:
    disk = shutil._ntuple_diskusage(total, total - free, free)  # type: ignore[attr-defined]
    monkeypatch.setattr("watersmeet.spark.scratch.shutil.disk_usage", lambda _: disk)
    assert room_on_disk(tmp_path) == room
