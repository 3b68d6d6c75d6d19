"""The rows of one subwindow, as Arrow record batches in the order they came.

Rows are numbered from 0 in that order. To keep ``take`` cheap, whole batches are concatenated: whenever ``FAN_IN``
neighbours have the same level, they become one chunk of the next level, as in a tiered merge tree.

Invariant: chunk *i* holds rows ``starts[i]`` to ``starts[i + 1] - 1``.
Cost: a row is copied once per level, so ``log(rows / batch) / log(FAN_IN)`` times; there are fewer than ``FAN_IN`` chunks
per level. Columns of any type travel: nothing here looks into them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.kernels.pairs import split_pairs

__all__ = ["Chunk", "Payload"]

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

FAN_IN: Final = 8


@dataclass(slots=True)
class Chunk:
    """Some rows, with their arrival numbers in a count window, and keys computed for them when first asked for."""

    rows: pa.RecordBatch
    sequence: Int64s | None
    level: int = 0
    keys: dict[int, Int64s] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        held = 0 if self.sequence is None else self.sequence.nbytes
        return int(self.rows.nbytes) + held + sum(key.nbytes for key in self.keys.values() if key.base is None)


class Payload:
    """The chunks of one subwindow."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.rows = 0

    def append(self, rows: pa.RecordBatch, sequence: Int64s | None) -> None:
        """Add rows behind the last one."""
        self.chunks.append(Chunk(rows, sequence))
        self.rows += rows.num_rows
        while len(self.chunks) >= FAN_IN and self.chunks[-FAN_IN].level == self.chunks[-1].level:
            self._combine(FAN_IN)

    def seal(self) -> None:
        """Make one chunk of all."""
        if len(self.chunks) > 1:
            self._combine(len(self.chunks))

    def split(self, who: Int32s, row: Int32s) -> Iterator[tuple[Chunk, Int32s, Int32s]]:
        """Yield for every chunk the pairs whose stored row lies in it; rows are then numbered within the chunk."""
        if len(self.chunks) == 1:
            yield self.chunks[0], who, row
            return
        sizes = [chunk.rows.num_rows for chunk in self.chunks]
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        ends, split_who, split_row = split_pairs(who, row, starts)
        begin = 0
        for chunk, end in zip(self.chunks, ends.tolist(), strict=True):
            if end > begin:
                yield chunk, split_who[begin:end], split_row[begin:end]
            begin = end

    @property
    def nbytes(self) -> int:
        return sum(chunk.nbytes for chunk in self.chunks)

    def _combine(self, count: int) -> None:
        """Concatenate the last ``count`` chunks."""
        last = self.chunks[-count:]
        table = pa.Table.from_batches([chunk.rows for chunk in last]).unify_dictionaries().combine_chunks()
        sequences = [chunk.sequence for chunk in last if chunk.sequence is not None]
        whole = Chunk(
            table.to_batches()[0] if table.num_columns else last[0].rows,
            np.concatenate(sequences) if sequences else None,
            last[-1].level + 1,
        )
        self.chunks[-count:] = [whole]
