"""Kang's three steps on one core (handshake join, section 2.2), for batches: the reference for all other topologies.

For a batch that arrives: (1) probe the other stream's window, (2) insert the batch into its own window, (3) let rows
expire. Of two batches in a slice the left one goes first, so a pair of two new rows is found once, by the right row.
"""

from __future__ import annotations

from typing import ClassVar

from watersmeet.engine.intake import Slice
from watersmeet.engine.topologies.whole_windows import WholeWindows

__all__ = ["Kang"]


class Kang(WholeWindows):
    """Both windows on one core, the caller's."""

    keeps_order: ClassVar[bool] = False

    def submit(self, part: Slice) -> None:
        """Probe and insert: no other thread could."""
        for tables in self.in_portions(part, None):
            self._found.extend(tables)

    @property
    def is_quiet(self) -> bool:
        """Always: no thread moves anything."""
        return True

    def close(self) -> None:
        """Nothing to close."""
