"""A batch of one stream's rows with its keys: computed when first asked for, sorted once per order, then kept.

It knows how to be cut and put together; whoever needs some of its rows asks it.

Threads that probe side by side share a batch: the first that asks computes, the others wait for it.
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
from watersmeet.columns.keys import Borders, KeyRange, axis_keys, group_keys, key_ranges, row_ranges
from watersmeet.kernels.sorted_keys import sort_keys
from watersmeet.spec.expression import Side
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
    """Count windows: each row's number in its own stream, and how many rows of the other stream came before it."""

    sequence: Int64s
    seen: Int64s


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """A batch's keys in one order; ``row`` is where each stands in the batch."""

    row: Int32s
    key: Int64s
    group: Int64s | None


@dataclass(slots=True)
class KeyedBatch:
    """Rows that can match (no null on any axis, not late, passing their side's filter) and their keys."""

    plan: JoinPlan
    side: Side
    rows: pa.RecordBatch
    arrival: Arrival | None = None
    keys: dict[int, Int64s] = field(default_factory=dict)
    """By axis, in the batch's order: those known so far. Ask :meth:`key`."""
    cut_from: tuple[KeyedBatch, int] | None = None
    """Of a slice: the whole batch, and where in it the slice begins."""
    _cut_keys: dict[tuple[int, Borders], Int64s] = field(default_factory=dict)
    _sorted: dict[IndexOrder, SortedKeys] = field(default_factory=dict)
    _ranges: dict[tuple[int, Borders], list[KeyRange]] = field(default_factory=dict)
    _probes: dict[IndexOrder, list[Probes]] = field(default_factory=dict)
    _place: Extent | None = None
    _reach: tuple[Extent, Extent] | None = None
    _portion: tuple[int, int] = (0, 1)
    _computing: RLock = field(default_factory=RLock)

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    # --- cut and put together; keys that are known come along --------------------------------------------------------

    def take(self, numbers: npt.NDArray[np.integer[Any]]) -> KeyedBatch:
        """Return the rows with these numbers, in this order."""
        return self._with(self.rows.take(pa.array(numbers)), lambda column: column[numbers])

    def keep(self, mask: Bools | None) -> KeyedBatch:
        """Return the rows that ``mask`` keeps (None: all)."""
        return self if mask is None or mask.all() else self.take(np.flatnonzero(mask))

    def slice(self, begin: int, end: int) -> KeyedBatch:
        """Return the rows from one place to another, without a copy; it knows where it was cut from."""
        if end - begin == len(self):
            return self
        cut = self._with(self.rows.slice(begin, end - begin), lambda column: column[begin:end])
        whole, offset = self.cut_from or (self, 0)
        cut.cut_from = whole, offset + begin
        return cut

    def with_rows(self, rows: pa.RecordBatch) -> KeyedBatch:
        """Return the same rows with other columns beside those that the join reads."""
        return self._with(rows, lambda column: column)

    def is_followed_by(self, other: KeyedBatch) -> bool:
        """Tell whether ``other`` is the slice of the same batch that begins where this one ends."""
        if self.cut_from is None or other.cut_from is None:
            return False
        (whole, begin), (its_whole, its_begin) = self.cut_from, other.cut_from
        return whole is its_whole and its_begin == begin + len(self)

    @staticmethod
    def concat(batches: Sequence[KeyedBatch]) -> KeyedBatch:
        """Put batches of one stream together: without a copy where they are slices that follow each other."""
        first, last = batches[0], batches[-1]
        if len(batches) == 1:
            return first
        if all(map(KeyedBatch.is_followed_by, batches, batches[1:])):
            assert first.cut_from is not None, "what is followed is a slice"
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
        """Return what the rows look for on an axis, in the batch's order."""
        return self._once(self._ranges, (axis, borders), lambda: self._find_ranges(axis, borders))

    def sorted(self, order: IndexOrder) -> SortedKeys:
        """Return the batch in an order: by group, then key."""
        return self._once(self._sorted, order, lambda: self._sort(order))

    def entries(self, order: IndexOrder, first_row: int) -> Entries:
        """Return the batch as rows to store; its first row gets the number ``first_row``."""
        keys = self.sorted(order)
        return Entries(keys.key, keys.row + np.int32(first_row) if first_row else keys.row, keys.group)

    def probes(self, order: IndexOrder) -> list[Probes]:
        """Return what the batch looks for in a subwindow of the other stream, one set of probes per interval."""
        probes = self._once(self._probes, order, lambda: self._look_for(order))
        number, of = self._portion
        if of == 1:
            return probes
        shares = [_share(some, number, of) for some in probes]
        return [share for share in shares if len(share)]

    def portion(self, number: int, of: int) -> KeyedBatch:
        """Return this batch with its ``number``-th share of the probes alone, for threads that probe side by side.

        Shares are stretches of the sorted order, so each thread walks through its own part of an index.
        """
        if of == 1:
            return self
        if len(self):
            self.reach()  # once, and not by every thread
        return replace(self, _portion=(number, of))

    def place(self) -> Extent:
        """Return where the batch (not empty) lies in its own window: from which timestamp or number to which."""
        if self._place is None:
            if self.arrival is not None:
                places = self.arrival.sequence
            else:
                assert self.plan.time is not None
                places = self.key(self.plan.time)
            self._place = extent_of(places)
        return self._place

    def reach(self) -> tuple[Extent, Extent]:
        """Return the extents of the earliest and of the latest place in the other window that each row meets.

        Places are timestamps, or in a count window arrival numbers of rows that came before this batch.
        """
        if self._reach is None:
            if self.arrival is not None:
                seen = extent_of(self.arrival.seen)
                length = self.plan.length(OTHER_SIDE[self.side])
                self._reach = Extent(seen.low - length, seen.high - length), Extent(seen.low - 1, seen.high - 1)
            else:
                assert self.plan.time is not None
                ends = self.place()  # of all rows the first reaches back furthest, and the last ahead
                time = self.plan.axes[self.plan.time]
                (wanted,) = row_ranges(time, self.side, np.array([ends.low, ends.high]))
                self._reach = extent_of(wanted.lo), extent_of(wanted.hi)
        return self._reach

    def _once(self, kept: dict[What, Computed], what: What, compute: Callable[[], Computed]) -> Computed:
        """Return what was kept, or compute and keep it."""
        if what not in kept:
            with self._computing:
                if what not in kept:
                    kept[what] = compute()
        return kept[what]

    def _find_ranges(self, axis: int, borders: Borders) -> list[KeyRange]:
        return row_ranges(self.plan.every_axis[axis], self.side, self.key(axis, borders))

    def _look_for(self, order: IndexOrder) -> list[Probes]:
        keys = self.sorted(order)
        if order.key is None:
            if not order.group:
                return [Probes(np.full(len(self), LOWEST), np.full(len(self), HIGHEST), keys.row)]
            return [Probes(keys.key, keys.key, keys.row)]
        found = []
        for wanted in key_ranges(self.plan.every_axis[order.key], self.side, keys.key, keys.group):
            if wanted.empty == 0:
                found.append(Probes(wanted.lo, wanted.hi, keys.row, keys.group))
            elif wanted.empty < len(self):
                some = wanted.lo <= wanted.hi
                group = None if keys.group is None else keys.group[some]
                found.append(Probes(wanted.lo[some], wanted.hi[some], keys.row[some], group))
        return found

    def _sort(self, order: IndexOrder) -> SortedKeys:
        row = np.arange(len(self), dtype=np.int32)
        if order.key is None and not order.group:
            return SortedKeys(row, np.zeros(len(self), np.int64), None)
        group = group_keys([self.key(axis, order.borders) for axis in order.group]) if order.group else None
        if order.key is None:
            assert group is not None
            row = sort_keys(group, row)
            return SortedKeys(row, group[row], None)
        key = self.key(order.key, order.borders)
        row = sort_keys(key, row)
        if group is not None:
            row = sort_keys(group, row)
            group = group[row]
        return SortedKeys(row, key[row], group)


def _share(probes: Probes, number: int, of: int) -> Probes:
    part = slice(len(probes) * number // of, len(probes) * (number + 1) // of)
    group = None if probes.group is None else probes.group[part]
    return Probes(probes.lo[part], probes.hi[part], probes.who[part], group)
