"""The rows of one segment whose columns are all plain: one array per column, to which values are appended.

Design. Every column lies in an :class:`~watersmeet.window.arena.Arena`, and so do the arrival numbers of a count window
and keys that are not a column themselves. All rows are one Arrow record batch, a view, so the pairs found in a segment
are gathered with one call. Rows expire at the beginning in *steps* of at least ``step`` rows: a step is dropped when
all its rows have expired, and the next expiry frees its memory.

Invariant: row *i* is value *i* of every arena. Dropped rows keep their numbers, and ``split`` gives no pair with them.
Cost: a row is copied once. Besides its rows a segment holds at most two steps of expired ones, and a page per column.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Final
from weakref import WeakSet

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.columns.plain import Words, from_words, is_plain, word_type, words_of
from watersmeet.kernels.gather import copy_stretch, copy_values
from watersmeet.kernels.pairs import compress_pairs
from watersmeet.kernels.team import ALONE, address_of, stretches
from watersmeet.window.arena import CAN_FREE, Arena
from watersmeet.window.expiry import Departed
from watersmeet.window.payload import Extent, Held, KeysOf, Numbers, Stored

__all__ = ["PlainRows", "can_be_plain"]


BYTE: Final = np.dtype(np.uint8)
WORD: Final = np.dtype(np.int64)
INT64: Final = pa.int64()


def can_be_plain(schema: pa.Schema) -> bool:
    """Tell whether rows of this schema can be held as :class:`PlainRows`."""
    return CAN_FREE and all(is_plain(column.type) for column in schema)


@dataclass(slots=True)
class _Step:
    """Rows that expire together: their number, and their places."""

    rows: int
    place: Extent


class _Column:
    """A plain column: its words and, after the first null, a bit for each row that is set if it has a value."""

    def __init__(self, kind: pa.DataType, reserve: int) -> None:
        self._kind = kind
        self._reserve = reserve
        self.words = Arena(word_type(kind), reserve)
        self._valid: Arena | None = None

    def extend(self, values: pa.Array) -> tuple[Words, Words]:
        """Make room for values; return their words, and where they belong."""
        if values.null_count or self._valid is not None:
            self._append_valid(np.asarray(values.is_valid()))
        return words_of(values), self.words.extend(len(values))

    @property
    def are_keys(self) -> bool:
        """Whether the words are keys wherever they have been: they are integers, and none is null."""
        return self._valid is None and (self._kind == INT64 or pa.types.is_timestamp(self._kind))

    def view(self) -> pa.Array:
        return from_words(self._kind, self.words.values, None if self._valid is None else self._valid.values)

    def free_before(self, row: int) -> None:
        self.words.free_before(row)
        if self._valid is not None:
            self._valid.free_before(row // 8)

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + (0 if self._valid is None else self._valid.nbytes)

    def _append_valid(self, valid: Bools) -> None:
        if self._valid is None:
            self._valid = Arena(BYTE, self._reserve // 8 + 1)
            self._valid.append(np.packbits(np.ones(self.words.size, bool), bitorder="little"))
        begun = self.words.size % 8
        if begun:  # these rows' bits fill a part of the last byte
            bits = np.unpackbits(self._valid.pop(), count=begun, bitorder="little")
            valid = np.concatenate([bits.view(bool), valid])
        self._valid.append(np.packbits(valid, bitorder="little"))


class _Keys:
    """The first rows' keys on one axis: a column's own words as long as they are the keys, otherwise computed ones."""

    def __init__(self) -> None:
        self.rows = 0
        self.column: Arena | None = None
        self.computed: Arena | None = None

    def add(self, keys: Int64s, columns: list[_Column], reserve: int) -> None:
        """Add the next rows' keys."""
        home = next((column.words for column in columns if _is_view(keys, column.words)), None)
        if self.computed is None and home is not None:
            self.column = home
        else:
            if self.computed is None:
                self.computed = Arena(WORD, reserve)
                if self.column is not None:
                    self.computed.append(self.column.values[: self.rows])
            self.computed.append(keys)
        self.rows += len(keys)

    def follow(self, columns: list[_Column], rows: int) -> bool:
        """Take the first rows' keys to be a column's words if they have been so far; tell whether that is certain."""
        home = next((column for column in columns if column.words is self.column), None)
        if self.computed is not None or home is None or not home.are_keys:
            return False
        self.rows = rows
        return True

    @property
    def values(self) -> Int64s:
        """The keys."""
        arena = self.column if self.computed is None else self.computed
        assert arena is not None, "keys are read after some were added"
        return arena.values


def _address(words: Words) -> int:
    return address_of(words.view(BYTE))


def _is_view(keys: Int64s, words: Arena) -> bool:
    return words.values.dtype == keys.dtype and np.may_share_memory(keys, words.values)


