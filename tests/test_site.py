"""The documentation site: it is complete and true, and it builds without a warning or a dead link."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import watersmeet
from docsite.links import check_links
from docsite.pictures import FOLDER, PICTURES

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SOURCES = ROOT / "src" / "watersmeet"
TROUBLESHOOTING = DOCS / "operations" / "troubleshooting.md"
SPARKS_OWN = "## What Spark says"
SHORTEST = 6
"""Letters that a part of a message has at least, to be looked for."""


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_those_that_are_drawn(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PICTURES[name](), "run python -m docsite.pictures"


def test_every_public_name_is_in_the_reference_once() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    named = re.findall(r"^::: watersmeet\.(\w+)$", pages, re.MULTILINE)
    assert sorted(named) == sorted(set(watersmeet.__all__) - {"__version__"})


def test_llms_txt_names_every_page() -> None:
    text = (ROOT / "llms.txt").read_text(encoding="utf-8")
    named = re.findall(r"\]\(([^)]+)\)", text)
    assert len(named) == len(set(named))
    missing = {page.relative_to(ROOT).as_posix() for page in DOCS.rglob("*.md") if "concepts" not in page.parts}
    assert missing - set(named) == set()
    assert [name for name in named if not (ROOT / name).is_file()] == []


def _texts(node: ast.AST) -> Iterator[str]:
    """Give every text of some code; a docstring is no message, but does no harm."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


@cache
def texts_of_the_code() -> str:
    return "\n".join(
        text for path in SOURCES.rglob("*.py") for text in _texts(ast.parse(path.read_text(encoding="utf-8")))
    )


def messages() -> list[str]:
    ours = TROUBLESHOOTING.read_text(encoding="utf-8").partition(SPARKS_OWN)[0]
    tables = ours.split("| message | do |\n")[1:]
    return [row for table in tables for row in re.findall(r"^\| `([^|]+)` \|", table.split("\n\n")[0], re.MULTILINE)]


@pytest.mark.parametrize("message", messages())
def test_messages_that_are_explained_are_real(message: str) -> None:
    parts = [part for part in (part.strip(" ,:;") for part in message.split("…")) if len(part) >= SHORTEST]
    assert parts, "a message has words"
    assert [part for part in parts if part not in texts_of_the_code()] == []


def test_messages_are_found() -> None:
    assert len(messages()) > 20


@pytest.mark.long
def test_the_site_builds_strictly_and_links_lead_somewhere(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    report = check_links(tmp_path / "site")
    assert report.dead == []
    assert report.loaded == [], "pages need no network"
    assert all(address.startswith(("https://", "http://")) for address in report.outside)
    assert (tmp_path / "site" / "llms.txt").is_file()
    shown = (tmp_path / "site" / "guides" / "examples" / "index.html").read_text(encoding="utf-8")
    assert shown.count("__main__") >= len(list((ROOT / "examples").glob("*.py"))), "the programs are on their page"


def test_dead_links_and_loaded_files_are_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<a href="other/#here">x</a><a href="other/#gone">x</a><a href="gone/">x</a><a href="#top">x</a>'
        '<a href="https://example.org/">x</a><img src="https://example.org/a.png"><p id="top">'
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "index.html").write_text('<h1 id="here">x</h1><a href="../">x</a><a href="../no.txt">x</a>')
    report = check_links(tmp_path)
    assert report.dead == ["index.html: other/#gone", "index.html: gone/", "other/index.html: ../no.txt"]
    assert report.loaded == ["index.html: https://example.org/a.png"]
    assert report.outside == {"https://example.org/"}
