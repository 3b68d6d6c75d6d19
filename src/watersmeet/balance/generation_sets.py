"""For each of some rows a set of generations, of which any number may be live.

A set is counted back from the newest generation of the table that made it: element 0 is the newest one, element 1 the
one before. So it means the same as long as that generation is known, whatever becomes of older ones. Sets travel, and
are stored, as columns of whole numbers: each has the bits of ``BITS`` generations. Up to that many live generations
there is one column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from watersmeet.arrays import Bools, Int32s, Int64s

__all__ = ["GenerationSets"]

BITS: Final = 63
"""Bits of a column: the sign stays out of it, but for the set of all generations, whose columns are -1."""


@dataclass(frozen=True, slots=True)
class GenerationSets:
    """The sets of some rows: a line per column of bits."""

    bits: Int64s

    @classmethod
    def all_of(cls, rows: int) -> Self:
        """Return sets of all generations."""
        return cls(np.full((1, rows), -1))

    @classmethod
    def of(cls, back: Int64s, rows: Int64s, count: int) -> Self:
        """Return the sets of ``count`` rows, given pairs of an element and the row that has it."""
        bits = np.zeros((1 + int(back.max(initial=0)) // BITS, count), np.int64)
        np.bitwise_or.at(bits, (back // BITS, rows), np.int64(1) << back % BITS)
        return cls(bits)

    @classmethod
    def joined(cls, parts: Sequence[Self | None], sizes: Sequence[int]) -> Self | None:
        """Return sets one after the other; where they are missing they are those of all. None if all are missing."""
        if all(part is None for part in parts):
            return None
        known = [cls.all_of(size) if part is None else part for part, size in zip(parts, sizes, strict=True)]
        count = max(len(part.bits) for part in known)
        return cls(np.concatenate([part.lines(count) for part in known], axis=1))

    @classmethod
    def from_columns(cls, columns: Mapping[str, Int64s]) -> Self | None:
        """Return the sets that :meth:`columns` gave; None if there are no columns."""
        return cls(np.stack([columns[str(line)] for line in range(len(columns))])) if columns else None

    def columns(self) -> dict[str, Int64s]:
        """Return the sets as columns, by name."""
        return {str(line): bits for line, bits in enumerate(self.bits)}

    def __len__(self) -> int:
        return int(self.bits.shape[1])

    @property
    def are_all(self) -> Bools:
        """Which sets have all generations."""
        return np.asarray(self.bits[0] == -1)

    def have(self, back: int | Int64s, rows: Int64s | slice = slice(None)) -> Bools:
        """Tell which sets have an element: one and the same, or of some ``rows`` each its own."""
        line, bit = np.asarray(back) // BITS, np.asarray(back) % BITS
        bits = self.bits[np.minimum(line, len(self.bits) - 1), rows]
        return np.asarray(((bits >> bit) & 1).astype(bool) & ((line < len(self.bits)) | (bits == -1)))

    def keep(self, rows: Bools | Int32s | Int64s) -> GenerationSets:
        """Return the sets of some rows."""
        return GenerationSets(self.bits[:, rows])

    def lines(self, count: int) -> Int64s:
        """Return as many lines of bits; those of later generations are all or none."""
        more = np.where(self.are_all, -1, 0)
        return np.concatenate([self.bits, np.repeat(more[None], count - len(self.bits), axis=0)])
