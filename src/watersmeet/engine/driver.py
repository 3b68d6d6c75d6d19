"""Driver and tactic: the driver decides what happens to a row, the tactic brings rows together.

The *driver* is the same for every join. It takes a push (schema, arrival, watermark, admission: see
:mod:`watersmeet.engine.intake`), gives the slices one after the other to the *tactic*, and after each slice lets rows
expire that no row to come can meet (:mod:`watersmeet.window.expiry`). The tactic is a topology of two streams or a
strategy of many. It only brings rows together: it never decides which rows take part, and never drops rows on its own.
One exception: SplitJoin's cores see all rows and find what has expired (:class:`~watersmeet.window.expiry.Seen`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from watersmeet.spec.expression import StreamName
from watersmeet.window.expiry import Bounds, Departed

__all__ = ["Tactic", "drive"]

Found = TypeVar("Found")


class Part(Protocol):
    """Rows that are joined together."""

    @property
    def expire_before(self) -> Bounds:
        """The bounds of expiry after these rows have been joined."""
        ...


Rows = TypeVar("Rows", bound=Part)


class Tactic(Protocol):
    """What the driver needs of a topology or a strategy."""

    def expire(self, before: Bounds) -> dict[StreamName, list[Departed]]:
        """Drop rows that lie before these places once all that were let in have met; return what has left now."""
        ...


def drive(tactic: Tactic, parts: Iterable[Rows], meet: Callable[[Rows], Iterable[Found]]) -> Iterator[Found]:
    """Join the rows of each part by ``meet``, and then let the tactic drop the rows that have expired."""
    for part in parts:
        yield from meet(part)
        tactic.expire(part.expire_before)
