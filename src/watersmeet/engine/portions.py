"""Gives results in tables of bounded size, for ``pushes``; ``push`` returns one table.

A table has at most ``contract.PAIRS_AT_ONCE`` rows, or ``result.BYTES_AT_ONCE`` bytes if that is less, by the rows' own
bytes; only a single row may have more.

*Whole windows* (``kang`` and ``panjoin``, see :mod:`watersmeet.engine.topologies.whole_windows`) are probed when
results are asked for. So no more is held than a table, and in order the row numbers of a single row's pairs.

*All other topologies* join a push in small slices, one after the other, and give the results of each. The first slice
is so small that it cannot give more than a table; then slices grow while they give little. So the results of one slice
are held, which may be more than a table if many matches come suddenly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa

from watersmeet.engine.intake import Slice
from watersmeet.engine.topologies.blocks import blocks_in_order_of_arrival
from watersmeet.engine.topologies.contract import Topology
from watersmeet.engine.topologies.whole_windows import WholeWindows
from watersmeet.spec.ordering import Relaxed
from watersmeet.subwindow import contract
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.plan import OTHER_SIDE

__all__ = ["portions"]

GROWTH: Final = 4
"""Slices become this many times longer while they give less than this fraction of a table."""


def portions(topology: Topology, part: Slice, order: Relaxed | None) -> Iterator[list[pa.Table]]:
    """Join a slice; yield the pairs in portions.

    With an ``order`` all pairs of a portion come before those of the next.
    """
    if isinstance(topology, WholeWindows):
        return topology.in_portions(part, order)
    return _in_small_slices(topology, part, order)


def _in_small_slices(topology: Topology, part: Slice, order: Relaxed | None) -> Iterator[list[pa.Table]]:
    rows_of_both = len(part.left) + len(part.right)
    for turn in (part.left, part.right) if order is None else blocks_in_order_of_arrival(part, max(1, rows_of_both)):
        begin, rows = 0, 0
        while begin < len(turn):
            met = sum(window.rows for window in topology.windows(OTHER_SIDE[turn.side]))
            rows = max(1, rows, contract.PAIRS_AT_ONCE // max(1, met))
            some = turn.slice(begin, min(begin + rows, len(turn)))
            begin += len(some)
            found = topology.push(_one_sided(part, some))
            count = sum(table.num_rows for table in found)
            if count * GROWTH <= contract.PAIRS_AT_ONCE:
                rows *= GROWTH
            elif count > contract.PAIRS_AT_ONCE:
                rows = rows * contract.PAIRS_AT_ONCE // count
            yield found


def _one_sided(part: Slice, some: KeyedBatch) -> Slice:
    if some.side == "left":
        return replace(part, left=some, right=part.right.slice(0, 0))
    return replace(part, left=part.left.slice(0, 0), right=some)
