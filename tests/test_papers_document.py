"""docs/papers.md is true: what it names is there, every figure is listed, and models are called models."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from benchmarks.experiment import Experiment
from benchmarks.papers.beside import is_model
from benchmarks.papers.figures import FIGURES, PAPERS
from benchmarks.suite import SUITES

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "papers.md"
NAMED = re.compile(r"`([^`]+)`")
LETTERED = {
    "circular": {7: "abc"},
    "panjoin": {10: "abcdef", 11: "abcdef", 12: "abcdef", 13: "ab", 14: "ab", 15: "abcdefgh"},
}
FIGURES_OF = {"handshake": 13, "circular": 7, "splitjoin": 19, "panjoin": 15, "cluster": 14}
TABLES_OF = {"panjoin": {"table I"}, "cluster": {"table I"}}
Rows = list[list[str]]


def rows_of(paper: str, first_column: str) -> Rows:
    """Return the rows of the table of a paper whose first column has this name."""
    section = DOCUMENT.read_text(encoding="utf-8").split(f"\n## `{paper}`:")[1].split("\n## ")[0]
    lines = section.split(f"\n| {first_column} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]


def numbers_in(cell: str) -> set[str]:
    """Return the figures that a cell names: ``8``, ``10a``, ``1 to 7``, ``11, 12``, ``table I``."""
    numbers: set[str] = set()
    for part in cell.split(", "):
        begin, to, end = part.partition(" to ")
        numbers |= {str(number) for number in range(int(begin), int(end) + 1)} if to else {part}
    return numbers


def defined_in(path: Path) -> set[str]:
    """Return the names that a module defines, and ``Class.member``."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name, body=body):
                names |= {name, *(f"{name}.{inner.name}" for inner in body if isinstance(inner, ast.FunctionDef))}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


@pytest.mark.parametrize("paper", PAPERS)
def test_mechanisms_are_where_the_document_says(paper: str) -> None:
    for section, mechanism, where, departure in rows_of(paper, "section"):
        assert where or departure, f"{section}, {mechanism}: where, or why not"
        for place in filter(None, where.split("; ")):
            file, *names = NAMED.findall(place)
            folder = ROOT if file.startswith("benchmarks/") else ROOT / "src" / "watersmeet"
            assert (folder / file).is_file(), file
            assert names, f"{file}: which name?"
            assert set(names) <= defined_in(folder / file), (file, names)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_figure_is_listed_once(paper: str) -> None:
    listed = [number for row in rows_of(paper, "figure") for number in numbers_in(row[0])]
    lettered = LETTERED.get(paper, {})
    wanted = {str(number) for number in range(1, FIGURES_OF[paper] + 1) if number not in lettered}
    wanted |= {f"{number}{letter}" for number, letters in lettered.items() for letter in letters}
    assert sorted(listed) == sorted(wanted | TABLES_OF.get(paper, set()))


@pytest.mark.parametrize("paper", PAPERS)
def test_figures_are_drawn_by_what_the_document_says(paper: str) -> None:
    for number, _, ours, how in rows_of(paper, "figure"):
        shown = FIGURES.get(f"{paper}/{number}")
        drawn_by = [] if shown is None else list(dict.fromkeys(panel.experiment for panel in shown.ours))
        assert NAMED.findall(ours) == drawn_by, f"{paper}/{number}"
        kinds = ["model" if is_model(_experiment(name)) else "run" for name in drawn_by]
        assert (re.findall(r"\bmodel\b|\brun\b", how) if drawn_by else []) == kinds, f"{paper}/{number}: {how}"
        assert how, f"{paper}/{number}: how, or why not"


def _experiment(name: str) -> Experiment:
    suite, _, experiment = name.partition("/")
    return SUITES[suite].experiments[experiment]


def test_figures_and_experiments_that_are_named_anywhere_are_there() -> None:
    known = {*FIGURES, *(f"{suite}/{name}" for suite, of in SUITES.items() for name in of.experiments)}
    named = re.findall(rf"`((?:{'|'.join((*SUITES, *PAPERS))})/\w+)`", DOCUMENT.read_text(encoding="utf-8"))
    assert len(named) > 60
    assert not set(named) - known
