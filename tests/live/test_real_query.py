"""A page of a real query, on Classic and on Connect: it tells every micro-batch once, and ends with the query."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import serving_program


@pytest.mark.long
@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_a_real_query_is_shown_to_its_end(tmp_path: Path, kind: str) -> None:
    finished = subprocess.run(
        [sys.executable, serving_program.__file__, kind],
        env=os.environ | {"PYTHONPATH": ":".join(filter(None, sys.path)), "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    answer = json.loads(finished.stdout.splitlines()[-1])
    assert (".connect." in answer["session"]) == (kind == "connect")
    assert answer["numbers"] == answer["true numbers"]
    assert answer["numbers"][:3] == [0, 1, 2]
    assert answer["ended"].count(True) == 1
    assert answer["ended"][-1]
    assert answer["pairs"] == answer["true pairs"] > 1_000
    assert answer["server has ended"]
    assert answer["threads"] == []
