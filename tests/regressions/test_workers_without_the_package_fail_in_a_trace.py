"""The first micro-batch ended in a trace of the JVM's where ``PYSPARK_PYTHON`` lacked the package."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.long  # each starts a Spark of its own

PROGRAM = """
import watersmeet as wm

spark = wm.session(cores=1)
frame = spark.range(3)
try:
    wm.join(frame, frame, wm.equal("id"), wm.count_window(3))
except wm.SpecificationError as refusal:
    print(refusal)
"""


def _refusal(python: Path) -> list[str]:
    """Return what ``wm.join`` says in a process whose workers run ``python``."""
    environment = os.environ | {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True, timeout=300, check=True
    )
    return run.stdout.splitlines()


def test_a_python_that_lacks_the_package(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    given, allowed, next_step = _refusal(tmp_path / "bare" / "bin" / "python")
    assert given.startswith("the Python of Spark's workers cannot run the join: No module named")
    assert "watersmeet[spark]" in allowed
    assert f"set PYSPARK_PYTHON before the session begins; here to {sys.executable}" in next_step


def test_a_python_that_is_not_there(tmp_path: Path) -> None:
    assert "cannot run the join: Cannot run program" in _refusal(tmp_path / "no-such-python")[0]
