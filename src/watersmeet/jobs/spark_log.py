"""Where Spark's log goes: its JVM and its Python workers write to the stderr that they were started with."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["stderr_into"]

STDERR: Final = 2


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
