"""What SECURITY.md says of the code: it neither pickles nor evaluates anything."""

from __future__ import annotations

import ast
from pathlib import Path

import watersmeet

PACKAGE = Path(watersmeet.__file__).parent
PICKLERS = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
EVALUATORS = {"compile", "eval", "exec"}


def _offences(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names} & PICKLERS
            case ast.ImportFrom(module=str(module)):
                found |= ({*module.split("."), *(alias.name for alias in node.names)}) & PICKLERS
            case ast.Call(func=ast.Name(id=name)) if name in EVALUATORS:
                found.add(name)
    return found


def test_the_package_neither_pickles_nor_evaluates() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 100
    assert {path.name: found for path in files if (found := _offences(path))} == {}
