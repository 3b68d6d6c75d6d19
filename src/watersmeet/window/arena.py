"""A growing array whose beginning can be freed: rows are added at the end and expire at the beginning.

Design. An arena is private memory of the operating system, reserved as a whole. A page costs nothing before it is
written, and nothing after it was freed. So values are written once and never move, and their positions are as stable as
row numbers. Large arenas use large pages: values are gathered from all over them, and small pages would add misses of
the page table to those of the cache.

Invariant: values keep their positions; those before the last ``free_before`` must not be read. Cost: a value is copied
once. If an arena becomes too small, its values move to one of twice the size: on average that is at most one more copy.
"""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress
from typing import Any, Final

import numpy as np

from watersmeet.columns.plain import Words

__all__ = ["CAN_FREE", "Arena"]

CAN_FREE: Final = sys.platform == "linux"
"""Whether the system can free single pages; otherwise an arena would keep its memory to the end."""
LARGE_PAGE: Final = 1 << 21
LARGE_ARENA: Final = 2 * LARGE_PAGE


class Arena:
    """Values of one type, numbered from 0 in the order in which they were added."""

    def __init__(self, kind: np.dtype[Any], capacity: int) -> None:
        self.size = 0
        self._freed = 0
        self._reserve(kind, max(1, capacity))

    def append(self, values: Words) -> None:
        """Add values behind the last one."""
        self.extend(len(values))[:] = values

    def extend(self, count: int) -> Words:
        """Return room for values behind the last one, which the caller writes at once."""
        end = self.size + count
        if end > len(self._room):
            self._move(max(end, 2 * len(self._room)))
        room = self._room[self.size : end]
        self.size = end
        return room

    def pop(self) -> Words:
        """Remove the last value and return it."""
        self.size -= 1
        return self._room[self.size : self.size + 1].copy()

    def free_before(self, place: int) -> None:
        """Free the memory of the values before ``place``, in whole pages."""
        end = place * self._room.itemsize // self._page * self._page
        if end > self._freed:
            self._memory.madvise(mmap.MADV_DONTNEED, self._freed, end - self._freed)
            self._freed = end

    @property
    def values(self) -> Words:
        """A view of all values, which ``append`` does not change. Freed values must not be read."""
        return self._room[: self.size]

    @property
    def nbytes(self) -> int:
        """Bytes of memory used, in whole pages."""
        return _rounded_up(self.size * self._room.itemsize, self._page) - self._freed

    def _reserve(self, kind: np.dtype[Any], capacity: int) -> None:
        self._page = LARGE_PAGE if capacity * kind.itemsize >= LARGE_ARENA else mmap.PAGESIZE
        # In whole pages: then the system begins a large page where the arena begins.
        reserved = _rounded_up(capacity * kind.itemsize, self._page)
        self._memory = mmap.mmap(-1, reserved, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if self._page == LARGE_PAGE:
            with suppress(OSError):  # the kernel was built without large pages
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        self._room: Words = np.frombuffer(self._memory, kind, reserved // kind.itemsize)

    def _move(self, capacity: int) -> None:
        first = self._freed // self._room.itemsize
        kept = self._room[first : self.size]
        self._reserve(kept.dtype, capacity)
        self._room[first : self.size] = kept
        self._freed = first * kept.itemsize // self._page * self._page


def _rounded_up(number: int, step: int) -> int:
    return -(-number // step) * step
