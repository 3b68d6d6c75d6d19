"""A batch of one stream's rows with its keys, which are computed on first use, sorted once per order, and kept.

Batches are cut and concatenated by their own methods, which take the known keys along.

Threads that probe at the same time share a batch: the first that needs keys computes them, the others wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.columns.keys import Borders, KeyRange, axis_keys, combine_keys, key_ranges, reach_of, row_ranges
from watersmeet.kernels.sorting import deal_stretch, look_at_stretch, sort_bucket, sort_together
from watersmeet.kernels.team import ALONE
from watersmeet.spec.expression import StreamName
from watersmeet.subwindow.choose import IndexOrder
from watersmeet.subwindow.contract import Entries, Probes
from watersmeet.window.payload import Extent, extent_of
from watersmeet.window.plan import OTHER_SIDE, JoinPlan

__all__ = ["Arrival", "KeyedBatch", "SortedKeys"]

What = TypeVar("What")
Computed = TypeVar("Computed")

LOWEST = np.int64(-(2**63))
HIGHEST = np.int64(2**63 - 1)


class Arrival(NamedTuple):
    """For a count window: each row's number in its stream, and how many rows of the other stream came before it."""

    sequence: Int64s
    seen: Int64s


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """A batch's keys in one order; ``row`` is the number of each key's row in the batch."""

    row: Int32s
    key: Int64s
    equality: Int64s | None


