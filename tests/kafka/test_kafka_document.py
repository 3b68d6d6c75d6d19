"""The page on Kafka: its Python runs in a process of its own, against a broker, and prints what the page shows."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from broker import Broker
from documents import examples_of
from jars import jars

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "kafka.md"
PLACE = "localhost:9092"
END = "=== end of an example ==="


@pytest.mark.long
def test_document_runs_as_it_stands(tmp_path: Path) -> None:
    """Only the broker's place is another one, and the session gets the connector from outside."""
    examples = examples_of(DOCUMENT)
    with Broker(tmp_path / "broker") as broker:
        broker.create("trades", "quotes", "pairs")
        code = "".join(f"{example.code}\nprint({END!r})\n" for example in examples)
        assert PLACE in code
        finished = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{code.replace(PLACE, broker.servers)}"],
            env=os.environ | {"PYSPARK_SUBMIT_ARGS": shlex.join(["--jars", _joined(), "pyspark-shell"])},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert finished.returncode == 0, finished.stderr
    printed = finished.stdout.split(f"{END}\n")
    assert printed.pop() == ""
    for example, part in zip(examples, printed, strict=True):
        example.compare(part)


def _joined() -> str:
    return ",".join(map(str, jars("connector")))
