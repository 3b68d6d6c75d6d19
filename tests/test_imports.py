"""Who loads what: optional packages stay unloaded, and the heavy ones are imported only where they belong."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import watersmeet

PACKAGE = Path(watersmeet.__file__).parent
OPTIONAL = {"duckdb", "matplotlib", "pandas", "polars", "pydantic", "pyspark", "rich", "typer"}


def modules_loaded_by(statement: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded after ``statement``."""
    # The same search path as here, so that the package need not be installed.
    program = f"import sys; sys.path[:] = {sys.path!r}; {statement}; import json; print(json.dumps(list(sys.modules)))"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return {name.partition(".")[0] for name in json.loads(finished.stdout.splitlines()[-1])}


def imports_of(path: Path) -> set[str]:
    """Return the top-level names that a source file imports, wherever in the file it does."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.partition(".")[0])
    return names


def importers_of(packages: set[str]) -> set[str]:
    """Return the folders (or root modules) of the package that import one of ``packages``."""
    return {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py") if imports_of(path) & packages}


def test_importing_watersmeet_loads_no_optional_package() -> None:
    loaded = modules_loaded_by("import watersmeet")
    assert "watersmeet" in loaded
    assert not loaded & OPTIONAL


@pytest.mark.parametrize(
    ("packages", "allowed"),
    [
        ({"numba", "llvmlite"}, {"kernels"}),
        ({"pyspark"}, {"spark", "jobs", "cli", "testing.py"}),
        ({"pydantic"}, {"jobs"}),
        ({"rich", "typer"}, {"jobs", "cli"}),
        ({"duckdb", "matplotlib", "polars"}, {"cli"}),
    ],
    ids=["numba", "pyspark", "pydantic", "screen", "comparators"],
)
def test_package_is_imported_only_in(packages: set[str], allowed: set[str]) -> None:
    assert importers_of(packages) <= allowed


def test_kernels_are_seen_to_import_numba() -> None:
    assert importers_of({"numba"}) == {"kernels"}


def test_spec_imports_neither_numpy_nor_an_engine() -> None:
    files = sorted((PACKAGE / "spec").rglob("*.py"))
    assert files
    offenders = {path.name: imports_of(path) & {"numpy", "numba", "llvmlite", "pyspark"} for path in files}
    assert not any(offenders.values()), offenders
