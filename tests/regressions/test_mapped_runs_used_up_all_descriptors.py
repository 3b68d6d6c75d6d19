"""Every run that a worker had mapped held two open files, so 509 runs used up the 1,024 that a process may open."""

from __future__ import annotations

import os
from pathlib import Path

from watersmeet.spark.run_cache import RunCache

RUNS = 400


def test_descriptors_do_not_grow_with_the_runs(tmp_path: Path) -> None:
    cache = RunCache(tmp_path, 1 << 20)
    for number in range(RUNS):
        cache.put(str(number), bytes(100))
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208 -- a folder that changes while it is read
    found = [cache.get(str(number)) for number in range(RUNS)]
    assert None not in found
    assert len(os.listdir("/dev/fd")) - before < 200  # noqa: PTH208
