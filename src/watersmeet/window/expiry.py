"""Expiry: when rows leave a window, and the event of their leaving.

A row of a stream stays for the stream's *length* after what was reached: the watermark, or in a count window the number
of rows that have come. Before the place that lies so far back (:func:`expired_before`) no row to come can meet it. The
driver of a join asks what holds its rows to :meth:`~Holder.expire` up to there, once for every slice or micro-batch;
nobody else drops rows.

What holds rows drops them in steps, and tells what has left: :class:`Departed` are views, good until the next expiry.
Cost: nothing while no step is complete; then a view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.spec.expression import Side
from watersmeet.window.streams import Streams

__all__ = ["Bounds", "Departed", "Holder", "expire", "expired_before"]

Bounds = Mapping[Side, int | None]
"""For each stream the place, a timestamp or an arrival number, before which rows have expired; None: none has."""


@dataclass(frozen=True, slots=True)
class Departed:
    """Rows that have left a window, with their arrival numbers in a count window."""

    rows: pa.RecordBatch
    numbers: Int64s | None = None


class Holder(Protocol):
    """Holds rows of one stream."""

    def expire(self, before: int) -> list[Departed]:
        """Drop rows that lie before ``before``, in steps, oldest first; return those that have left now."""
        ...


def expired_before(streams: Streams, reached: Mapping[Side, int | None]) -> dict[Side, int | None]:
    """Return before which places rows have expired, by how far the streams have come (None: not begun)."""
    return {stream: None if place is None else place - streams.length(stream) for stream, place in reached.items()}


def expire(holders: Mapping[Side, Iterable[Holder]], before: Bounds) -> dict[Side, list[Departed]]:
    """Let all that holds rows of the streams drop what has expired; return what has left."""
    return {
        stream: [] if place is None else [departed for holder in holders[stream] for departed in holder.expire(place)]
        for stream, place in before.items()
    }
