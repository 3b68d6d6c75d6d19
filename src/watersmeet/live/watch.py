"""Watches a running query: looks at its last progress until it has ended.

It looks instead of listening. A ``StreamingQueryListener`` belongs to the session: it hears of every query, on Classic
it is called back from the JVM on the one thread that serves all listeners, and on Connect it opens a stream to the
server. ``lastProgress`` is one call, the same on both; it needs nothing taken down again, and the query's end shows in
the same place. A micro-batch that was missed is still in ``recentProgress``, which Spark keeps 100 long.

Cost: two calls every ``POLL_SECONDS``; a third where a micro-batch was missed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from watersmeet.live.history import Figures

__all__ = ["Query", "watch"]

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


def watch(query: Query, figures: Figures, stopped: threading.Event) -> None:
    """Add what a query does to its figures, until it has ended or ``stopped`` is set."""
    number = -1
    try:
        for progress in query.recentProgress:
            figures.add(progress)
            number = progress["batchId"]
        active = True
        while active and not stopped.wait(POLL_SECONDS):
            active = query.isActive  # asked first: so the last progress is not missed
            last = query.lastProgress
            if last is None or last["batchId"] == number:
                continue
            for progress in [last] if last["batchId"] == number + 1 else query.recentProgress:
                figures.add(progress)
            number = last["batchId"]
        if not active:
            error = query.exception()
            figures.end(None if error is None else _first_line(error))
    except Exception as error:  # noqa: BLE001 -- the session is gone, in one of the many ways of Py4J and gRPC
        figures.end(f"the query can no longer be asked: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
