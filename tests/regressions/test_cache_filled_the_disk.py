"""What is kept for speed had fixed limits, 8 GiB of runs and 4 GiB of pairs, whatever the disk had left."""

from __future__ import annotations

import shutil
from collections import namedtuple
from pathlib import Path

import pyarrow as pa
import pytest

from watersmeet.spark.result_files import write_results
from watersmeet.spark.run_cache import RunCache

Usage = namedtuple("Usage", "total used free")  # noqa: PYI024 -- as shutil has it


def test_nothing_is_written_on_a_disk_that_is_nearly_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(500 << 30, 499 << 30, 1 << 30))
    cache = RunCache.of_executor(8 << 30)
    assert cache is not None
    cache.put("one", b"content")
    assert cache.get("one") is None
    assert write_results(pa.table({"x": [1]})) is None
