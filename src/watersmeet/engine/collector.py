"""Collects small pushes into batches (PanJoin, section III-E): by count or by time, whichever comes first.

A large batch costs less per row than many small ones. Rows are checked and numbered, and late rows are left out, when
they are pushed. So collecting changes when pairs are found, never which pairs. The time is checked at every push, also
one without rows, and at every poll.
"""

from __future__ import annotations

import time

import numpy as np

from watersmeet.columns.widths import cuts_at, rows_width
from watersmeet.engine.intake import Slice
from watersmeet.window import chunks
from watersmeet.window.batch import KeyedBatch

__all__ = ["Collector"]


class Collector:
    """Slices that wait until they have ``rows`` rows together, or until the first has waited for ``seconds``."""

    def __init__(self, rows: int | None, seconds: float | None) -> None:
        self._most_rows = rows
        self._most_seconds = seconds
        self._waiting: list[Slice] = []
        self._rows = 0
        """Of all slices that wait."""
        self._since = 0.0

    def add(self, part: Slice) -> None:
        """Add a slice."""
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append(part)
        self._rows += len(part.left) + len(part.right)

    @property
    def is_due(self) -> bool:
        """Whether the slices are many rows enough, or have waited long enough."""
        if not self._rows:
            return bool(self._waiting)
        if self._most_rows is not None and self._rows >= self._most_rows:
            return True
        return self._most_seconds is not None and time.monotonic() - self._since >= self._most_seconds

    def take(self) -> list[Slice]:
        """Remove all slices and return them as one, or as a few if they have too much text for one."""
        waiting, self._waiting, self._rows = self._waiting, [], 0
        widths = np.array([rows_width(part.left.rows) + rows_width(part.right.rows) for part in waiting], np.int64)
        return [_together(waiting[some]) for some in cuts_at(widths, chunks.MOST_BYTES)]


def _together(parts: list[Slice]) -> Slice:
    if len(parts) == 1:
        return parts[0]
    left, right = KeyedBatch.concat([part.left for part in parts]), KeyedBatch.concat([part.right for part in parts])
    return Slice(left, right, parts[-1].expire_before)
