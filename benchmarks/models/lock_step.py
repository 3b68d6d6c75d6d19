"""Handshake join in lock step: a model of the paper's FPGA design (section 6 and appendix A), not a way to run joins.

Each window is a shift register, cut into one segment per core. A new row shifts its register by one: the oldest row
falls out, and where a row enters a segment its core compares it with the other register's segment, one row a cycle, all
cores at the same time. Nothing is ever between two cores, so nothing can be missed, and the same rows always take the
same cycles. Tests use it as a second witness beside the oracle; the benchmark uses it for figure 13.

Count windows only, one row at a time. A left row enters at core 0, a right row at the last core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from watersmeet.arrays import Bools, Int64s
from watersmeet.spec.expression import StreamName
from watersmeet.window.plan import OTHER_SIDE

__all__ = ["LockStep", "throughput"]

Matches = Callable[[Int64s, Int64s], Bools]
"""Tells for pairs of left and right row numbers which satisfy the predicate."""


def throughput(left_window: int, right_window: int, cores: int, clock: float) -> float:
    """Return how many rows per stream a circuit of that clock frequency can take (appendix A.5)."""
    return clock / max(-(-left_window // cores), -(-right_window // cores))


@dataclass
class LockStep:
    """The circuit: two registers, newest row first, and the cycles it has taken."""

    windows: dict[StreamName, int]
    cores: int
    matches: Matches
    cycles: int = 0
    pairs: list[tuple[int, int]] = field(default_factory=list)
    """Numbers of left and right rows that met."""

    def __post_init__(self) -> None:
        self._register: dict[StreamName, Int64s] = {side: np.empty(0, np.int64) for side in OTHER_SIDE}
        self._arrived: dict[StreamName, int] = dict.fromkeys(OTHER_SIDE, 0)

    def run(self, arrivals: Sequence[StreamName]) -> None:
        """Let rows arrive, each stream's in the order of its own numbers."""
        for side in arrivals:
            self._shift(side)

    def _shift(self, side: StreamName) -> None:
        register = np.concatenate(([self._arrived[side]], self._register[side]))[: self.windows[side]]
        self._register[side] = register
        self._arrived[side] += 1
        longest = 0
        for core in range(self.cores):
            begin, _ = self._segment(side, core)
            if begin < len(register):
                met = self._held(OTHER_SIDE[side], core)
                self._compare(side, register[begin], met)
                longest = max(longest, len(met))
        self.cycles += longest

    def finish(self) -> None:
        """Compare the rows that are still on their way to each other: left ones to the left of right ones."""
        for core in range(self.cores):
            for row in self._held("left", core):
                for further in range(core + 1, self.cores):
                    self._compare("left", row, self._held("right", further))

    def _segment(self, side: StreamName, core: int) -> tuple[int, int]:
        """Return where a core's segment of a register begins and ends; a stream's first segment is where it enters."""
        place = core if side == "left" else self.cores - 1 - core
        return place * self.windows[side] // self.cores, (place + 1) * self.windows[side] // self.cores

    def _held(self, side: StreamName, core: int) -> Int64s:
        begin, end = self._segment(side, core)
        return self._register[side][begin:end]

    def _compare(self, side: StreamName, row: int, others: Int64s) -> None:
        same = np.full(len(others), row)
        left, right = (same, others) if side == "left" else (others, same)
        keep = self.matches(left, right)
        self.pairs += zip(left[keep].tolist(), right[keep].tolist(), strict=True)