class PlainRows:
    """Rows with plain columns alone; see the module's header. All rows are one chunk: this object itself."""

    def __init__(self, schema: pa.Schema, step: int, reserve: int) -> None:
        self._schema = schema
        self._step = step
        self._reserve = reserve
        self._columns = [_Column(column.type, reserve) for column in schema]
        self._numbers: list[Arena] = []
        self._keys: dict[int, _Keys] = {}
        self._adding = Lock()
        self._steps: deque[_Step] = deque()
        self._view: pa.RecordBatch | None = None
        self._holders: WeakSet[Held] = WeakSet()
        self.dropped = self._freed = 0
        self.appended = 0

    # --- as the rows of a segment -----------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """Rows still held."""
        return self.appended - self.dropped

    @property
    def place(self) -> Extent:
        """Where the rows still held lie in the window."""
        whole = Extent()
        for step in self._steps:
            whole.include(step.place)
        return whole

    @property
    def newest(self) -> pa.RecordBatch:
        """All rows held."""
        return self.rows.slice(self.dropped)

    def append(self, rows: pa.RecordBatch, numbers: Numbers | None, place: Extent, team: int = ALONE) -> None:
        """Add rows behind the last one."""
        copies = [column.extend(values) for column, values in zip(self._columns, rows.columns, strict=True)]
        if numbers is not None:
            if not self._numbers:
                self._numbers = [Arena(WORD, self._reserve) for _ in numbers]
            copies += [(own, arena.extend(len(own))) for arena, own in zip(self._numbers, numbers, strict=True)]
        if stretches(team, rows.num_rows) > 1:
            words = [(_address(source), _address(target), target.itemsize) for source, target in copies]
            copy_values(team, copy_stretch(), np.array(words, np.int64), rows.num_rows)
        else:
            for source, target in copies:
                target[:] = source
        self.appended += rows.num_rows
        if not self._steps or self._steps[-1].rows >= self._step:
            self._steps.append(_Step(0, Extent()))
        self._steps[-1].rows += rows.num_rows
        self._steps[-1].place.include(place)
        self._view = None

    def seal(self) -> None:
        """Do nothing: all rows are in one chunk already."""

    def expire(self, before: int) -> list[Departed]:
        """Drop the first steps whose rows all lie before ``before``; return these rows.

        The next expiry frees their memory; until then the rows can be read.
        """
        self._free()
        first = self.dropped
        while self._steps and self._steps[0].place.high < before:
            self.dropped += self._steps.popleft().rows
        if self.dropped == first:
            return []
        rows, numbers = self.rows.slice(first, self.dropped - first), self.numbers
        return [Departed(rows, None if numbers is None else numbers[0][first : self.dropped])]

    def _free(self) -> None:
        """Free the memory of rows that were dropped, unless somebody still holds them."""
        if self._freed == self.dropped or len(self._holders):
            return
        for held in self._held():
            held.free_before(self.dropped)
        self._freed = self.dropped

    def split(self, who: Int32s, row: Int32s) -> Iterator[tuple[Stored, Int32s, Int32s]]:
        """Yield the pairs whose row was not dropped."""
        if self.dropped:
            keep = row >= self.dropped
            kept = int(np.count_nonzero(keep))
            if kept == 0:
                return
            if kept < len(row):
                who, row = compress_pairs(who, row, keep, kept)
        yield self, who, row

    def stored(self) -> Iterable[tuple[int, Stored]]:
        """Return the one chunk."""
        return [(0, self)]

    def hold(self) -> Held:
        """Return all rows: a view, whose memory is not freed as long as it is held."""
        held = Held(((0, self.rows),))
        self._holders.add(held)
        return held

    def save(self) -> list[tuple[pa.RecordBatch, Numbers | None]]:
        """Return all rows held, as one batch: a view, valid until some of them expire."""
        numbers = None if self.numbers is None else tuple(own[self.dropped :] for own in self.numbers)
        return [(self.rows.slice(self.dropped), numbers)]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(held.nbytes for held in self._held())

    # --- as one chunk -----------------------------------------------------------------------------------------------

    @property
    def rows(self) -> pa.RecordBatch:
        """All rows, including those that were dropped, whose values must not be read."""
        if self._view is None:
            self._view = pa.RecordBatch.from_arrays([column.view() for column in self._columns], schema=self._schema)
        return self._view

    @property
    def numbers(self) -> Numbers | None:
        """Arrival numbers, in a count window."""
        return tuple(own.values for own in self._numbers) or None

    def keys(self, axis: int, keys_of: KeysOf) -> Int64s:
        """Return the rows' keys on an axis: a view of the column that has them, or computed once for every row."""
        with self._adding:  # threads that probe at the same time ask for the same keys
            known = self._keys.setdefault(axis, _Keys())
            if known.rows < self.appended and not known.follow(self._columns, self.appended):
                known.add(keys_of(self.rows.slice(known.rows)), self._columns, self._reserve)
            return known.values

    def _held(self) -> Iterator[_Column | Arena]:
        """Yield all that holds rows, and keys that are not a column's own words."""
        yield from self._columns
        yield from self._numbers
        yield from (known.computed for known in self._keys.values() if known.computed is not None)
