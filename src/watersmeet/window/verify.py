"""Verifying candidates: pairs that an index found, of which some do not match.

Whether a pair matches follows from its two rows. Three things are checked, each for many pairs at once: that a stored
row's *key* lies in a range that the probing row looks for, the *count window's* rule (a time window is an axis like any
other), and the *residual*, what no key can decide. Windows of two streams check the pairs of a batch and a piece of the
stored rows, by the numbers of their rows; stages of many streams check rows that they have gathered, side by side.

Cost. Conditions on keys are checked by kernels, the residual in Python: so keys reduce what an index finds as far as
they can, and what is left of all segments is checked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.columns.keys import Borders, KeyRange, axis_keys, have_ends, meet_exactly
from watersmeet.columns.values import is_true
from watersmeet.columns.widths import cuts_at, has_fixed_values, value_widths
from watersmeet.kernels.keys import keep_pairs_in_count_window, keep_pairs_in_ranges
from watersmeet.kernels.pairs import compress_pairs
from watersmeet.spec.expression import Column, Predicate, StreamName, columns_of
from watersmeet.spec.typing import Schemas
from watersmeet.subwindow.choose import IndexOrder
from watersmeet.subwindow.contract import Pairs
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.chunks import one_array
from watersmeet.window.payload import Stored
from watersmeet.window.plan import OTHER_SIDE, JoinPlan

__all__ = ["Candidates", "Verifier", "in_count_window", "in_ranges", "in_time", "truth"]


ROWS_PER_CANDIDATE: Final = 4
"""With fewer candidates than one for this many stored rows, the residual alone is cheaper than keys for all rows."""
CHECKED_TOGETHER: Final = 1 << 16
"""Candidates, of several segments, for which the residual is evaluated together."""
CHECKED_BYTES: Final = 1 << 28
"""Bytes that it reads of these, where they have columns of text."""

EARLIEST, LATEST = -(2**63), 2**63 - 1

Candidates = tuple[Stored, Pairs]
"""Pairs of rows of a probing batch and rows of a chunk."""


# --- what is checked ------------------------------------------------------------------------------------------------


def in_ranges(pairs: Pairs, ranges: list[KeyRange], keys: Int64s) -> tuple[Bools, int]:
    """Return which pairs' stored row has a key that the probing row looks for, and how many do."""
    keep = np.zeros(pairs.count, bool)
    kept = 0
    for wanted in ranges:  # disjoint, so no pair is counted twice
        kept += keep_pairs_in_ranges(pairs.who, pairs.row, wanted.lo, wanted.hi, keys, keep)
    return keep, kept


def in_count_window(
    pairs: Pairs, plan: JoinPlan, side: StreamName, stored: Arrival, probing: Arrival
) -> tuple[Bools, int]:
    """Return which pairs' earlier row was in its window when the later one arrived, and how many were.

    ``stored`` is about rows of ``side``, ``probing`` about those of the other.
    """
    keep = np.ones(pairs.count, bool)
    kept = keep_pairs_in_count_window(
        pairs.who,
        pairs.row,
        stored.sequence,
        stored.seen,
        plan.length(side),
        probing.sequence,
        probing.seen,
        plan.length(OTHER_SIDE[side]),
        keep,
    )
    return keep, kept


def in_time(
    plan: JoinPlan,
    keys: Mapping[StreamName, Int64s],
    columns: Mapping[StreamName, Callable[[str], pa.Array]],
    rows: Mapping[StreamName, Int32s],
) -> Bools:
    """Return which pairs a time window holds for that their ``keys`` on its axis let through.

    Where a timestamp may lie beyond its key, those of both sides' ``columns`` decide, in which pairs have these rows.
    """
    assert plan.time is not None, "only timestamps may lie beyond their keys"
    axis, beyond = plan.axes[plan.time], np.zeros(len(keys["left"]), bool)
    for own in keys.values():
        if len(own) and have_ends(int(own.min()), int(own.max())):
            beyond |= (own == EARLIEST) | (own == LATEST)
    keep, at = ~beyond, np.flatnonzero(beyond)
    if len(at):
        moments = {
            side: column(name).take(pa.array(rows[side][at]))
            for side, column in columns.items()
            for name in [next(columns_of(axis.of(side))).name]
        }
        keep[at] = meet_exactly(axis, moments["left"], moments["right"], plan.schemas)
    return keep


