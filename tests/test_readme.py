"""The README's Python blocks run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from documents import Example, dead_links_of, examples_of

README = Path(__file__).resolve().parents[1] / "README.md"
EXAMPLES = examples_of(README)


def test_readme_has_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"line {example.line}")
def test_readme_example_runs(example: Example) -> None:
    example.run({"__name__": "readme"})


def test_readme_links_lead_somewhere() -> None:
    assert not dead_links_of(README)
