"""PanJoin's worker on an FPGA (section IV): a model that counts the cycles of its circuit, not a way to run joins.

- *Insertion engine*: the mergers share the output of a merge evenly. Each reads a tuple and writes a tuple a cycle.
  When all have finished, the indexer samples the new main array, a sample a cycle.
- *Probing engine*: the boundary generator makes two bounds of every probing tuple, and the partitioners find the
  partitions that these lie in. Then a prober takes a partition and its bounds, which are sorted, and reads a tuple or a
  bound a cycle (figure 9); a free prober takes the next partition. Lower and upper bounds are looked for one after the
  other.
- *Memory*: all of them read and write one memory of so many bytes a cycle. Where they want more, all slow down alike.

Left out: latencies, which streams hide, the partitioners, which the paper does not describe, and the way from and to
the manager. Arrays are merged and searched for real, so the answers can be checked; what a unit did follows from them.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from watersmeet.arrays import Int64s

__all__ = ["BYTES_PER_CYCLE", "HERTZ", "FpgaWorker"]

HERTZ: Final = 252.7e6
"""The clock of table I."""
BYTES_PER_CYCLE: Final = 2 * 1066e6 * 8 / HERTZ
"""Two channels of DDR3-1066, 8 bytes wide: 17 GB/s, as the paper's ratio to its processor's 150 GB/s says too."""
TUPLE: Final = 8
"""Bytes of a tuple: a key and a value of 32 bits each."""


@dataclass
class FpgaWorker:
    """A subwindow, its engines, and the cycles that they have taken."""

    partitions: int
    mergers: int = 8
    probers: int = 8
    bytes_per_cycle: float = BYTES_PER_CYCLE
    main: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    insertion_cycles: float = 0.0
    probing_cycles: float = 0.0

    def insert(self, batch: Int64s) -> None:
        """Merge a sorted batch into the main array."""
        self.main = np.sort(np.concatenate((self.main, batch)), kind="stable")
        pieces = np.diff(np.arange(self.mergers + 1) * len(self.main) // self.mergers)
        self.insertion_cycles += self._together(pieces, self.mergers, 2 * TUPLE) + min(self.partitions, len(self.main))

    def probe(self, low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
        """Return the range of the main array that lies between each pair of sorted bounds."""
        start, end = np.searchsorted(self.main, low, "left"), np.searchsorted(self.main, high, "right")
        for found in (start, end):
            self.probing_cycles += self._together(self._steps(found), self.probers, TUPLE)
        return start, end

    def _steps(self, found: Int64s) -> Int64s:
        """Return the tuples and bounds that a prober reads in each partition that bounds lie in."""
        rows = max(1, -(-len(self.main) // self.partitions))
        # The index has each partition's first tuple: a bound that lies behind all of one is looked for in that one.
        partition = np.maximum(found - 1, 0) // rows
        targets, first, bounds = np.unique(partition, return_index=True, return_counts=True)
        last = found[first + bounds - 1]
        tuples = np.minimum(last - targets * rows + 1, rows)
        steps: Int64s = tuples + bounds
        return steps

    def _together(self, steps: Int64s, units: int, bytes_per_step: int) -> float:
        """Return the cycles in which ``units`` take ``steps``, each job by the unit that is free first."""
        free_at = [0] * units
        for job in steps.tolist():
            heapq.heapreplace(free_at, free_at[0] + job)
        cycles, before = 0.0, 0
        for finished, at in enumerate(sorted(free_at)):  # as many as have not finished share the memory
            cycles += (at - before) * max(1.0, (units - finished) * bytes_per_step / self.bytes_per_cycle)
            before = at
        return cycles
