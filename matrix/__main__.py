"""``python -m matrix``: installs the wheel with each PySpark and each Python, runs some tests there, prints a table.

A cell is one PySpark and one Python. It has an environment of its own, with what `pip install` gives a user today: the
wheel from ``dist/``, the newest patch of that PySpark, the newest of all else that the package allows, and of ``src/``
nothing. The tests are few, and reach every part that Spark or Python could break. A cell takes two or three minutes
and a gigabyte, which it gives back once its tests have passed.

No cell is left out in silence: one whose Python is not on this machine is a *gap*. Exit status 1 means that a cell has
failed, or that there was none to run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final, Literal

from rich.console import Console
from rich.table import Table

ROOT: Final = Path(__file__).resolve().parents[1]
HOME: Final = ROOT / "build" / "matrix"
PYSPARKS: Final = ("4.1", "4.2", "4.3")
PYTHONS: Final = ("3.11", "3.12", "3.13")
EXTRAS: Final = "spark,connect,java,metrics"
TOOLS: Final = {"duckdb", "hypothesis", "psutil", "pytest", "pytest-timeout"}
"""What of the extra ``dev`` the tests need."""
TESTS: Final = (
    "tests/test_imports.py",
    "tests/spec/test_sql.py",
    "tests/engine/test_stream_join.py",
    "tests/spark/test_spark_join.py::test_streaming_equals_spark_sql",
    "tests/spark/test_spark_join.py::test_restart_goes_on_where_it_stopped",
    "tests/spark/test_multijoin.py::test_results_are_those_of_spark_sql",
    "tests/spark/test_connect.py::test_connect_equals_classic",
    "tests/jobs/test_run_job.py::test_oracle_a_job_over_files_gives_spark_sqls_pairs_and_goes_on_from_its_checkpoint",
)
PATIENCE: Final = 1200
"""Seconds after which a step has failed."""
VERSIONS: Final = """
import pathlib, platform, sys
from importlib.metadata import version
import watersmeet
assert pathlib.Path(watersmeet.__file__).is_relative_to(sys.prefix), watersmeet.__file__
print("Python", platform.python_version(), *(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "numpy")))
"""
"""What is there, told by the package that was installed."""

Outcome = Literal["passed", "failed", "gap"]
STYLES: Final[dict[Outcome, str]] = {"passed": "green", "failed": "red", "gap": "yellow"}


@dataclass(frozen=True)
class Cell:
    """One PySpark and one Python."""

    pyspark: str
    python: str

    def __str__(self) -> str:
        return f"{self.pyspark}-{self.python}"


CELLS: Final = tuple(Cell(*pair) for pair in product(PYSPARKS, PYTHONS))


@dataclass(frozen=True)
class Verdict:
    """What became of a cell, and why."""

    outcome: Outcome
    reason: str
    versions: str = ""
    seconds: float = 0.0


class StepFailedError(Exception):
    """A command of a cell has failed; says which, and with what last words."""


def main() -> int:
    """Run the cells that are asked for, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m matrix", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[str(cell) for cell in CELLS], metavar="PYSPARK-PYTHON")
    only = parser.parse_args().only
    console = Console()
    verdicts: dict[Cell, Verdict] = {}
    for cell in CELLS:
        if only is None or str(cell) in only:
            console.print(f"{cell} ...")
            verdicts[cell] = run(cell)
    console.print(table_of(verdicts))
    outcomes = {verdict.outcome for verdict in verdicts.values()}
    return int("failed" in outcomes or "passed" not in outcomes)


def run(cell: Cell) -> Verdict:
    """Make the environment of a cell and run the tests in it."""
    interpreter = interpreter_of(cell.python)
    if interpreter is None:
        return Verdict("gap", f"no python{cell.python} on this machine, in PATH or below ~/.pyenv")
    began = time.monotonic()
    environment = HOME / str(cell)
    shutil.rmtree(environment, ignore_errors=True)
    HOME.mkdir(parents=True, exist_ok=True)
    log = HOME / f"{cell}.log"
    log.unlink(missing_ok=True)
    versions = ""
    try:
        _step(log, interpreter, "-m", "venv", str(environment))
        ours, python = environment / "bin", str(environment / "bin" / "python")
        _step(log, python, "-m", "pip", "install", f"{wheel()}[{EXTRAS}]", f"pyspark=={cell.pyspark}.*", *tools())
        _step(log, python, "-m", "pip", "check")
        versions = _step(log, python, "-c", VERSIONS)
        words = _step(log, str(ours / "pytest"), "-p", "no:cacheprovider", "--timeout=600", "--durations=8", *TESTS)
    except StepFailedError as failed:
        return Verdict("failed", f"{failed} ({log.relative_to(ROOT)})", versions, time.monotonic() - began)
    shutil.rmtree(environment)
    return Verdict("passed", words.strip("= "), versions, time.monotonic() - began)


def interpreter_of(python: str) -> str | None:
    """Return an interpreter of this version that runs, if the machine has one."""
    named = [found for found in (sys.executable, shutil.which(f"python{python}")) if found]
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{python}.*/bin/python"))
    asked = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    for candidate in (*named, *map(str, kept)):
        told = subprocess.run([candidate, "-c", asked], capture_output=True, text=True, check=False)
        if told.returncode == 0 and told.stdout.strip() == python:
            return candidate
    return None


def wheel() -> Path:
    """Return the wheel that `make dist` has built."""
    wheels = list((ROOT / "dist").glob("*.whl"))
    if len(wheels) != 1:
        raise SystemExit(f"{len(wheels)} wheels in dist/, and one is needed: run make dist")
    return wheels[0]


def tools() -> list[str]:
    """Return what the tests need, as the extra ``dev`` asks for it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = project["optional-dependencies"]["dev"]
    return [one for one in asked if re.split(r"[^\w-]", one, maxsplit=1)[0] in TOOLS]


def _step(log: Path, *command: str) -> str:
    """Run a command of a cell, its output into the log; return its last line."""
    theirs = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    with log.open("a+", encoding="utf-8") as output:
        output.write(f"$ {' '.join(command)}\n")
        output.flush()
        try:
            status = subprocess.run(
                command, cwd=ROOT, env=theirs, stdout=output, stderr=subprocess.STDOUT, check=False, timeout=PATIENCE
            ).returncode
        except subprocess.TimeoutExpired:
            raise StepFailedError(f"{command[1:4]} took more than {PATIENCE} s") from None
    last = [line for line in log.read_text(encoding="utf-8").splitlines() if line.strip()][-1]
    if status:
        raise StepFailedError(last.strip("= "))
    return last


def table_of(verdicts: dict[Cell, Verdict]) -> Table:
    """Return the table of all cells."""
    table = Table("cell", "", "why", "with", "seconds")
    for cell, verdict in verdicts.items():
        outcome = f"[{STYLES[verdict.outcome]}]{verdict.outcome}"
        seconds = f"{verdict.seconds:.0f}" if verdict.seconds else ""
        table.add_row(str(cell), outcome, verdict.reason, verdict.versions, seconds)
    return table


if __name__ == "__main__":
    raise SystemExit(main())
