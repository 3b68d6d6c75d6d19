"""The benchmark of the topologies, with sizes small enough for a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import rig as rig_module
from benchmarks.__main__ import main
from benchmarks.rig import NESTED_LOOP_TOPOLOGIES, Rig
from benchmarks.suite import SUITES

pytest.importorskip("matplotlib")


@pytest.mark.parametrize("piece", [128, 1 << 22])
def test_rigs_of_all_topologies_find_the_same_pairs(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig_module, "PIECE", piece)
    found = {}
    for topology in NESTED_LOOP_TOPOLOGIES:
        for apart in (None, 2.0):
            rig = Rig(topology, 500, 3, 16, seed=1, values=100, apart=apart)
            pairs = sum(rig.feed(100)[1] for _ in range(3))
            found[topology, apart] = pairs + sum(table.num_rows for table in rig.engine.owed())
            rig.close()
    assert len({pairs for (_, apart), pairs in found.items() if apart is None}) == 1
    assert len({pairs for (_, apart), pairs in found.items() if apart is not None}) == 1
    assert min(found.values()) > 1000


@pytest.mark.long
@pytest.mark.parametrize("name", SUITES["engine"].experiments)
def test_experiment_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["engine", "--quick", "--only", name, "--out", str(tmp_path)]) == 0
    assert f"=== {name}: " in capsys.readouterr().out
    written = json.loads((tmp_path / f"{name}.json").read_text())
    assert written["quick"] is True
    assert written["runs"]
    assert written["tables"]


def test_the_model_agrees_with_the_formula(tmp_path: Path) -> None:
    assert main(["engine", "--quick", "--only", "lock_step", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "lock_step.png").is_file()
