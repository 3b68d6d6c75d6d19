"""What a Python worker remembers from one micro-batch to the next: values by key, those used last, within a limit.

Nothing may depend on it: a worker is not bound to a core of the join, and may be a new one. A key stands for the
content of its value, so nothing remembered is ever stale.

Values that nobody will ask for again only take memory. What others have removed is known by their files; of a value
without a file a worker can tell only whether it still serves the core that made it (see :class:`Turns`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, NamedTuple, TypeVar

__all__ = ["Owner", "Remembered", "Turns"]

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

REMEMBERED_BYTES: Final = 2 << 30


class Remembered(Generic[Key, Value]):
    """Values that together take at most ``REMEMBERED_BYTES``; the last one is always kept."""

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

    def forget(self, is_gone: Callable[[Key, Value], bool]) -> None:
        """Forget the values that are gone."""
        for key in [key for key, (value, _) in self._kept.items() if is_gone(key, value)]:
            self.pop(key)

    def clear(self) -> None:
        """Forget everything."""
        self.forget(lambda _, __: True)


class Owner(NamedTuple):
    """A core of a join, which is named by the digest of its identity."""

    join: str
    core: int

    def __str__(self) -> str:
        return f"{self.join} {self.core}"


class Turns:
    """The cores that this worker serves.

    All cores of a join have one turn a micro-batch, in any order. So one that had none since the last but one turn of
    another has missed a micro-batch here, and is with another worker. The turns of several joins say nothing of each
    other.
    """

    def __init__(self) -> None:
        self._of: dict[str, dict[int, tuple[int, int]]] = {}
        """The numbers of each core's last two turns, by join."""
        self._next = 1

    def begin(self, owner: Owner) -> None:
        """Note that a core has its turn."""
        turns = self._of.setdefault(owner.join, {})
        earliest, last = turns.get(owner.core, (0, 0))
        for core in [core for core, (_, other) in turns.items() if other < earliest]:
            del turns[core]
        turns[owner.core] = last, self._next
        self._next += 1

    def serves(self, owner: Owner) -> bool:
        """Tell whether a core has its turns here, as far as is known."""
        return owner.core in self._of.get(owner.join, {})
