"""Kang's three steps on one core (handshake join, section 2.2), batch-wise: the reference for every other topology.

For a batch that arrives: (1) scan the other stream's window for partners, (2) insert the batch into its own window,
(3) invalidate what has expired. Of two batches that arrive together the left one goes first, so a pair of two new rows
is found once, by the right row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.engine.intake import Slice
from watersmeet.engine.topology import Layout, Topology
from watersmeet.spec.expression import Side
from watersmeet.window.plan import OTHER_SIDE
from watersmeet.window.stream_window import StreamWindow

__all__ = ["Kang"]


class Kang(Topology):
    """Both windows on one core, the caller's."""

    keeps_order: ClassVar[bool] = False

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._windows: dict[Side, StreamWindow] = {side: StreamWindow(layout.plan, side) for side in OTHER_SIDE}

    def push(self, part: Slice) -> list[pa.Table]:
        """Probe, insert, expire."""
        found: list[pa.Table] = []
        for batch in (part.left, part.right):
            own, other = self._windows[batch.side], self._windows[OTHER_SIDE[batch.side]]
            found += self._layout.gather(batch, list(other.probe(batch)))
            own.insert(batch, other)
        for side, before in part.expire_before.items():
            if before is not None:
                self._windows[side].expire(before)
        return found

    def windows(self, side: Side) -> Sequence[StreamWindow]:
        """Return the one window of a side."""
        return [self._windows[side]]

    def load(self, side: Side, rows: pa.RecordBatch, sequence: npt.NDArray[np.int64] | None) -> None:
        """Add a segment of saved rows."""
        self._windows[side].load(rows, sequence)

    def close(self) -> None:
        """Nothing to close."""