@dataclass(slots=True)
class KeyedBatch:
    """Rows that take part in the join, with their keys."""

    plan: JoinPlan
    side: StreamName
    rows: pa.RecordBatch
    arrival: Arrival | None = None
    keys: dict[int, Int64s] = field(default_factory=dict)
    """The keys known so far, by axis, in the batch's order. Use :meth:`key`."""
    cut_from: tuple[KeyedBatch, int] | None = None
    """If it was cut from a batch: that batch, and the position in it where this one begins."""
    team: int = ALONE
    """Who sorts it, and lets it probe and stores it (:mod:`watersmeet.kernels.team`)."""
    extent: Extent | None = None
    """Where it lies in its own window, if that is known. Use :meth:`place`."""
    _cut_keys: dict[tuple[int, Borders], Int64s] = field(default_factory=dict)
    _sorted: dict[IndexOrder, SortedKeys] = field(default_factory=dict)
    _ranges: dict[tuple[int, Borders], list[KeyRange]] = field(default_factory=dict)
    _probes: dict[IndexOrder, list[Probes]] = field(default_factory=dict)
    _reach: tuple[Extent, Extent] | None = None
    _portion: tuple[int, int] = (0, 1)
    _computing: RLock = field(default_factory=RLock)

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    # --- cut and concatenate; known keys come along ------------------------------------------------------------------

    def take(self, numbers: npt.NDArray[np.integer[Any]]) -> KeyedBatch:
        """Return the rows with these numbers, in this order."""
        return self._with(self.rows.take(pa.array(numbers)), lambda column: column[numbers])

    def keep(self, mask: Bools | None) -> KeyedBatch:
        """Return the rows that ``mask`` keeps (None: all)."""
        return self if mask is None or mask.all() else self.take(np.flatnonzero(mask))

    def slice(self, begin: int, end: int) -> KeyedBatch:
        """Return the rows from one position to another, without a copy."""
        if end - begin == len(self):
            return self
        cut = self._with(self.rows.slice(begin, end - begin), lambda column: column[begin:end])
        whole, offset = self.cut_from or (self, 0)
        cut.cut_from = whole, offset + begin
        return cut

    def with_rows(self, rows: pa.RecordBatch) -> KeyedBatch:
        """Return the same rows with other columns; those that the join reads must be the same."""
        return self._with(rows, lambda column: column)

    def is_followed_by(self, other: KeyedBatch) -> bool:
        """Tell whether ``other`` was cut from the same batch and begins where this one ends."""
        if self.cut_from is None or other.cut_from is None:
            return False
        (whole, begin), (its_whole, its_begin) = self.cut_from, other.cut_from
        return whole is its_whole and its_begin == begin + len(self)

    @staticmethod
    def concat(batches: Sequence[KeyedBatch]) -> KeyedBatch:
        """Concatenate batches of one stream; without a copy if each follows the one before it in one batch."""
        first, last = batches[0], batches[-1]
        if len(batches) == 1:
            return first
        if all(map(KeyedBatch.is_followed_by, batches, batches[1:])):
            assert first.cut_from is not None, "a batch that is followed was cut"
            whole, begin = first.cut_from
            return whole.slice(begin, begin + sum(map(len, batches)))
        table = pa.Table.from_batches([batch.rows for batch in batches]).unify_dictionaries().combine_chunks()
        rows = table.to_batches()[0] if table.num_rows else last.rows
        arrivals = [batch.arrival for batch in batches if batch.arrival is not None]
        arrival = Arrival(*map(np.concatenate, zip(*arrivals, strict=True))) if arrivals else None
        known = set.intersection(*(set(batch.keys) for batch in batches))
        keys = {axis: np.concatenate([batch.keys[axis] for batch in batches]) for axis in known}
        return KeyedBatch(first.plan, first.side, rows, arrival, keys)

    def _with(self, rows: pa.RecordBatch, cut: Callable[[Int64s], Int64s]) -> KeyedBatch:
        some = None if self.arrival is None else Arrival(*map(cut, self.arrival))
        known = list(self.keys.items())  # another thread may add to them
        return KeyedBatch(self.plan, self.side, rows, some, {axis: cut(key) for axis, key in known})

    # --- keys, ranges, probes ----------------------------------------------------------------------------------------

    def key(self, axis: int, borders: Borders = ()) -> Int64s:
        """Return the batch's keys on an axis, in the batch's order; ``borders`` cut those of texts."""
        own, plan = self.plan.every_axis[axis], self.plan
        if borders and own.domain.kind == "text":
            return self._once(
                self._cut_keys,
                (axis, borders),
                lambda: axis_keys(own, self.side, self.rows, plan.schemas, borders),
            )
        return self._once(self.keys, axis, lambda: axis_keys(own, self.side, self.rows, plan.schemas))

    def ranges(self, axis: int, borders: Borders = ()) -> list[KeyRange]:
        """Return the ranges of keys that the rows look for on an axis, in the batch's order."""
        return self._once(self._ranges, (axis, borders), lambda: self._find_ranges(axis, borders))

    def sorted(self, order: IndexOrder) -> SortedKeys:
        """Return the batch's keys in an order."""
        return self._once(self._sorted, order, lambda: self._sort(order))

    def entries(self, order: IndexOrder, first_row: int) -> Entries:
        """Return the batch as entries of a subwindow; its first row gets the number ``first_row``."""
        keys = self.sorted(order)
        row = keys.row + np.int32(first_row) if first_row else keys.row
        return Entries(keys.key, row, keys.equality, self.team)

    def probes(self, order: IndexOrder) -> list[Probes]:
        """Return the batch's probes for a subwindow of the other stream, one set for each interval."""
        probes = self._once(self._probes, order, lambda: self._look_for(order))
        number, of = self._portion
        if of == 1:
            return probes
        shares = [some.share(number, of) for some in probes]
        return [share for share in shares if len(share)]

    def portion(self, number: int, of: int) -> KeyedBatch:
        """Return this batch with only its ``number``-th share of the probes, for threads that probe at the same time.

        A share is a stretch of the sorted order, so each thread walks through its own part of an index.
        """
        if of == 1:
            return self
        if len(self):
            self.reach()  # once, and not by every thread
        return replace(self, _portion=(number, of))

    def place(self) -> Extent:
        """Return where the batch (not empty) lies in its own window: from which timestamp or number to which."""
        if self.extent is None:
            self.extent = extent_of(self.places())
        return self.extent

    def places(self) -> Int64s:
        """Return where each row lies in its own window: its timestamp, or its arrival number."""
        if self.arrival is not None:
            return self.arrival.sequence
        assert self.plan.time is not None
        return self.key(self.plan.time)

    def reach(self) -> tuple[Extent, Extent]:
        """Return the extent of the earliest places, and that of the latest places, that the rows can meet.

        Places are those of the other window: timestamps, or arrival numbers of rows that came before this batch.
        """
        if self._reach is None:
            if self.arrival is not None:
                seen = extent_of(self.arrival.seen)
                length = self.plan.length(OTHER_SIDE[self.side])
                self._reach = Extent(seen.low - length, seen.high - length), Extent(seen.low - 1, seen.high - 1)
            else:
                assert self.plan.time is not None
                ends = self.place()  # of all rows the first reaches back furthest, and the last ahead
                moves = self.plan.shifts[self.plan.time, self.side]
                assert moves is not None, "timestamps are integers"
                (first_low, first_high), (last_low, last_high) = (
                    reach_of(end, moves[0]) for end in (ends.low, ends.high)
                )
                self._reach = Extent(first_low, last_low), Extent(first_high, last_high)
        return self._reach

    def earliest(self) -> Int64s:
        """Return the earliest place that each row can meet in the other stream's window."""
        if self.arrival is not None:
            return self.arrival.seen - self.plan.length(OTHER_SIDE[self.side])
        assert self.plan.time is not None
        (wanted,) = self.ranges(self.plan.time)
        return wanted.lo

    def _once(self, kept: dict[What, Computed], what: What, compute: Callable[[], Computed]) -> Computed:
        """Return what is kept, or compute it and keep it."""
        known = kept.get(what)
        if known is not None:
            return known
        with self._computing:
            if what not in kept:
                kept[what] = compute()
            return kept[what]

    def _find_ranges(self, axis: int, borders: Borders) -> list[KeyRange]:
        return row_ranges(self.plan.every_axis[axis], self.side, self.key(axis, borders))

    def _look_for(self, order: IndexOrder) -> list[Probes]:
        keys = self.sorted(order)
        if order.key is None:
            if not order.equalities:
                return [Probes(np.full(len(self), LOWEST), np.full(len(self), HIGHEST), keys.row)]
            return [Probes(keys.key, keys.key, keys.row)]
        found = []
        for wanted in key_ranges(self.plan.every_axis[order.key], self.side, keys.key, keys.equality, self.team):
            if wanted.empty == 0:
                found.append(Probes(wanted.lo, wanted.hi, keys.row, keys.equality))
            elif wanted.empty < len(self):
                some = wanted.lo <= wanted.hi
                equality = None if keys.equality is None else keys.equality[some]
                found.append(Probes(wanted.lo[some], wanted.hi[some], keys.row[some], equality))
        return found

    def _sort(self, order: IndexOrder) -> SortedKeys:
        if order.key is None and not order.equalities:
            return SortedKeys(np.arange(len(self), dtype=np.int32), np.zeros(len(self), np.int64), None)
        equality = (
            combine_keys([self.key(axis, order.borders) for axis in order.equalities]) if order.equalities else None
        )
        if order.key is None:
            assert equality is not None
            return SortedKeys(*self._in_order(equality), None)
        key = self.key(order.key, order.borders)
        row, in_order = self._in_order(key)
        if equality is None:
            return SortedKeys(row, in_order, None)
        row, equality = self._in_order(equality, row)
        return SortedKeys(row, key[row], equality)

    def _in_order(self, key: Int64s, row: Int32s | None = None) -> tuple[Int32s, Int64s]:
        """Return rows, all of them if none are given, permuted so that their keys are sorted, and these keys."""
        return sort_together(self.team, (look_at_stretch(), deal_stretch(), sort_bucket()), key, row)