def truth(residual: Predicate, gather: Callable[[Column], pa.Array], schemas: Schemas, count: int) -> Bools:
    """Return for ``count`` pairs or results whether they satisfy a predicate; ``gather`` is called once per column."""
    return np.ascontiguousarray(is_true(residual, cache(gather), schemas, count))


def kept_pairs(pairs: Pairs, keep: Bools, kept: int) -> Pairs:
    """Return the ``kept`` pairs whose flag is set."""
    return pairs if kept == pairs.count else Pairs(*compress_pairs(pairs.who, pairs.row, keep, kept))


# --- a window's candidates ------------------------------------------------------------------------------------------


class Verifier:
    """Checks what the window of one side finds for batches of the other."""

    def __init__(self, plan: JoinPlan, side: StreamName) -> None:
        self.plan = plan
        self.side = side
        self._checks: dict[tuple[tuple[int, ...], int | None, tuple[int, ...], bool], list[int]] = {}

    def checks(self, order: IndexOrder, own_axes: tuple[int, ...], *, window_holds: bool) -> list[int]:
        """Return the axes on which candidates of an index are checked; a window's few indexes ask again and again."""
        asked = order.equalities, order.key, own_axes, window_holds
        if asked not in self._checks:
            self._checks[asked] = self._find_checks(order, own_axes, window_holds=window_holds)
        return self._checks[asked]

    def _find_checks(self, order: IndexOrder, own_axes: tuple[int, ...], *, window_holds: bool) -> list[int]:
        """Return the axes on which candidates are checked: required ones that the order does not enforce, then others.

        ``own_axes`` are those of a branch. On them candidates are checked by each row's own ranges: ranges in a sorted
        batch may be wider, and whether a pair is in a branch must not depend on that.
        """
        axes = {number: self.plan.every_axis[number] for number in (*range(len(self.plan.axes)), *own_axes)}
        enforced = {order.key} | (set(order.equalities) if len(order.equalities) == 1 else set())
        enforced -= {number for number in own_axes if axes[number].domain.kind == "double_offset"}
        if window_holds:
            enforced.add(self.plan.time)
        required = [number for number, axis in axes.items() if axis.required and number not in enforced]
        looked_up = {order.key, *order.equalities}
        return required + [number for number, axis in axes.items() if not axis.required and number not in looked_up]

    def checked(
        self, stored: Stored, pairs: Pairs, batch: KeyedBatch, checks: list[tuple[int, Borders]], *, window_holds: bool
    ) -> Pairs:
        """Return the candidates that pass the checks of axes and window.

        An axis that is not required is also part of the residual. Checking keys is much faster, but needs the keys of
        all rows, which does not pay for few candidates.
        """
        for axis, borders in checks:
            if self.plan.every_axis[axis].required or pairs.count * ROWS_PER_CANDIDATE >= stored.rows.num_rows:
                pairs = kept_pairs(pairs, *self._hits(stored, pairs, batch, axis, borders))
        if self.plan.time is None and not window_holds:
            assert stored.numbers is not None
            assert batch.arrival is not None
            arrival = Arrival(*stored.numbers)
            pairs = kept_pairs(pairs, *in_count_window(pairs, self.plan, self.side, arrival, batch.arrival))
        return pairs

    def met_in_time(self, stored: Stored, pairs: Pairs, batch: KeyedBatch) -> Pairs:
        """Return the candidates that a time window holds for, where timestamps may lie beyond their keys."""
        assert self.plan.time is not None, "places are timestamps"
        other = batch.side
        rows = {self.side: pairs.row, other: pairs.who}
        keys = {self.side: self.places(stored)[pairs.row], other: batch.key(self.plan.time)[pairs.who]}
        keep = in_time(self.plan, keys, {self.side: stored.rows.column, other: batch.rows.column}, rows)
        return kept_pairs(pairs, keep, int(np.count_nonzero(keep)))

    def places(self, stored: Stored) -> Int64s:
        """Return where rows lie in the window: their timestamps, or arrival numbers."""
        if self.plan.time is None:
            assert stored.numbers is not None
            return stored.numbers[0]
        return self.stored_keys(stored, self.plan.time, ())

    def not_found_before(self, stored: Stored, pairs: Pairs, batch: KeyedBatch, branch: int, borders: Borders) -> Pairs:
        """Return the candidates that lie in no earlier branch: that has found them already."""
        for own_axes in self.plan.branch_numbers[:branch]:
            found = np.ones(pairs.count, bool)
            for axis in own_axes:
                found &= self._hits(stored, pairs, batch, axis, borders)[0]
            pairs = kept_pairs(pairs, ~found, pairs.count - int(np.count_nonzero(found)))
        return pairs

    def _hits(self, stored: Stored, pairs: Pairs, batch: KeyedBatch, axis: int, borders: Borders) -> tuple[Bools, int]:
        """Return which candidates lie in the ranges of an axis, and their number."""
        return in_ranges(pairs, batch.ranges(axis, borders), self.stored_keys(stored, axis, borders))

    def stored_keys(self, stored: Stored, axis: int, borders: Borders) -> Int64s:
        """Return stored rows' keys on an axis."""
        own, schemas = self.plan.every_axis[axis], self.plan.schemas
        return stored.keys(axis, lambda rows: axis_keys(own, self.side, rows, schemas, borders))

    def satisfying(
        self, residual: Predicate, candidates: Iterator[Candidates], batch: KeyedBatch
    ) -> Iterator[Candidates]:
        """Yield the candidates that satisfy the residual."""
        for some in _put_together(self._cut(residual, candidates, batch)):
            who = np.concatenate([pairs.who for _, pairs in some])
            keep = self._truth(residual, some, batch, who)
            ends = np.cumsum([pairs.count for _, pairs in some])
            for (stored, pairs), kept in zip(some, np.split(keep, ends[:-1]), strict=True):
                satisfying = kept_pairs(pairs, kept, int(np.count_nonzero(kept)))
                if satisfying.count:
                    yield stored, satisfying

    def _cut(
        self, residual: Predicate, candidates: Iterator[Candidates], batch: KeyedBatch
    ) -> Iterator[tuple[Candidates, int]]:
        """Yield candidates of which the residual reads a bounded number of bytes, and that number."""
        texts = [
            column
            for column in set(columns_of(residual))
            if not has_fixed_values(self.plan.schemas[column.stream].field(column.name).type)
        ]
        for stored, pairs in candidates:
            if not texts:  # it is the number of candidates that bounds them
                yield (stored, pairs), 0
                continue
            at = {self.side: (stored.rows, pairs.row), batch.side: (batch.rows, pairs.who)}
            read = ((*at[column.stream], column.name) for column in texts)
            widths = np.sum([value_widths(rows.column(name), own) for rows, own, name in read], axis=0)
            for part in cuts_at(widths, CHECKED_BYTES):
                yield (stored, Pairs(pairs.who[part], pairs.row[part])), int(widths[part].sum())

    def _truth(self, residual: Predicate, candidates: list[Candidates], batch: KeyedBatch, who: Int32s) -> Bools:
        """Return for each candidate whether it satisfies the residual; ``who`` are the probing rows of all."""

        def gather(column: Column) -> pa.Array:
            if column.stream != self.side:
                return _taken(batch.rows, column, who)
            parts = [_taken(stored.rows, column, pairs.row) for stored, pairs in candidates]
            return parts[0] if len(parts) == 1 else one_array(parts)

        return truth(residual, gather, self.plan.schemas, len(who))


def _put_together(candidates: Iterator[tuple[Candidates, int]]) -> Iterator[list[Candidates]]:
    """Yield candidates in lists that are checked together: a check of few costs as much Python as one of many.

    With each go the bytes that are read of them.
    """
    some: list[Candidates] = []
    count = nbytes = 0
    for candidate, own in candidates:
        pairs = candidate[1]
        if some and (count + pairs.count > CHECKED_TOGETHER or nbytes + own > CHECKED_BYTES):
            yield some
            some, count, nbytes = [], 0, 0
        some.append(candidate)
        count, nbytes = count + pairs.count, nbytes + own
    if some:
        yield some


def _taken(rows: pa.RecordBatch, column: Column, at: Int32s) -> pa.Array:
    """Return the values of a column for given rows, without a dictionary: it may have many more values than rows."""
    taken = rows.column(column.name).take(pa.array(at))
    return taken.dictionary_decode() if isinstance(taken, pa.DictionaryArray) else taken
