"""Room for a growing array whose front can be given back: rows are added at the end and expire at the beginning.

Design. An arena is private memory of the operating system, reserved as a whole. A page costs nothing before something
is written to it, and nothing again after it was given back. So values are written once and never move, and their
places are as stable as row numbers. Large arenas ask for large pages: values are gathered from all over them, and small
pages would add misses of the page table to those of the cache.

Invariant: values keep their places; those before the last ``free_before`` must not be read.
Cost: a value is copied once. An arena that was reserved too small moves to one of twice the size, so once more at most
on average.
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
"""Whether the system takes single pages back at once; else an arena would keep its memory to the end."""
LARGE_PAGE: Final = 1 << 21
LARGE_ARENA: Final = 2 * LARGE_PAGE


class Arena:
    """Values of one type, numbered from 0 in the order they came."""

    def __init__(self, kind: np.dtype[Any], capacity: int) -> None:
        self.size = 0
        self._freed = 0
        self._reserve(kind, max(1, capacity))

    def append(self, values: Words) -> None:
        """Add values behind the last one."""
        end = self.size + len(values)
        if end > len(self._room):
            self._move(max(end, 2 * len(self._room)))
        self._room[self.size : end] = values
        self.size = end

    def pop(self) -> Words:
        """Take the last value back."""
        self.size -= 1
        return self._room[self.size : self.size + 1].copy()

    def free_before(self, place: int) -> None:
        """Give back the memory of the values before ``place``, in whole pages."""
        end = place * self._room.itemsize // self._page * self._page
        if end > self._freed:
            self._memory.madvise(mmap.MADV_DONTNEED, self._freed, end - self._freed)
            self._freed = end

    @property
    def values(self) -> Words:
        """A view of all values; those given back are not to be read. ``append`` leaves it as it is."""
        return self._room[: self.size]

    @property
    def nbytes(self) -> int:
        """Bytes of memory held: whole pages."""
        return _rounded_up(self.size * self._room.itemsize, self._page) - self._freed

    def _reserve(self, kind: np.dtype[Any], capacity: int) -> None:
        self._page = LARGE_PAGE if capacity * kind.itemsize >= LARGE_ARENA else mmap.PAGESIZE
        # In whole pages: the system then lets large ones begin where the arena does.
        reserved = _rounded_up(capacity * kind.itemsize, self._page)
        self._memory = mmap.mmap(-1, reserved, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if self._page == LARGE_PAGE:
            with suppress(OSError):  # a kernel built without them: small ones do as well, if slower
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
