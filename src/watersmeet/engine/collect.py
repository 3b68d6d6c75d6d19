"""Collecting small pushes into batches (PanJoin, section III-E): by count or by time, whichever comes first.

A large batch costs less per row than many small ones. Rows are checked, numbered and judged late when they are pushed,
so collecting changes when pairs are found, never which. There is a buffer per stream; time is looked at when rows are
pushed, and a push without rows is enough.
"""

from __future__ import annotations

import time

from watersmeet.engine.intake import Slice
from watersmeet.window.batch import KeyedBatch

__all__ = ["Collector"]


class Collector:
    """Slices that wait until they are ``rows`` rows, or the first has waited ``seconds``."""

    def __init__(self, rows: int | None, seconds: float | None) -> None:
        self._most_rows = rows
        self._most_seconds = seconds
        self._waiting: list[Slice] = []
        self._since = 0.0

    def add(self, part: Slice) -> None:
        """Take rows in."""
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append(part)

    @property
    def is_due(self) -> bool:
        """Whether a batch is large or old enough."""
        rows = sum(len(part.left) + len(part.right) for part in self._waiting)
        if not rows:
            return bool(self._waiting)
        if self._most_rows is not None and rows >= self._most_rows:
            return True
        return self._most_seconds is not None and time.monotonic() - self._since >= self._most_seconds

    def take(self) -> list[Slice]:
        """Hand over all that waits, as one slice; none when nothing does."""
        waiting, self._waiting = self._waiting, []
        if len(waiting) <= 1:
            return waiting
        left = KeyedBatch.concat([part.left for part in waiting])
        right = KeyedBatch.concat([part.right for part in waiting])
        return [Slice(left, right, waiting[-1].expire_before)]
