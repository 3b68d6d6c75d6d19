"""What ARCHITECTURE.md and CONTRIBUTING.md name is there: files, what classes define, and plain names of the code."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "watersmeet"
DOCUMENTS = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
MEMBER = re.compile(r"([A-Z]\w*)\.(\w+)")
PLAIN = re.compile(r"_?[a-z]\w*")
ELSEWHERE = {"eval"}
"""Names of Python's own that documents speak of."""
FILE = re.compile(r"[\w/]*\w\.py")


def named_in(document: Path, pattern: re.Pattern[str]) -> list[str]:
    """Return what a document names in this form."""
    text = BLOCK.sub("", document.read_text(encoding="utf-8")).replace("\n", " ")
    return sorted({code for code in CODE.findall(text) if pattern.fullmatch(code)})


def members() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return what the classes of a name define, and their bases' names."""
    defined, bases = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ClassDef):
                continue
            bases[node.name] |= {
                name.id for base in node.bases for name in ast.walk(base) if isinstance(name, ast.Name)
            }
            for inner in ast.walk(node):
                match inner:
                    case ast.FunctionDef(name=name) | ast.Attribute(value=ast.Name(id="self"), attr=name):
                        defined[node.name].add(name)
                    case ast.AnnAssign(target=ast.Name(id=name)):
                        defined[node.name].add(name)
    return defined, bases


def test_members_that_documents_name_are_defined() -> None:
    defined, bases = members()

    def has(owner: str, member: str) -> bool:
        return member in defined[owner] or any(has(base, member) for base in bases[owner] if base in bases)

    named = [name for document in DOCUMENTS for name in named_in(document, MEMBER)]
    wrong = [name for name in named if (parts := name.split("."))[0] in bases and not has(*parts)]
    assert len(named) > 20, "the walks name many"
    assert not wrong


@cache
def names() -> set[str]:
    """Return what the repository's code calls anything: functions, arguments, attributes, folders, options in text."""
    known: set[str] = set()
    for folder in ("src", "tests", "benchmarks", "docsite", "examples", "soak", "mutants", "matrix"):
        for path in (ROOT / folder).rglob("*.py"):
            known.update((path.stem, *path.relative_to(ROOT).parts))
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                match node:
                    case ast.FunctionDef(name=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                        known.add(name)
                    case ast.Name(id=name, ctx=ast.Store()) | ast.Constant(value=str(name)):
                        known.add(name)
    return known


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_plain_names_in_documents_are_names_of_the_code(document: Path) -> None:
    named = named_in(document, PLAIN)
    assert len(named) > 10, "the pattern finds them"
    assert set(named) <= names() | ELSEWHERE


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_documents_name_are_there(document: Path) -> None:
    files = [path.as_posix() for path in ROOT.rglob("*.py") if ".venv" not in path.parts]
    assert not [name for name in named_in(document, FILE) if not any(f"/{name}" in file for file in files)]
