"""A polite end: SIGTERM and Ctrl-C ask a job to end after its micro-batch; a second one ends it at once.

Spark's JVM must go on meanwhile. Who ends a service often sends SIGTERM to all of its processes, so the JVM is started
with SIGTERM ignored, as PySpark starts it with Ctrl-C ignored. It ends when this process does, whose pipe it reads.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final, Self

__all__ = ["Stop", "shielding_children"]

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_shielding = False
"""Whether a process that is started now ignores SIGTERM."""


@contextmanager
def shielding_children() -> Iterator[None]:
    """Let a JVM that is started meanwhile ignore SIGTERM; this process goes on listening."""
    global _shielding  # noqa: PLW0603 -- what is called in a child process cannot be given anything
    _shielding = True
    try:
        yield
    finally:
        _shielding = False


def _shield() -> None:
    if _shielding:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


os.register_at_fork(after_in_child=_shield)  # also called where a subprocess has a preexec_fn, as PySpark's JVM does


class Stop:
    """Whether the job has been asked to end; use it in ``with``, in the main thread."""

    def __init__(self) -> None:
        self.asked: str | None = None
        """The signal that asked."""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.getsignal(number) for number in SIGNALS}
        self.listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def listen(self) -> None:
        """Take the signals; again after a Spark session has begun, which takes Ctrl-C for itself."""
        for number in SIGNALS:
            signal.signal(number, self._ask)

    def _ask(self, number: int, _frame: FrameType | None) -> None:
        if self.asked is not None:
            raise KeyboardInterrupt
        self.asked = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
