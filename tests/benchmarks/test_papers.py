"""Ours beside the papers': every rule tells the same shape from another, and finished results are not taken again."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.papers.facts import CLAIMS, Claim
from benchmarks.papers.figures import FIGURES, PAPERS, Columns, figures_of
from benchmarks.papers.rules import (
    Change,
    Ends,
    Growth,
    Height,
    Highest,
    Knee,
    LeadsFrom,
    Peak,
    Ratio,
    Rule,
    Settled,
    Spread,
    Widening,
)
from benchmarks.plots import draw
from benchmarks.report import Figure, Panel, Series
from benchmarks.suite import SUITES

mpl = pytest.importorskip("matplotlib")

X = [1.0, 2.0, 4.0, 8.0]
LINES = [
    Series("linear", X, [10, 20, 40, 80]),
    Series("root", X, [20, 20 * 2**0.5, 40, 40 * 2**0.5]),
    Series("flat", X[1:], [30, 30, 30]),
    Series("knee", X, [1, 1, 1, 9]),
]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Growth("linear"), 1),
        (Growth("root"), 0.5),
        (Growth(2), 0),
        (Change("linear"), 8),
        (Change("flat"), 1),
        (Ratio("linear", "root", "first"), 0.5),
        (Ratio("linear", "root", "last"), 2**0.5),
        (Ratio("linear", "flat", "first"), 2 / 3),
        (Ratio("linear", "flat", "most"), 8 / 3),
        (Ratio("linear", "flat", "least"), 2 / 3),
        (Ends("linear", "flat"), 37.5 / 30),
        (Ends("linear", "flat", points=1), 80 / 30),
        (Height("linear", 3.9), 40),
        (Height("linear", 100), 80),
        (Highest("flat"), 30),
        (Peak("knee"), 8),
        (Peak("linear"), 8),
        (Spread("linear"), 8),
        (Spread("flat"), 1),
        (LeadsFrom("linear", "root"), 4),
        (LeadsFrom("root", "linear"), math.inf),
        (LeadsFrom("flat", "knee"), 2),
        (Knee("knee", "linear"), 2),
        (Knee("linear", "knee"), 0.5),
        (Knee("flat", "linear"), math.inf),
        (Widening("linear", "knee"), 71 / 9),
    ],
)
def test_rule(rule: Rule, expected: float) -> None:
    assert rule.measured(LINES) == pytest.approx(expected)


def test_curves_settle_where_the_last_of_them_does() -> None:
    lines = [Series("a", [0, 1, 2, 3], [9, 1.2, 1, 1]), Series("b", [0, 1, 2, 3], [9, 9, 1, 1])]
    assert Settled().measured(lines) == 2
    assert Settled(but=("b",)).measured(lines) == 1


def test_one_point_has_no_growth() -> None:
    assert math.isnan(Growth(0).measured([Series("a", [1], [5])]))


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.figure}: {claim.what}")
def test_claim_is_about_a_panel_and_can_fail(claim: Claim) -> None:
    assert claim.panel < len(FIGURES[claim.figure].ours)
    if claim.within is None:
        assert claim.theirs is not None, "what is not judged is at least shown"
        return
    low, high = claim.within
    assert low <= high
    assert (low, high) != (0, math.inf), "no curve could fail"
    if claim.theirs is not None:
        theirs = claim.theirs if isinstance(claim.theirs, tuple) else (claim.theirs,)
        assert all(low <= each <= high for each in theirs), "the paper's own number has the paper's shape"


@pytest.mark.parametrize("bars", [False, True])
def test_what_is_theirs_is_black_and_in_the_legend(bars: bool, tmp_path: Path) -> None:
    lines = [Series("ours", [1], [2]), Series("paper: a point", [1], [3], theirs=True)]
    drawn = draw(Figure("both", "both", [Panel("", "x", "y", lines, bars=bars)]), tmp_path)
    pixels = mpl.image.imread(drawn)[..., :3].reshape(-1, 3)
    ours = [0, 0x72 / 255, 0xB2 / 255]
    assert (abs(pixels - ours).max(axis=1) < 0.01).any()
    assert (pixels.max(axis=1) == 0).sum() > 100, "a black mark, beside the text's thin lines"


def test_columns_of_a_table_are_curves() -> None:
    columns = ["name", "cores", "rate", "most"]
    rows = [["a", 1, 10.0, 11], ["a", 2, 20.0, 21], ["b", 1, 5.0, 6]]
    content = {"tables": [{"title": "t", "columns": columns, "rows": rows}]}
    by_name = Columns("s/e", 0, "cores", ("rate",), "rows/s", by="name").panel_of(content)
    assert by_name.series == [Series("a", [1, 2], [10, 20]), Series("b", [1], [5])]
    assert (by_name.title, by_name.x_label, by_name.y_label) == ("t", "cores", "rows/s")
    both = Columns("s/e", 0, "cores", ("rate", "most"), "rows/s", by="name").panel_of(content)
    assert [line.label for line in both.series] == ["a, rate", "a, most", "b, rate", "b, most"]
    content["tables"][0]["rows"] = [["rows of 1,024", 1, 2.0, 3], ["other", 1, 2.0, 3]]
    words = Columns("s/e", 0, "name", ("rate",), "rows/s", only=r"rows of ([\d,]+)").panel_of(content)
    assert words.series == [Series("rate", [1024], [2])]
    content["tables"][0]["rows"] = [["a", 1, 2.0, 3], ["b", 1, 5.0, 3]]
    some = Columns("s/e", 0, "cores", ("rate",), "rows/s", where=("name", "b")).panel_of(content)
    assert some.series == [Series("rate", [1], [5])]
    content["tables"][0]["rows"] = rows[:2]
    alone = Columns("s/e", 0, "cores", ("rate", "most"), "rows/s").panel_of(content)
    assert alone.series == [Series("rate", [1, 2], [10, 20]), Series("most", [1, 2], [11, 21])]


def test_figures_name_papers_and_experiments() -> None:
    for name, shown in FIGURES.items():
        assert name.partition("/")[0] in PAPERS
        for ours in shown.ours:
            suite, _, experiment = ours.experiment.partition("/")
            assert experiment in SUITES[suite].experiments


def test_figures_are_chosen_by_paper_or_by_name() -> None:
    assert list(figures_of(["handshake", "splitjoin/19"])) == [
        "handshake/8",
        "handshake/9",
        "handshake/10",
        "handshake/13",
        "splitjoin/19",
    ]
    assert figures_of([]) == FIGURES


def test_a_figure_is_drawn_beside_the_papers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["papers", "--quick", "--only", "handshake/13", "panjoin/table I", "--out", str(tmp_path)]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "=== lock_step: " in printed
    assert "docs/papers.md says why these are not drawn: panjoin/table I" in printed
    assert (tmp_path / "papers" / "handshake_13.png").is_file()
    written = json.loads((tmp_path / "papers" / "papers.json").read_text())
    (line,) = written["runs"]
    assert (line["the paper"], line["ours"], line["the same"]) == ("100", 200, "quick")
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "=== lock_step: " not in printed
    assert "engine/lock_step: taken from" in printed


@pytest.mark.long
def test_a_full_run_is_judged_and_takes_no_quick_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "engine" / "lock_step.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"quick": True, "cut_off": False, "figures": []}))
    assert main(["papers", "--only", "handshake/13", "--out", str(tmp_path)]) == 0
    assert "=== lock_step: " in capsys.readouterr().out
    (line,) = json.loads((tmp_path / "papers" / "papers.json").read_text())["runs"]
    assert line["the same"] == "NO", "at one clock more cores are always better"


def test_a_result_without_the_panel_is_refused_with_the_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["engine", "--quick", "--only", "lock_step", "--out", str(tmp_path / "engine")]) == 0
    path = tmp_path / "engine" / "lock_step.json"
    content = json.loads(path.read_text())
    content["figures"][0]["name"] = "of_long_ago"
    path.write_text(json.dumps(content))
    assert main(["papers", "--quick", "--only", "handshake/13", "--out", str(tmp_path)]) != 0
    assert "remove it and run again" in capsys.readouterr().err
