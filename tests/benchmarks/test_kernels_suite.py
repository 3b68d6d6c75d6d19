"""The benchmark, with sizes small enough for a test: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import watersmeet
from benchmarks.__main__ import main
from benchmarks.data import DISTRIBUTIONS, KEY_RANGE, band_for, draw_keys, stream_rows
from benchmarks.report import Goal, Table, format_goal, show_table
from benchmarks.ticks import read_ticks
from experiments import experiments

pytest.importorskip("duckdb")
pytest.importorskip("matplotlib")
pytest.importorskip("polars")

RECORDED = {"experiment", "purpose", "seed", "shape", "expected", "quick", "started", "seconds", "machine", "runs"}
PNG = b"\x89PNG"


@pytest.mark.parametrize("name", experiments("kernels"))
def test_experiment_prints_tables_and_writes_json_and_plots(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # away from real data: ticks are generated
    assert main(["kernels", "--quick", "--only", name, "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert f"=== {name}: " in printed
    assert "quick run: goals not judged" in printed
    assert "WRONG" not in printed
    written = json.loads((tmp_path / "out" / f"{name}.json").read_text())
    assert written.keys() >= RECORDED
    assert written["quick"] is True
    assert written["machine"].keys() >= {"cpu", "cores", "versions", "load_average", "python"}
    assert written["runs"]
    assert all(len(row) == len(table["columns"]) for table in written["tables"] for row in table["rows"])
    assert all(table["title"] in printed for table in written["tables"])
    for plot in written["plots"]:
        assert (tmp_path / "out" / plot).read_bytes().startswith(PNG)


def test_two_trees_take_turns_at_the_same_pushes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = Path(watersmeet.__file__).parents[1]
    given = ["kernels", "--quick", "--only", "push", "--against", str(tree), "--out", str(tmp_path)]
    assert main(given) == 0
    assert "time of pushes of 256 rows a side, this tree against the older one" in capsys.readouterr().out
    written = json.loads((tmp_path / "push_against.json").read_text())
    assert written["against"] == str(tree)
    turns = [[run for run in written["runs"] if run["what"] == name] for name in ("this tree", "older tree")]
    pairs = [[(turn["large"]["pairs"], turn["small"]["pairs"]) for turn in some] for some in turns]
    assert pairs[0] == pairs[1] != []


def test_tree_without_the_package_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "--against", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert "a folder with the package watersmeet/ in it" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_experiment_that_cannot_compare_trees_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = Path(watersmeet.__file__).parents[1]
    assert main(["kernels", "--only", "memory", "--against", str(tree), "--out", str(tmp_path)]) == 1
    assert "experiments that can compare: push" in capsys.readouterr().err


def test_unknown_suite_is_refused_with_the_suites_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["everything"])
    assert stopped.value.code == 2
    assert "invalid choice: 'everything' (choose from " in (refusal := capsys.readouterr().err)
    assert "kernels" in refusal


def test_unknown_experiment_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["kernels", "--only", "nothing"])
    assert stopped.value.code == 2
    assert "insertion" in capsys.readouterr().err


def test_data_folder_without_ticks_is_refused_in_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kernels", "--quick", "--data", str(tmp_path), "--out", str(tmp_path)]) == 1
    refusal = capsys.readouterr().err
    assert "a folder with a folder ticks/ in it" in refusal
    assert "Traceback" not in refusal


@pytest.mark.parametrize("distribution", list(DISTRIBUTIONS))
def test_keys_follow_from_the_seed(distribution: str) -> None:
    keys = draw_keys(distribution, 10_000, seed=5)
    assert np.array_equal(keys, draw_keys(distribution, 10_000, seed=5))
    assert not np.array_equal(keys, draw_keys(distribution, 10_000, seed=6))
    assert keys.min() >= 0
    assert keys.max() < KEY_RANGE


def test_rank_size_keys_lie_in_a_hundredth_of_the_range() -> None:
    keys = draw_keys("rank_size", 100_000, seed=5)
    assert np.mean(keys < KEY_RANGE // 100) == pytest.approx(0.99, abs=0.002)


def test_band_meets_as_many_keys_as_wanted() -> None:
    keys = np.sort(draw_keys("normal", 50_000, seed=5))
    probing = draw_keys("normal", 2_000, seed=6)
    half = band_for(keys, probing, 4)
    met = np.searchsorted(keys, probing + half, "right") - np.searchsorted(keys, probing - half, "left")
    assert met.mean() == pytest.approx(4, rel=0.05)


def test_stream_rows_can_be_made_again() -> None:
    assert stream_rows("left", 3, 100, seed=1).equals(stream_rows("left", 3, 100, seed=1))
    assert not stream_rows("left", 3, 100, seed=1)["key"].equals(stream_rows("right", 3, 100, seed=1)["key"])


def test_real_ticks_are_in_the_order_of_time(shared_data: Path) -> None:
    trades, quotes = read_ticks(shared_data, "20131007")
    assert trades.column_names == ["ts", "symbol", "price"]
    assert quotes.column_names == ["ts", "symbol", "bid"]
    for ticks in (trades, quotes):
        assert np.all(np.diff(np.asarray(ticks["ts"]).astype(np.int64)) >= 0)


def test_table_lines_numbers_up_and_keeps_words_left(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(Table("title", ("what", "rows/s"), [("a", 1_234_567.0), ("long name", None)]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].strip() == "title"
    assert lines[-3:-1] == ["│ a         │ 1.23 M │", "│ long name │      - │"]


def test_goal_says_whether_it_was_reached() -> None:
    assert format_goal(Goal("x", 2.0, 1.3, at_least=False)).endswith("wanted at most 1.3x: NOT reached")
    assert format_goal(Goal("x", 2.0, 1.3, at_least=True)).endswith("wanted at least 1.3x: reached")
    assert format_goal(Goal("x", 1.6987, 1.7, at_least=True)) == "goal: x: 1.6987x, wanted at least 1.7x: NOT reached"


def test_run_that_is_cut_off_writes_what_it_has(tmp_path: Path) -> None:
    tree = Path(watersmeet.__file__).parents[1]
    command = [sys.executable, "-m", "benchmarks", "kernels", "--quick", "--only", "push", "--against", str(tree)]
    search = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)
    running = subprocess.Popen(
        [*command, "--out", tmp_path], stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": search}
    )
    with running:
        assert running.stdout is not None
        assert any("expected" in line for line in running.stdout), "the experiment has begun"
        running.terminate()
        running.stdout.read()
    assert running.returncode == 130
    written = json.loads((tmp_path / "push_against.json").read_text())
    assert written["cut_off"] is True
    assert written["notes"] == ["cut off: only what had been measured by then"]
