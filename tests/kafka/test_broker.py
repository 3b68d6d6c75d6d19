"""A broker keeps what it is given, and ends with the process that started it, however that ends."""

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
from broker import Broker

broker = Broker(Path(sys.argv[1]))
broker.create("topic")
broker.write("topic", ["one", "two", "three"])
print([(record.partition, record.value) for record in broker.read("topic")], flush=True)
sys.stdin.read()
"""


def _running(folder: Path) -> list[str]:
    """Return the commands that run a broker with its files in a folder, its keeper among them."""
    commands = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
    return [command for command in commands if str(folder) in command and "kafka.Kafka" in command]


@pytest.mark.long
def test_no_broker_outlives_a_starter_that_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, folder],
        env=os.environ | {"PYTHONPATH": ":".join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "[(0, 'one'), (0, 'three'), (1, 'two')]\n"
        assert _running(folder)
        starter.kill()
    end = time.monotonic() + 10
    while _running(folder) and time.monotonic() < end:
        time.sleep(0.05)
    assert _running(folder) == []
