"""The pages under ``docs/`` that need Spark: their Python runs as it stands, and prints what they show."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from documents import DOCS, SPARK_DOCUMENTS, Example, examples_of

pytestmark = pytest.mark.filterwarnings("ignore")  # PySpark's own warnings are not ours to mend

OWN_PROCESS = [example for document in SPARK_DOCUMENTS for example in examples_of(document) if example.own_process]


SHORT = [DOCS / "quick-start.md"]


@pytest.mark.parametrize(
    "document",
    [pytest.param(page, id=page.stem, marks=() if page in SHORT else pytest.mark.long) for page in SPARK_DOCUMENTS],
)
def test_document_runs_as_it_stands(
    spark: SparkSession,  # noqa: ARG001 -- the document asks for a session and gets this one
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    document: Path,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    namespace: dict[str, Any] = {"__name__": "document"}
    examples = [example for example in examples_of(document) if not example.own_process]
    assert examples
    for example in examples:
        example.run(namespace)


def test_the_table_of_options_is_complete() -> None:
    """What it says of each join is what the join's parameters are."""
    text = (DOCS / "in-process.md").read_text(encoding="utf-8")
    heading, _, *rows = (
        [cell.strip().replace("`", "") for cell in line.split("|")[1:-1]]
        for line in text[text.index("| | `StreamJoin`") :].split("\n\n")[0].split("\n")
    )
    for column, join in enumerate(heading[1:], 1):
        told = {name for row in rows if row[column] == "yes" for name in row[0].split(", ")}
        taken = inspect.signature(getattr(wm, join.removeprefix("wm."))).parameters
        assert told == set(taken) - {"left", "right", "streams"}


@pytest.mark.long
@pytest.mark.parametrize("example", OWN_PROCESS, ids=lambda example: f"{example.document.stem}, line {example.line}")
def test_example_runs_in_a_process_of_its_own(tmp_path: Path, example: Example) -> None:
    program = f"import sys; sys.path[:] = {sys.path!r}\n{example.code}"
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    example.compare(finished.stdout)
