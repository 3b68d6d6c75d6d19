"""The checksum of a cached run was the sum and the exclusive or of its words: both are blind to where a word stands."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from watersmeet.spark.run_cache import RunCache


def test_two_words_in_each_others_place_are_seen(tmp_path: Path) -> None:
    cache = RunCache(tmp_path, 10_000)
    cache.put("one", np.arange(20).tobytes())
    file = tmp_path / "one.run"
    content = np.frombuffer(file.read_bytes(), np.int64).copy()
    content[[-3, -8]] = content[[-8, -3]]
    file.write_bytes(content.tobytes())
    assert cache.get("one") is None
