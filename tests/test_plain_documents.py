"""The Python blocks of the documents that need no Spark run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from documents import DOCS, OWN_DOCUMENTS, ROOT, SPARK_DOCUMENTS, Example, dead_links_of, examples_of

README, IN_PROCESS = ROOT / "README.md", DOCS / "in-process.md"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
PLAIN = [page for page in PAGES if page not in SPARK_DOCUMENTS + OWN_DOCUMENTS]
EXAMPLES = [example for page in PLAIN for example in examples_of(page)]


def test_documents_have_examples() -> None:
    assert {example.document for example in EXAMPLES} > {README, IN_PROCESS}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.document.name} line {example.line}")
def test_example_runs(example: Example) -> None:
    example.run({"__name__": "document"})


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    assert not dead_links_of(document)
