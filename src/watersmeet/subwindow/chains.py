"""Probes the chains of a linked table (LLAT), for all structures that keep their rows in one."""

from __future__ import annotations

from collections.abc import Iterator

from watersmeet.arrays import Int32s
from watersmeet.kernels import llat
from watersmeet.subwindow import contract
from watersmeet.subwindow.contract import Pairs, Probes

__all__ = ["chained_pairs"]


def chained_pairs(
    table: llat.Table, following: Int32s, first: Int32s, final: Int32s, probes: Probes
) -> Iterator[Pairs]:
    """Yield the pairs of every probe with the chains from ``first`` to ``final``, a bounded number at a time."""
    begin = 0
    while begin < len(probes):
        pair_who, pair_row, begin = llat.find_pairs(
            table, following, first, final, probes.lo, probes.hi, probes.who, begin, contract.PAIRS_AT_ONCE
        )
        if len(pair_who):
            yield Pairs(pair_who, pair_row)
