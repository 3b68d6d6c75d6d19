"""The page: one document with its style and script in it, so that it needs nothing but its own server.

The policy allows just these two, by their digests, and a connection to the server itself; nothing else is loaded or
run, whatever a name in the figures contains. The script writes all text as text.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Page", "page"]


@dataclass(frozen=True, slots=True)
class Page:
    """The document, and the policy that it is sent with."""

    document: bytes
    policy: str


@cache
def page() -> Page:
    """Return the page, put together from its three files."""
    folder = files("watersmeet.live") / "page"
    markup, style, script = (
        (folder / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js")
    )
    document = markup.replace("/*style*/", style).replace("/*script*/", script)
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_digest(style)}'",
            f"script-src '{_digest(script)}'",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
    return Page(document.encode(), policy)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
