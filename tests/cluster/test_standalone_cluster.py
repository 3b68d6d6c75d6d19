"""A cluster ends with the process that started it, however that ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from outliving import check_that_all_end_with_their_starter

STARTER = """
import sys
from pathlib import Path
from benchmarks.standalone_cluster import StandaloneCluster

cluster = StandaloneCluster(Path(sys.argv[1]))
cluster.add_worker()
cluster.await_workers()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.long
def test_no_worker_outlives_a_starter_that_is_killed(tmp_path: Path) -> None:
    check_that_all_end_with_their_starter(STARTER, tmp_path, says="ready", marked="spark.deploy")
