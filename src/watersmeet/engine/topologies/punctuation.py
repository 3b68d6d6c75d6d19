"""Runs of results with stars between them, and how several are merged into one (SplitJoin, section 5).

A *star* says that its core is done with all arrivals up to a mark: those of a probing row and all before it, or within
a probing row those of the stored rows up to one. So the results before a star belong before those behind the star of
the same mark on any other core. A core sends a star after every so many probing rows, and within a row after every so
many stored ones, as :class:`~watersmeet.spec.ordering.Relaxed` says, and one behind every message.

*Merging* (algorithm 5) takes the results of each input up to its next star, in the order of the inputs, passes them on
and hands one star on. Here this is done for all stars at once: the stretches between stars are put in the order of
their marks, those of one mark in the order of the inputs, and of equal marks one is kept. Results are not moved on the
way down: a run says where each of them stands in the tables it came in, and the root moves them once.

Cost. Sorting stars by their marks, and one number per result. So it grows with the stars that are sent.

Departures. Stars carry their marks, where the paper counts them: every core would have to send a star for every stored
arrival, matched or not. Here a star with no result before it is left out, the next one stands for it. So a message has
at most one more star than results, and inner order costs what there is to be ordered. Marks also let cores join
messages that wait, since two cores need not send the same stars. Stars count arrivals, not comparisons: an index makes
few of those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Bools, Int64s
from watersmeet.columns.gather import in_order
from watersmeet.engine.row_numbers import numbers_of
from watersmeet.spec.ordering import Relaxed
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.stream_window import Match

__all__ = ["END", "Run", "merged", "punctuated"]

END: Final = np.int64(2**63 - 1)
"""The inner mark of a star behind a row's last result."""
FEW_GROUPS: Final = 1 << 16
"""Numbers below this are sorted by counting."""


@dataclass(frozen=True, slots=True)
class Run:
    """Results in order with the stars between them; the last star stands behind the last result."""

    tables: tuple[pa.Table, ...]
    place: Int64s
    """By result: where it stands in the tables, counted from the first one's first row."""
    ends: Int64s
    """By star: how many results come before it."""
    outer: Int64s
    """By star: the turn of the last probing row that it covers. Rows of both streams take turns as they arrive."""
    inner: Int64s
    """By star: how far it covers that row's results, as the arrival of what was found; END: all of them."""
    of_left: Bools
    """By star: whether left rows probed."""

    @property
    def complete(self) -> int:
        """The turn up to which all results are here or have been sent before."""
        return int(self.outer[-1])

    def split(self, turn: int) -> tuple[Run, Run]:
        """Return the part that stars complete up to a turn, and the rest."""
        stars = int(np.searchsorted(self.outer, turn, "right"))
        results = int(self.ends[stars - 1]) if stars else 0
        return (
            self._part(slice(None, stars), slice(None, results), 0),
            self._part(slice(stars, None), slice(results, None), results),
        )

    def _part(self, stars: slice, results: slice, before: int) -> Run:
        return Run(
            self.tables,
            self.place[results],
            self.ends[stars] - before,
            self.outer[stars],
            self.inner[stars],
            self.of_left[stars],
        )

    def table(self) -> pa.Table | None:
        """Return the results in order; None when there are none."""
        if not len(self.place):
            return None
        table = pa.concat_tables(self.tables)
        is_in_order = len(self.place) == table.num_rows and bool(np.all(self.place[1:] > self.place[:-1]))
        return table if is_in_order else in_order(table, self.place)


def punctuated(
    batch: KeyedBatch, turn: int, matches: Sequence[Match], tables: Sequence[pa.Table], precision: Relaxed
) -> Run:
    """Return what a block found, in ``tables``, as a run; the block's first row has the given turn."""
    buckets = numbers_of(batch.rows) // precision.rows
    lasts = np.append(np.flatnonzero(np.diff(buckets)), len(batch) - 1)  # stars may stand behind these rows
    group, found = np.empty(0, np.int64), np.empty(0, np.int64)
    if matches:
        group = np.searchsorted(lasts, np.concatenate([match.who for match in matches]))
        found = np.full(len(group), END) if precision.comparisons is None else _found(matches, precision.comparisons)
    place = _order_of(group, len(lasts)) if precision.comparisons is None else np.lexsort((found, group))
    group, found = group[place], found[place]
    ends = np.append(np.flatnonzero((np.diff(group) != 0) | (np.diff(found) != 0)) + 1, len(group))
    if not len(group):
        outer, inner = lasts[-1:], np.array([END])
    else:
        outer, inner = lasts[group[ends - 1]], found[ends - 1]
        if outer[-1] != lasts[-1] or inner[-1] != END:
            ends, outer, inner = np.append(ends, ends[-1]), np.append(outer, lasts[-1]), np.append(inner, END)
    return Run(tuple(tables), place, ends, outer + turn, inner, np.full(len(ends), batch.side == "left"))


def _found(matches: Sequence[Match], comparisons: int) -> Int64s:
    return np.concatenate([numbers_of(match.stored)[match.row] for match in matches]) // comparisons


def _order_of(groups: Int64s, count: int) -> Int64s:
    """Return the order in which the members of so many groups come group by group, those of one group as they were."""
    if count == 1:
        return np.arange(len(groups))
    return np.argsort(groups.astype(np.uint16) if count <= FEW_GROUPS else groups, kind="stable")


def merged(runs: Sequence[Run]) -> Run:
    """Merge the runs of several inputs, star by star: those of one mark in the order given."""
    if len(runs) == 1:
        return runs[0]
    outer, inner = (np.concatenate([getattr(run, mark) for run in runs]) for mark in ("outer", "inner"))
    sizes = np.concatenate([np.diff(run.ends, prepend=0) for run in runs])
    starts = np.cumsum(sizes) - sizes
    place = np.concatenate([run.place + first for run, first in zip(runs, _firsts(runs), strict=True)])
    order = np.lexsort((inner, outer))
    outer, inner, sizes, starts = outer[order], inner[order], sizes[order], starts[order]
    ends = np.cumsum(sizes)
    kept = np.append((np.diff(outer) != 0) | (np.diff(inner) != 0), True)
    return Run(
        tuple(table for run in runs for table in run.tables),
        place[np.repeat(starts - (ends - sizes), sizes) + np.arange(len(place))],
        ends[kept],
        outer[kept],
        inner[kept],
        np.concatenate([run.of_left for run in runs])[order][kept],
    )


def _firsts(runs: Sequence[Run]) -> Int64s:
    """Return where each run's first table begins when all tables lie one behind the other."""
    rows = [sum(table.num_rows for table in run.tables) for run in runs]
    return np.cumsum([0, *rows[:-1]])
