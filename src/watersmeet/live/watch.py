"""Watches a running query: looks at its last progress until it has ended.

It looks instead of listening. A ``StreamingQueryListener`` belongs to the session: it hears of every query, on Classic
it is called back from the JVM on the one thread that serves all listeners, and on Connect it opens a stream to the
server. ``lastProgress`` is one call, the same on both; it needs nothing taken down again, and the query's end shows in
the same place. A micro-batch that was missed is still in ``recentProgress``, which Spark keeps 100 long.

Invariant: what is looked at twice counts once (:meth:`Figures.add`); the figures end when the query does.

Cost: two calls every ``POLL_SECONDS``; a third where a micro-batch was missed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from watersmeet.live.figures import MicroBatch
from watersmeet.live.history import Figures

__all__ = ["Query", "looks", "watch"]

POLL_SECONDS: Final = 0.5


class Query(Protocol):
    """What is asked of a streaming query, of Classic or of Connect."""

    @property
    def isActive(self) -> bool:  # noqa: N802 -- Spark's name
        """Whether it runs."""

    @property
    def lastProgress(self) -> Mapping[str, Any] | None:  # noqa: N802 -- Spark's name
        """What it did in its last micro-batch."""

    @property
    def recentProgress(self) -> Sequence[Mapping[str, Any]]:  # noqa: N802 -- Spark's name
        """What it did in its last micro-batches."""

    def exception(self) -> Exception | None:
        """Return what it failed with."""


def looks(query: Query, figures: Figures, wait: Callable[[float], object]) -> Iterator[list[MicroBatch]]:
    """Look at a query until it has ended, and yield what is new each time; it is in the figures already.

    Between two looks ``wait`` is called with a number of seconds. If what it returns is true, no look follows.
    """
    number = -1
    active = True
    figures.start()
    try:
        while active:
            active = query.isActive  # asked first: so the last progress is not missed
            last = query.lastProgress
            new: list[MicroBatch] = []
            if last is not None and last["batchId"] != number:
                shown = [last] if last["batchId"] == number + 1 else query.recentProgress
                new = [batch for one in shown if (batch := figures.add(one)) is not None]
                number = last["batchId"]
            if not active:
                error = query.exception()
                figures.end(None if error is None else _first_line(error))
            yield new
            if active and wait(POLL_SECONDS):
                return
    except Exception as error:
        figures.end(f"the query can no longer be asked: {_first_line(error)}")
        raise


def watch(query: Query, figures: Figures, stopped: threading.Event) -> None:
    """Add what a query does to its figures, until it has ended or ``stopped`` is set."""
    with suppress(Exception):  # the session is gone, in one of the many ways of Py4J and gRPC; the figures say it
        for _ in looks(query, figures, stopped.wait):
            pass


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
