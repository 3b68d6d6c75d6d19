"""Where Spark's log goes: its JVM and its Python workers write to the stderr that they were started with."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["reason_in", "stderr_into"]

STDERR: Final = 2
REASON: Final = re.compile(
    r"^Exception in thread \"main\" (?:[\w.$]+: )?\[?(.+?)\]?$|^(?:Error: |Error occurred .*\n)(.+)$", re.MULTILINE
)
"""What a JVM says when it gives up: the exception that ended it, or what it was started with wrongly."""


@contextmanager
def stderr_into(log: Path) -> Iterator[None]:
    """Write stderr into a file; a process started meanwhile keeps doing so."""
    sys.stderr.flush()
    kept = os.dup(STDERR)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), STDERR)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, STDERR)
        os.close(kept)


def reason_in(log: Path) -> str | None:
    """Return why a JVM gave up, as the end of its log tells; None if it does not."""
    found = [*REASON.finditer(log.read_text(encoding="utf-8", errors="replace"))]
    return (found[-1][1] or found[-1][2]) if found else None
