"""The benchmark of the join on Spark, with sizes small enough for a test, and the files that its queries read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet
from benchmarks.__main__ import main
from benchmarks.contestant import Arena, MicroBatch
from benchmarks.experiment import Context, DisagreementError
from benchmarks.experiments.spark.spark_join import _agreed_pairs
from benchmarks.report import Progress
from benchmarks.suite import SUITES

pytest.importorskip("matplotlib")

KINDS = ("ours", "ours, left", "ours, full", "ours, semi", "ours, anti")
CONTEXT = Context(quick=True, progress=Progress("test"))


def _run_quick(name: str, out: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Run an experiment and return what it wrote."""
    assert main(["spark", "--quick", "--only", name, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert f"=== {name}: " in printed
    written: dict[str, Any] = json.loads((out / f"{name}.json").read_text())
    assert written["quick"] is True
    return written


@pytest.mark.long
def test_speed_compares_the_join_with_the_empty_pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = _run_quick("speed", tmp_path, capsys)
    ours = [run for run in written["runs"] if run["what"] == "ours"]
    empty = [run for run in written["runs"] if run["what"] == "empty pipeline"]
    assert [run["rows"] for run in ours] == [run["rows"] for run in empty] != []
    assert all(run["pairs"] == pytest.approx(run["rows"], rel=0.1) for run in ours)
    assert all(run["pairs"] == 0 for run in empty)
    assert all(len(run["cores"]) == 2 for run in (*ours, *empty))
    assert all(sum(core["rows_in"] for core in run["cores"]) >= run["rows"] for run in ours)
    assert (tmp_path / "speed.png").is_file()


@pytest.mark.long
def test_kinds_of_joins_agree_on_what_they_find(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = _run_quick("kinds", tmp_path, capsys)
    given = {what: sum(run["unmatched_rows"] for run in written["runs"] if run["what"] == what) for what in KINDS}
    assert given["ours"] == given["ours, semi"] == 0 < given["ours, left"] == given["ours, anti"] < given["ours, full"]


@pytest.mark.long
def test_two_trees_take_turns_at_the_same_micro_batches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = Path(watersmeet.__file__).parents[1]
    given = ["spark", "--quick", "--only", "small_batches", "--against", str(tree), "--out", str(tmp_path)]
    assert main(given) == 0
    assert "time of a micro-batch, this tree against the older one" in capsys.readouterr().out
    runs = json.loads((tmp_path / "small_batches_against.json").read_text())["runs"]
    assert {run["what"] for run in runs} == {"ours", "ours before", "empty pipeline"}


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in SUITES["spark"].experiments if name != "speed"])
def test_experiment_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = _run_quick(name, tmp_path, capsys)
    assert written["runs"]
    assert written["goals"]


def test_unknown_experiment_is_refused_with_those_of_the_suite(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["spark", "--only", "insertion"])
    assert stopped.value.code == 2
    assert "spark_join" in capsys.readouterr().err


def test_streams_are_the_same_however_they_are_cut() -> None:
    with Arena.open(CONTEXT, seed=3, block=50) as arena:
        whole = pq.read_table(arena.file("left", 100, 200))
        parts = pa.concat_tables([pq.read_table(arena.file("left", first, 100)) for first in (100, 200)])
        files = [arena.file("left", first, 50) for first in (0, 50, 100)]
        milliseconds = [file.stat().st_mtime_ns // 10**6 for file in files]
    assert whole.equals(parts)
    assert np.all(np.diff(np.asarray(whole["ts"]).astype(np.int64)) == 1)
    assert sorted(set(milliseconds)) == milliseconds, "Spark reads files in the order of their milliseconds"


def test_failure_of_a_process_is_told_and_the_scratch_folder_removed() -> None:
    with Arena.open(CONTEXT, seed=3, block=10) as arena:
        contestant = arena.enter("nobody", 10)
        with pytest.raises(RuntimeError, match="the task nobody failed"):
            contestant.turn(1, 10)
        assert arena.folder.exists()
    assert not arena.folder.exists()


def test_different_numbers_of_pairs_are_refused() -> None:
    def batch(rows: int, pairs: int) -> MicroBatch:
        seconds, found = {"seconds": 1.0, "add_batch_seconds": 1.0}, {"rows": rows, "pairs": pairs}
        return {**found, **seconds, "unmatched_rows": 0, "state_rows": 0, "cores": []}  # type: ignore[typeddict-item]

    ours, agreeing = [batch(20, 9), batch(20, 8)], [batch(20, 9), batch(10, 5), batch(10, 3)]
    assert _agreed_pairs("band", {"ours": ours, "Spark, format 4": agreeing}, 20) == 17
    with pytest.raises(DisagreementError, match="differ"):
        _agreed_pairs("band", {"ours": ours, "Spark, format 4": [*agreeing[:2], batch(10, 4)]}, 20)
