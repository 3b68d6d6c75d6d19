"""Collects small pushes into batches (PanJoin, section III-E): by count or by time, whichever comes first.

A large batch costs less per row than many small ones. Rows are checked and numbered, and late rows are left out, when
they are pushed. So collecting changes when pairs are found, never which pairs. The time is checked at every push, also
one without rows, and at every poll.
"""

from __future__ import annotations

import time

from watersmeet.engine.intake import Slice
from watersmeet.window.batch import KeyedBatch

__all__ = ["Collector"]


class Collector:
    """Slices that wait until they have ``rows`` rows together, or until the first has waited for ``seconds``."""

    def __init__(self, rows: int | None, seconds: float | None) -> None:
        self._most_rows = rows
        self._most_seconds = seconds
        self._waiting: list[Slice] = []
        self._since = 0.0

    def add(self, part: Slice) -> None:
        """Add a slice."""
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append(part)

    @property
    def is_due(self) -> bool:
        """Whether the slices are many rows enough, or have waited long enough."""
        rows = sum(len(part.left) + len(part.right) for part in self._waiting)
        if not rows:
            return bool(self._waiting)
        if self._most_rows is not None and rows >= self._most_rows:
            return True
        return self._most_seconds is not None and time.monotonic() - self._since >= self._most_seconds

    def take(self) -> list[Slice]:
        """Remove all slices and return them as one, or none if none waits."""
        waiting, self._waiting = self._waiting, []
        if len(waiting) <= 1:
            return waiting
        left = KeyedBatch.concat([part.left for part in waiting])
        right = KeyedBatch.concat([part.right for part in waiting])
        return [Slice(left, right, waiting[-1].expire_before)]
