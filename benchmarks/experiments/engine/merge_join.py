"""Handshake join with merge join on every core instead of the eager scan (handshake join, section 5, figure 9).

Rows come in basic blocks of 128, sorted before they enter. A core merges a block with every block of the other
stream's segment: both are walked once, where the scan compares all with all. So a row costs less per stored row, the
highest rate rises, and with it what goes through the queues. Windows are of a fixed time, as in the paper: theory is
the square root of the cores, for all.

*Indexed* is what a join has by default: one search per block and window, not one per pair of blocks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import ClassVar, Final
from unittest.mock import patch

import numpy as np

from benchmarks.experiment import Context, DisagreementError, Experiment
from benchmarks.report import Cell, Description, Figure, Panel, Result, Series, Table
from benchmarks.rig import Rig, core_counts, highest_rate
from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels.compile import kernel
from watersmeet.kernels.scan import reserve
from watersmeet.spec.options import Structure
from watersmeet.subwindow import choose, contract
from watersmeet.subwindow.contract import Entries, Matches, Pairs, Probes
from watersmeet.subwindow.scan import Scan

__all__ = ["EXPERIMENT"]

SEED: Final = 72
BLOCK = 128
SECONDS: Final = 60.0
BISECTIONS: Final = 6
LOWEST: Final = 500.0
HIGHEST: Final = 60_000.0
CHECKED: Final = 1 << 12
PAPER: Final = (
    "the paper: merge join takes 4,000 rows/s on 16 cores in windows of 10 minutes, near the ideal until then; its"
    " eager scan takes less than the 1,500 of CellJoin: so at least 2.7x"
)


@kernel
def merge_blocks(  # noqa: PLR0917 -- a kernel
    key: Int64s, row: Int32s, lo: Int64s, hi: Int64s, who: Int32s, at: int, most: int
) -> tuple[Int32s, Int32s, int]:
    """Return index pairs of sorted probes with sorted blocks, about ``most`` at a time.

    The walk begins with block ``at`` (0 at first) and returns the next one, or -1 behind the last.
    """
    pair_who = np.empty(BLOCK, np.int32)
    pair_row = np.empty(BLOCK, np.int32)
    found = 0
    for begin in range(at * BLOCK, len(key), BLOCK):
        if found >= most:
            return pair_who[:found], pair_row[:found], begin // BLOCK
        first, end = begin, min(begin + BLOCK, len(key))
        for q in range(len(lo)):
            while first < end and key[first] < lo[q]:
                first += 1
            stop = first
            while stop < end and key[stop] <= hi[q]:
                stop += 1
            if stop == first:
                continue
            pair_who = reserve(pair_who, found, stop - first)
            pair_row = reserve(pair_row, found, stop - first)
            for i in range(first, stop):
                pair_who[found] = who[q]
                pair_row[found] = row[i]
                found += 1
    return pair_who[:found], pair_row[:found], -1


class SortedBlocks(Scan):
    """Rows in blocks of 128, each sorted, which are merged with the probes one by one."""

    scans: ClassVar[bool] = False

    def insert(self, entries: Entries) -> None:
        """Append a block."""
        assert self._size % BLOCK == 0, "all blocks but the last are full"
        super().insert(entries)

    def probe(self, probes: Probes) -> Iterator[Matches]:
        """Yield all matches of a batch of probes."""
        at = 0 if self._size and len(probes) else -1
        while at >= 0:
            key, row = self._key[: self._size], self._row[: self._size]
            found = merge_blocks(key, row, probes.lo, probes.hi, probes.who, at, contract.PAIRS_AT_ONCE)
            at = found[2]
            if len(found[0]):
                yield Pairs(found[0], found[1])


def _scanning() -> AbstractContextManager[object]:
    return nullcontext()


def _merging() -> AbstractContextManager[object]:
    return patch.dict(choose.STRUCTURES, {"scan": SortedBlocks})


LOCAL_JOINS: Final = {
    "eager scan": (_scanning, "scan"),
    "merge join of sorted blocks": (_merging, "scan"),
    "indexed": (_scanning, "auto"),
}


def run(context: Context) -> Result:
    """Find the highest rate per stream of every local join on 1, 2, 4 ... cores."""
    rates: dict[str, dict[int, float]] = {}
    pairs: dict[str, int] = {}
    steps, highest, seconds = (2, 2_000.0, 0.1) if context.quick else (BISECTIONS, HIGHEST, 1.0)
    for name, (local, structure) in LOCAL_JOINS.items():
        with local():
            pairs[name] = _pairs(structure)  # type: ignore[arg-type] # they are structures
            for cores in core_counts(os.cpu_count() or 1):
                context.progress.step(f"{name}, {cores} cores")
                make = partial(_rig, structure, cores)  # type: ignore[arg-type] # they are structures
                rates.setdefault(name, {})[cores] = highest_rate(make, steps, LOWEST, highest, seconds)
    if len(set(pairs.values())) > 1:
        raise DisagreementError(f"numbers of pairs: {pairs}")
    scan, merge, _ = rates.values()
    lines: list[tuple[Cell, ...]] = [
        (name, cores, rate, rate / by[1], cores**0.5, rate / scan[cores])
        for name, by in rates.items()
        for cores, rate in by.items()
    ]
    ideal = [merge[1] * cores**0.5 for cores in merge]
    return Result(
        tables=[
            Table(
                f"handshake, blocks of {BLOCK} rows, window of {SECONDS:.0f} seconds: highest rate per stream",
                ("local join", "cores", "rows/s", "against its 1 core", "theory", "against the eager scan"),
                lines,
                "by bisection",
            )
        ],
        figures=[
            Figure(
                "merge_join",
                "Handshake join with other local joins (figure 9)",
                [
                    Panel(
                        f"{SECONDS:.0f} seconds",
                        "cores",
                        "rows/s per stream",
                        [
                            *(Series(name, [*map(float, by)], [*by.values()]) for name, by in rates.items()),
                            Series("merge join, ideal", [*map(float, merge)], ideal),
                        ],
                    )
                ],
            )
        ],
        notes=[PAPER],
        runs=[{"what": name, "rows_per_second": by} for name, by in rates.items()],
    )


def _pairs(structure: Structure) -> int:
    rig = Rig("handshake", CHECKED, 2, BLOCK, SEED, structure=structure, values=1000)
    _, pairs = rig.feed(4 * BLOCK)
    owed = rig.engine.owed()
    rig.close()
    return int(pairs) + sum(int(table.num_rows) for table in owed)


def _rig(structure: Structure, cores: int, rate: float) -> Rig:
    window = -(-max(1024, int(rate * SECONDS)) // (BLOCK * cores)) * BLOCK * cores
    return Rig("handshake", window, cores, BLOCK, SEED, structure=structure, apart=1e6 / rate)


EXPERIMENT: Final = Experiment(
    "merge_join",
    Description(
        purpose="handshake join whose cores merge sorted blocks, against the eager scan",
        seed=SEED,
        shape="the papers' 2-D band, values to 10,000, window 60 seconds, blocks of 128 rows",
        expected="merge join well above the eager scan; all grow as the square root of the cores",
    ),
    run,
)
