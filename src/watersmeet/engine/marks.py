"""Marks: which rows of one side have met another, by their numbers.

Design. A byte for each number, in one array that begins at some number and grows at its end. Rows that are *watched*
have no mark and may still be asked for; all others may be forgotten, and count as marked. When the array is full it is
made anew, and begins later: where few rows are watched it does not reach back to the oldest of them, whose marks are
kept one by one. So one row that stays for ever, as a wrong clock may bring it, does not keep all marks after it.

Cost: a byte per number, of at most ``SPARSE`` times as many numbers as rows are watched, and a look at it per pair.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from watersmeet.arrays import Bools, Int64s
from watersmeet.kernels.marks import mark_all, mark_rows, unmarked_rows

__all__ = ["Marks"]

SPARSE: Final = 8
LEAST_NUMBERS: Final = 1 << 16


class Marks:
    """The marks of one side."""

    def __init__(self) -> None:
        self._first = 0
        self._marks = np.zeros(0, np.bool_)
        self._old = np.empty(0, np.int64)  # numbers before the first one that are watched, in order
        self._old_marks = np.zeros(0, np.bool_)

    def has_room(self, end: int) -> bool:
        """Tell whether all numbers before ``end`` have a mark, or are forgotten."""
        return end <= self._first + len(self._marks)

    def make_room(self, end: int, watched: Int64s) -> None:
        """Make marks for all numbers before ``end``; of old ones forget all but those watched, which are unmarked."""
        oldest = int(watched.min()) if len(watched) else end
        first = max(self._first, oldest, end - SPARSE * len(watched) - LEAST_NUMBERS)
        old = np.sort(watched[watched < first])
        marks = np.zeros(2 * (end - first) + LEAST_NUMBERS, np.bool_)
        kept = self._marks[first - self._first :]
        marks[: len(kept)] = kept
        self._first, self._marks, self._old, self._old_marks = first, marks, old, np.zeros(len(old), np.bool_)

    def watch(self, numbers: Int64s) -> None:
        """Watch rows that have no mark yet, also those whose numbers lie before some that were forgotten.

        Cores' saved rows, and a push's slices of time, have their numbers in any order.
        """
        if len(numbers) and int(numbers.min()) < self._first:
            old = np.sort(numbers[numbers < self._first])
            place = np.searchsorted(self._old, old)
            self._old, self._old_marks = (
                np.insert(self._old, place, old),
                np.insert(self._old_marks, place, values=False),
            )

    def mark(self, numbers: Int64s) -> None:
        """Mark rows."""
        if mark_all(numbers, self._first, self._marks):
            old = numbers[numbers < self._first]
            place = np.searchsorted(self._old, old)
            self._old_marks[place[self._are_old(old, place)]] = True

    def mark_new(self, numbers: Int64s) -> Int64s:
        """Mark rows; return which of them, each where it stands first, were not marked before."""
        new, are_older = mark_rows(numbers, self._first, self._marks)
        if not are_older:
            return new
        old = np.flatnonzero(numbers < self._first)
        place = np.searchsorted(self._old, numbers[old])
        known = self._are_old(numbers[old], place)
        new_old, _ = mark_rows(place[known], 0, self._old_marks)
        return np.sort(np.concatenate([new, old[known][new_old]]))

    def unmarked(self, numbers: Int64s, begin: int, end: int) -> Int64s:
        """Return which rows from ``begin`` to ``end`` are watched and not marked."""
        rows, are_older = unmarked_rows(numbers, begin, end, self._first, self._marks)
        if not are_older:
            return rows
        old = begin + np.flatnonzero(numbers[begin:end] < self._first)
        place = np.searchsorted(self._old, numbers[old])
        known = self._are_old(numbers[old], place)
        return np.sort(np.concatenate([rows, old[known][~self._old_marks[place[known]]]]))

    def _are_old(self, numbers: Int64s, place: Int64s) -> Bools:
        known = place < len(self._old)
        known[known] = self._old[place[known]] == numbers[known]
        return known

    def copy(self) -> Marks:
        """Return marks of their own that begin as these are."""
        copied = Marks()
        copied._first = self._first
        copied._marks, copied._old_marks = self._marks.copy(), self._old_marks.copy()
        copied._old = self._old
        return copied

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self._marks.nbytes + self._old.nbytes + self._old_marks.nbytes)
