"""What a join of two streams tells about itself: counts so far, and how far its results are complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from watersmeet.spec.expression import StreamName

__all__ = ["Complete", "JoinMetrics"]


class Complete(NamedTuple):
    """How many rows of each stream, in the order of arrival, have met all that came before them.

    The pairs that they found with these have been returned, or the next ``poll`` returns them. Counted are rows that
    took part (neither late nor left out for a null) since the join was built or restored.
    """

    left: int
    right: int


@dataclass(frozen=True, slots=True)
class JoinMetrics:
    """Counts of a join so far."""

    left_rows: int
    """Rows that were pushed, including those that were left out."""
    right_rows: int
    pairs: int
    """Pairs that were handed to the caller; if ``how`` is not inner, results of any kind."""
    left_late: int
    """Rows behind the watermark when they were pushed: they were not joined."""
    right_late: int
    left_null: int
    """Rows that cannot match because of a null in the timestamp or in a compared value; an outer join returns them."""
    right_null: int
    left_window_rows: int
    """Rows held now; some may have expired."""
    right_window_rows: int
    window_bytes: int
    """Bytes of both windows, including their indexes, and rows that have met nobody so far, if they are held beside."""
    watermark: int | None
    """In microseconds (nanoseconds where a timestamp column has them) since 1970; None before both streams began, or
    with ``idle`` the first of them."""
    waiting_for: StreamName | None
    """The stream that holds the watermark of a time window back, so that both windows keep more than they need: it has
    had no row, or its newest lies behind the other's by more than the longer window. None if there is no such stream,
    or if ``idle`` draws it along."""
