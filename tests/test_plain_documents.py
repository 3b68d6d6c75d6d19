"""The Python blocks of the documents that need no Spark run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from documents import Example, dead_links_of, examples_of

ROOT = Path(__file__).resolve().parents[1]
README, IN_PROCESS = ROOT / "README.md", ROOT / "docs" / "in-process.md"
EXAMPLES = [example for document in (README, IN_PROCESS) for example in examples_of(document)]


def test_documents_have_examples() -> None:
    assert {example.document for example in EXAMPLES} == {README, IN_PROCESS}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.document.name} line {example.line}")
def test_example_runs(example: Example) -> None:
    example.run({"__name__": "document"})


@pytest.mark.parametrize(
    "document", [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_links_lead_somewhere(document: Path) -> None:
    assert not dead_links_of(document)
