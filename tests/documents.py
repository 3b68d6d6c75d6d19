"""Documents whose examples run: blocks of Python, and the output that a block of text right after one shows."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SPARK_DOCUMENTS = [
    DOCS / name
    for name in (
        "spark-guide.md",
        "state-and-sizing.md",
        "quick-start.md",
        "testing.md",
        "guides/decode.md",
        "operations/metrics.md",
    )
]
"""Pages that need Spark, and run from top to bottom; the blocks of all others run each by itself, without Spark."""
OWN_DOCUMENTS = [DOCS / "kafka.md", DOCS / "jobs.md"]
"""Pages of which a test of their own runs the examples."""
BLOCK = re.compile(r"^```python( own process)?\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """One block of Python of a document."""

    document: Path
    line: int
    code: str
    own_process: bool
    output: str | None
    """What it prints, as shown; ``...`` stands for anything."""

    def run(self, namespace: dict[str, Any]) -> None:
        """Run the code as it stands, under the document's line numbers, and compare what it prints."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * self.line + self.code, self.document, "exec"), namespace)  # noqa: S102 -- our own file
        self.compare(printed.getvalue())

    def compare(self, printed: str) -> None:
        """Raise unless the document shows this output, or none."""
        if self.output is not None:
            same = doctest.OutputChecker().check_output(self.output.rstrip(), printed.rstrip(), doctest.ELLIPSIS)
            assert same, f"{self.document.name}, line {self.line}, shows\n{self.output}\nbut printed is\n{printed}"


def examples_of(document: Path) -> list[Example]:
    """Return the blocks of Python of a document, in their order."""
    text = document.read_text(encoding="utf-8")
    return [
        Example(document, text.count("\n", 0, found.start()) + 1, found[2], bool(found[1]), found[3])
        for found in BLOCK.finditer(text)
    ]


def dead_links_of(document: Path) -> list[str]:
    """Return the links to files that are not there."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text(encoding="utf-8"))
    return [link for link in links if not (document.parent / link).exists()]
