"""The benchmark of many streams, with sizes small enough for a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from experiments import experiments

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("name", experiments("multiway"))
def test_experiment_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["multiway", "--quick", "--only", name, "--out", str(tmp_path)]) == 0
    assert f"=== {name}: " in capsys.readouterr().out
    written = json.loads((tmp_path / f"{name}.json").read_text())
    assert written["runs"]
    assert written["tables"]
    assert (tmp_path / f"multiway_{name}.png").is_file()
