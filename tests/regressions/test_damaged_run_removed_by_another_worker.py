"""A worker held a run's file mapped; the file was cut short, another worker noticed and removed it, and the first one
took that for a file that was merely gone: it read what is no longer there, and crashed.
"""

from __future__ import annotations

import os
from pathlib import Path

from watersmeet.spark.run_cache import RunCache


def test_a_file_damaged_and_then_removed_is_not_taken_for_intact(tmp_path: Path) -> None:
    cache = RunCache(tmp_path, 10_000)
    cache.put("one", bytes(1000))
    cache.put("two", bytes(1000))
    damaged, removed = cache.get("one"), cache.get("two")
    assert damaged is not None
    assert removed is not None
    os.truncate(tmp_path / "one.run", 100)
    assert cache.get("one") is None
    assert not (tmp_path / "one.run").exists()
    cache.drop("two")
    assert not damaged.is_intact
    assert removed.is_intact
