"""Files told their age by the clock that people and time servers set.

Set forward by hours, it made pairs that their reader was just going to take look abandoned: they were removed, and the
task failed. Set back, it made the run opened last look like the one not opened for longest, which then made room.
"""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

from watersmeet.spark.result_files import read_results, write_results
from watersmeet.spark.run_cache import RunCache

PAIRS = pa.table({"x": [1, 2, 3]})
SECONDS = 90_000.0


def _set_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    wall, nanoseconds = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: wall() + seconds)
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds() + int(seconds) * 10**9)


@pytest.mark.parametrize("seconds", [SECONDS, -SECONDS])
def test_pairs_wait_for_their_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    name = write_results(PAIRS)
    _set_clock(monkeypatch, seconds)
    assert write_results(PAIRS) is not None
    assert name is not None
    assert read_results(name).read_all() == PAIRS


@pytest.mark.parametrize("seconds", [SECONDS, -SECONDS])
def test_the_run_opened_last_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    cache = RunCache(tmp_path, 1000)
    for name in ("one", "two", "three"):
        cache.put(name, bytes(250))
    _set_clock(monkeypatch, seconds)
    assert cache.get("one") is not None
    cache.put("four", bytes(250))
    assert cache.get("two") is None
    assert cache.get("one") is not None
