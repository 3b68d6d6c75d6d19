"""What a Python worker remembers from one micro-batch to the next: values by key, those used last, within a limit.

Nothing may depend on it: a worker is not bound to a core of the join, and may be a new one. A key stands for the
content of its value, so nothing remembered is ever stale.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

__all__ = ["Remembered"]

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

REMEMBERED_BYTES: Final = 2 << 30


class Remembered(Generic[Key, Value]):
    """Values that together take at most ``REMEMBERED_BYTES``; the last one is kept whatever it takes."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        """The last used at the end."""
        self._nbytes = 0

    def put(self, key: Key, value: Value, nbytes: int) -> None:
        """Remember a value that takes ``nbytes``; forget those not used for longest where it is too much."""
        self.pop(key)
        self._kept[key] = value, nbytes
        self._nbytes += nbytes
        while len(self._kept) > 1 and self._nbytes > REMEMBERED_BYTES:
            self.pop(next(iter(self._kept)))

    def get(self, key: Key) -> Value | None:
        """Return a value, which is used now; None: it is not remembered."""
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key][0]

    def pop(self, key: Key) -> Value | None:
        """Return a value and forget it; None: it is not remembered."""
        value, nbytes = self._kept.pop(key, (None, 0))
        self._nbytes -= nbytes
        return value

    def forget(self, is_gone: Callable[[Key], bool]) -> None:
        """Forget the values of keys that are gone."""
        for key in list(filter(is_gone, self._kept)):
            self.pop(key)

    def clear(self) -> None:
        """Forget everything."""
        self.forget(lambda _: True)
