"""The matrix: its tests, what it says of a Python that is not there, and that the documents tell of each cell."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from matrix.__main__ import CELLS, PYSPARKS, PYTHONS, TESTS, TOOLS, Cell, interpreter_of, run, tools

ROOT = Path(__file__).resolve().parents[1]


def test_what_is_named_is_there() -> None:
    for named in TESTS:
        file, _, test = named.partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert not test or test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, named
    assert {re.split(r"[^\w-]", tool)[0] for tool in tools()} == TOOLS


def test_a_python_that_is_missing_is_a_gap() -> None:
    assert interpreter_of(f"{sys.version_info[0]}.{sys.version_info[1]}")
    verdict = run(Cell("4.3", "3.0"))
    assert verdict.outcome == "gap"
    assert "python3.0" in verdict.reason


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_documents_tell_of_each_cell(cell: Cell) -> None:
    text = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")
    heads = re.search(r"^\| PySpark \| (.*) \|$", text, re.MULTILINE)
    row = re.search(rf"^\| {re.escape(cell.pyspark)}\.\d+ \| (.*) \|$", text, re.MULTILINE)
    assert heads
    assert row
    told = dict(zip(heads[1].split(" | "), row[1].split(" | "), strict=True))
    assert told[f"Python {cell.python}"]


def test_classifiers_name_each_python() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = re.findall(r'"Programming Language :: Python :: (\d+\.\d+)"', text)
    assert tuple(named) == PYTHONS
    assert f'"pyspark>={PYSPARKS[0]}"' in text
