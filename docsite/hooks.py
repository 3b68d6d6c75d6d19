"""MkDocs' hook: pages outside `docs/` join the site, and links between files become links between pages.

A document's links name files of the repository, so that they also work where the repository itself is read. Here they
are resolved as such: a page is linked as a page, and of a file that is none only the link's text stays.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docsite.notebooks import page_of

__all__ = ["on_files", "on_page_content", "on_page_markdown"]

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES_OF: Final = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
    "examples/first_join.ipynb": "guides/first-join.md",
}
"""Files outside ``docs/``, and the pages that they become."""
FILES_OF: Final = {page: file for file, page in PAGES_OF.items()}
LLMS: Final = "llms.txt"
LINK: Final = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
FENCE: Final = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)
OWN_PROCESS: Final = re.compile(r"^```python own process$", re.MULTILINE)
ROLE: Final = re.compile(r":(?:meth|class|func|mod):<code>~?([^<]*)</code>")
"""A reference in a docstring, as it looks on a page."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside ``docs/``."""
    for name, page in PAGES_OF.items():
        content = (ROOT / name).read_text(encoding="utf-8")
        if name.endswith(".ipynb"):
            content, pictures = page_of(content, posixpath.basename(page).removesuffix(".md"))
            for picture, drawn in pictures.items():
                files.append(File.generated(config, posixpath.join(posixpath.dirname(page), picture), content=drawn))
        files.append(File.generated(config, page, content=content))
    linked = _linked((ROOT / LLMS).read_text(encoding="utf-8"), LLMS, LLMS)
    by_source = re.sub(r"\(([^)\s]+\.md)\)", lambda found: f"({_url(files, found[1])})", linked)
    files.append(File.generated(config, LLMS, content=by_source))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files into links to pages; a block that needs a process of its own looks like any other."""
    del config, files
    source = page.file.src_uri
    return _linked(OWN_PROCESS.sub("```python", markdown), FILES_OF.get(source, f"docs/{source}"), source)


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show references in docstrings as code."""
    del page, config, files
    return ROLE.sub(r"<code>\1</code>", html)


def _url(files: Files, source: str) -> str:
    found = files.get_file_from_path(source)
    assert found is not None, f"{LLMS} names {source}, which is no page"
    return found.url


def _linked(markdown: str, file: str, page: str) -> str:
    """Return the text of ``file``, which becomes ``page``, with its links to files as links to pages."""

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(file), found[2]))
        inside = PAGES_OF.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else None)
        if inside is None:
            assert (ROOT / target).exists(), f"{file} links {target}, which is not there"
            return found[1]
        return f"[{found[1]}]({posixpath.relpath(inside, posixpath.dirname(page) or '.')}{found[3] or ''})"

    parts = FENCE.split(markdown)
    return "".join(part if number % 2 else LINK.sub(link, part) for number, part in enumerate(parts))
