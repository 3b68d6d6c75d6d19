"""Expiry: when rows leave a window, and which rows have left.

A row stays in its window for the stream's *length*: until the watermark, or in a count window the number of rows that
have come, is that far beyond the row's place (:func:`expired_before`). After that no row to come can meet it. The
driver of a join calls :meth:`~Holder.expire` on all holders of rows, once for every slice or micro-batch. No other code
drops rows.

Holders drop rows in steps and return those that have left. :class:`Departed` are views, valid until the next expiry.
Cost: nothing while no step is complete; then a view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.spec.expression import StreamName
from watersmeet.window.streams import Streams

__all__ = ["Bounds", "Departed", "Holder", "expire", "expired_before"]

Bounds = Mapping[StreamName, int | None]
"""For each stream the place (a timestamp or an arrival number) before which all rows have expired; None: none has."""


@dataclass(frozen=True, slots=True)
class Departed:
    """Rows that have left a window; in a count window with their arrival numbers."""

    rows: pa.RecordBatch
    numbers: Int64s | None = None


class Holder(Protocol):
    """Something that holds rows of one stream."""

    def expire(self, before: int) -> list[Departed]:
        """Drop rows that lie before ``before``, in steps, oldest first; return the rows that have left."""
        ...


def expired_before(streams: Streams, reached: Mapping[StreamName, int | None]) -> dict[StreamName, int | None]:
    """Return the places before which rows have expired, given the places that streams have reached (None: none)."""
    return {stream: None if place is None else place - streams.length(stream) for stream, place in reached.items()}


def expire(holders: Mapping[StreamName, Iterable[Holder]], before: Bounds) -> dict[StreamName, list[Departed]]:
    """Let all holders drop the rows that have expired; return the rows that have left."""
    return {
        stream: [] if place is None else [departed for holder in holders[stream] for departed in holder.expire(place)]
        for stream, place in before.items()
    }
