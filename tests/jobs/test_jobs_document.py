"""docs/jobs.md: its Python runs as it stands, in a process of its own, and its jobs and figures are what there is."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from documents import examples_of
from watersmeet.jobs.model import SINKS, SOURCES

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "jobs.md"
MARK = "-- end of an example --"


@pytest.mark.long
def test_document_runs_as_it_stands(tmp_path: Path) -> None:
    """In one process for all examples, which starts a Spark with other settings than the tests' own."""
    examples = examples_of(DOCUMENT)
    assert len(examples) > 3
    program = "".join(f"{example.code}\nprint({MARK!r})\n" for example in examples)
    finished = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{program}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    for example, printed in zip(examples, finished.stdout.split(f"{MARK}\n"), strict=False):
        example.compare(printed)


def test_blocks_of_toml_are_toml() -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        assert tomllib.loads(block)


def test_every_format_and_its_keys_are_in_the_tables() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for heading, models in (("| streams |", SOURCES), ("| sinks |", SINKS)):
        table = text[text.index(heading) :].split("\n\n")[0]
        for name, model in models.items():
            row = next(row for row in table.split("\n") if f"`{name}`" in row.split("|")[1])
            keys = {field.alias or key for key, field in model.model_fields.items()}
            assert all(f"`{key}`" in row for key in keys - {"format", "options", "select", "input"})
