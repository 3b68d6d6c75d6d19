"""The most memory that whatever this process has started held at one time."""

from __future__ import annotations

import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import psutil

__all__ = ["MemoryWatch"]

SECONDS_BETWEEN_LOOKS: Final = 0.25


class MemoryWatch:
    """Looks at all processes below this one, four times a second; what several share counts once."""

    def __init__(self) -> None:
        self.most_bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        own = psutil.Process()
        while not self._ended.wait(SECONDS_BETWEEN_LOOKS):
            self.most_bytes = max(self.most_bytes, sum(map(_share, own.children(recursive=True))))


def _share(process: psutil.Process) -> int:
    """Return the bytes a process holds, of shared ones its share; where a system does not tell that, all."""
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        memory = process.memory_full_info()
        return int(getattr(memory, "pss", memory.rss))
    return 0
