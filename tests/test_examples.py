"""The programs under ``examples/`` run as they stand, each in a process of its own, and print what they should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples"
PRINTED = {
    "in_process_service": "114 pairs; the same as without a crash: True",
    "band_join_of_folders": "first start: 21961 pairs\nsecond start: 32961 pairs",
    "outer_join_with_late_rows": "paid: [1, 3, 4, 5]\nnever paid in time: [2]\nlate payments: [2]",
    "chain_of_two_joins": "paid: 3 pairs\nsent: 2 pairs\norders sent in time: [1, 3]",
}
SHORT = {"in_process_service"}
"""Those that need no Spark."""


def test_every_example_is_run() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SHORT else pytest.mark.long) for name in PRINTED]
)
def test_example_prints_what_it_should(tmp_path: Path, name: str) -> None:
    file = str(FOLDER / f"{name}.py")
    program = f"import runpy, sys; sys.path[:] = {sys.path!r}; runpy.run_path({file!r}, run_name='__main__')"
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() == PRINTED[name]
