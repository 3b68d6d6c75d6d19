"""Checks the links of a built site: `python -m docsite.links FOLDER` fails on a dead one; lists those that lead out.

A link inside the site has to reach a file, and its anchor an element with that id. Nothing that a page loads (scripts,
styles, pictures) may come from elsewhere. Links that lead out are listed and not followed, so no network is needed.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

__all__ = ["LinkReport", "check_links"]

LOADED: Final = {"img": "src", "link": "href", "script": "src", "iframe": "src"}
NOT_LOADED: Final = frozenset({"canonical", "next", "prev"})
"""Kinds of ``link`` elements that only name another page."""


@dataclass(frozen=True, slots=True)
class LinkReport:
    """What is wrong with a site's links, and where they lead out."""

    dead: list[str] = field(default_factory=list)
    """``page: link`` of each link inside the site that leads nowhere."""
    loaded: list[str] = field(default_factory=list)
    """``page: address`` of what pages would load from elsewhere."""
    outside: set[str] = field(default_factory=set)
    """Addresses outside the site that a reader may follow."""


class _Page(HTMLParser):
    """Collects a page's ids, links, and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        given = {name: value for name, value in attrs if value is not None}
        self.ids.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in LOADED and LOADED[tag] in given and given.get("rel") not in NOT_LOADED:
            self.loaded.append(given[LOADED[tag]])


def check_links(site: Path) -> LinkReport:
    """Return what is wrong with the links of a built site."""
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    report = LinkReport()
    for path, page in pages.items():
        shown = path.relative_to(site).as_posix()
        for address in page.links + page.loaded:
            parts = urlsplit(address)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                if address in page.loaded:
                    report.loaded.append(f"{shown}: {address}")
                else:
                    report.outside.add(address)
            elif not _leads_somewhere(pages, site, path, parts.path, parts.fragment):
                report.dead.append(f"{shown}: {address}")
    return report


def _leads_somewhere(pages: dict[Path, _Page], site: Path, path: Path, to: str, anchor: str) -> bool:
    start = site if to.startswith("/") else path.parent
    target = (start / unquote(to).lstrip("/")).resolve() if to else path
    if target.is_dir():
        target /= "index.html"
    if target not in pages or not anchor:
        return target.is_file()
    return unquote(anchor) in pages[target].ids


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def main(site: Path) -> int:
    """Print the report on a site; return 1 if a link is dead or a page loads anything from elsewhere."""
    report = check_links(site.resolve())
    print("links that lead out:", *sorted(report.outside), sep="\n  ")
    for title, wrong in (("dead links", report.dead), ("loaded from elsewhere", report.loaded)):
        if wrong:
            print(f"{title}:", *wrong, sep="\n  ", file=sys.stderr)
    return 1 if report.dead or report.loaded else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
