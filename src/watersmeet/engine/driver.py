"""Driver and tactic: who decides what happens to a row, and who brings rows together.

The *driver* is the same for every join. It takes a push in (schema, arrival, watermark, admission: see
:mod:`watersmeet.engine.intake`), hands the slices one after the other to the *tactic*, and after each lets expire what
no row to come can meet (:mod:`watersmeet.window.expiry`). The tactic, a topology of two streams or a strategy of many,
only brings rows together: it neither judges rows nor drops any of its own accord.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from watersmeet.spec.expression import Side
from watersmeet.window.expiry import Bounds, Departed

__all__ = ["Tactic", "drive"]

Found = TypeVar("Found")


class Part(Protocol):
    """Rows that arrive together."""

    @property
    def expire_before(self) -> Bounds:
        """What expires when they have met."""
        ...


Rows = TypeVar("Rows", bound=Part)


class Tactic(Protocol):
    """What the driver asks of whoever brings rows together."""

    def expire(self, before: Bounds) -> dict[Side, list[Departed]]:
        """Drop rows that lie before these places; return what has left. No row is on its way meanwhile."""
        ...


def drive(tactic: Tactic, parts: Iterable[Rows], meet: Callable[[Rows], Iterable[Found]]) -> Iterator[Found]:
    """Let the tactic bring the rows of each part together, by ``meet``, and then drop what has expired."""
    for part in parts:
        yield from meet(part)
        tactic.expire(part.expire_before)
