"""A cluster ends with the process that started it, however that ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

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


def _named(folder: Path) -> list[str]:
    """Return the commands of all of Spark's daemons, and of their keepers, that name a folder."""
    commands = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
    return [command for command in commands if str(folder) in command and "spark.deploy" in command]


@pytest.mark.long
def test_no_worker_outlives_a_starter_that_is_killed(tmp_path: Path) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, tmp_path],
        env=os.environ | {"PYTHONPATH": ":".join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "ready\n"
        assert _named(tmp_path)
        starter.kill()
    end = time.monotonic() + 10
    while _named(tmp_path) and time.monotonic() < end:
        time.sleep(0.05)
    assert _named(tmp_path) == []
