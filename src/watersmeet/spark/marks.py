"""Marks: what a core keeps of each row of a run, in bitmaps beside it. A run never changes; its marks do.

There are two kinds. ``MET``: the row has met one. ``ELSEWHERE``: another core judges the row (see
:mod:`watersmeet.spark.routing.contract`). A bit that was never set is not stored, so a run whose rows have met nobody
has no marks.

*What is written follows from what was read*, as for runs (see :mod:`watersmeet.spark.state`). Two attempts of one
micro-batch may have had a run's rows in different orders, and the state may have the run of one and the marks of the
other. So rows with marks are stored in an order that follows from the rows (see :mod:`watersmeet.spark.judge`): a mark
then means the same in both.

Cost: an eighth of a byte per row and kind. Marks are stored in pieces of ``PIECE_ROWS`` rows, and a micro-batch writes
only pieces that it has changed. They are removed with their run, and put together when runs are merged.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.kernels.marks import mark_rows

__all__ = ["ELSEWHERE", "KINDS", "MET", "Marks"]

Kind = Literal["met", "elsewhere"]
MET: Final[Kind] = "met"
ELSEWHERE: Final[Kind] = "elsewhere"
KINDS: Final[tuple[Kind, ...]] = (MET, ELSEWHERE)
PIECE_ROWS: Final = 1 << 18
"""Rows of a piece, which is stored in 32 KiB."""


class Marks:
    """The marks of one core's runs, by their names."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._pieces = handle.getMapState("marks", "run string, kind string, piece int", "bits binary")
        self._known: dict[tuple[str, Kind], Bools] = {}
        self._changed: dict[tuple[str, Kind], set[int]] = {}

    def begin(self) -> None:
        """Begin a micro-batch of a core."""
        self._known, self._changed = {}, {}

    def of(self, run: str, kind: Kind, rows: int) -> Bools:
        """Return the marks of a run of so many rows, to be read only."""
        if (run, kind) not in self._known:
            bits = np.zeros(rows, bool)
            for piece, begin in enumerate(range(0, rows, PIECE_ROWS)):
                saved = self._pieces.getValue((run, kind, piece))
                if saved is not None:
                    part = bits[begin : begin + PIECE_ROWS]
                    part[:] = np.unpackbits(np.frombuffer(saved[0], np.uint8), count=len(part))
            self._known[run, kind] = bits
        return self._known[run, kind]

    def set(self, run: str, kind: Kind, at: Int32s, rows: int) -> Int64s:
        """Mark the rows of a run that have these numbers; return where in ``at`` those that had no mark come first."""
        first, _ = mark_rows(at, 0, self.of(run, kind, rows))
        if len(first):
            pieces = np.flatnonzero(np.bincount(at[first] // PIECE_ROWS))
            self._changed.setdefault((run, kind), set()).update(pieces.tolist())
        return first

    def add(self, run: str, kind: Kind, bits: Bools) -> None:
        """Give a new run its marks."""
        self._known[run, kind] = bits
        pieces = enumerate(range(0, len(bits), PIECE_ROWS))
        self._changed[run, kind] = {piece for piece, begin in pieces if bits[begin : begin + PIECE_ROWS].any()}

    def remove(self, run: str, rows: int) -> None:
        """Remove the marks of a run."""
        for kind in KINDS:
            self._known.pop((run, kind), None)
            self._changed.pop((run, kind), None)
            for piece in range(-(-rows // PIECE_ROWS)):
                self._pieces.removeKey((run, kind, piece))

    def save(self) -> None:
        """Write what has changed."""
        for (run, kind), pieces in self._changed.items():
            bits = self._known[run, kind]
            for piece in sorted(pieces):
                packed = np.packbits(bits[piece * PIECE_ROWS : (piece + 1) * PIECE_ROWS]).tobytes()
                self._pieces.updateValue((run, kind, piece), (packed,))
        self._changed = {}
