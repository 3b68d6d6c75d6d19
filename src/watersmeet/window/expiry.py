"""Expiry: when rows leave a window, and which rows have left.

A row stays in its window for the stream's *length*: until the watermark, or in a count window the number of rows that
have come, is that far beyond the row's place (:func:`expired_before`). After that no row to come can meet it. The
driver of a join calls :meth:`~Holder.expire` on all holders of rows, once for every slice or micro-batch. A core that
sees all rows can find the bounds by itself (:class:`Seen`), as SplitJoin's cores do. A core of two streams on Spark
drops whole runs by the same bounds, and reads none of their rows for it.

Holders drop rows in steps and return those that have left, for whoever wants to say something of rows that nobody can
meet any more; inner joins do not. :class:`Departed` are views, valid until the next expiry. Cost: nothing while no step
is complete; then a view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.spec.expression import StreamName
from watersmeet.window.streams import Streams, watermark_of

__all__ = ["Bounds", "Departed", "Holder", "Seen", "expire", "expired_before"]

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


class Seen:
    """How far the streams of a join have come, as told by the rows alone to somebody who sees all of them.

    Rows come in *parts*: those that the intake lets in together, in any order. No row of the next part lies behind what
    the parts before it have reached, by their arrival numbers or by their timestamps less the lateness: it would have
    been late. Rows that were left out are not seen, so what is told here may lie behind what the intake knows, which is
    safe. So is what comes of slices of time that follow each other in one push: none has reached the next one's rows.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._reached: dict[StreamName, int | None] = dict.fromkeys(streams.schemas)
        self.before: Bounds = dict(self._reached)
        """Before which places rows have expired, for all parts to come and the present one."""

    def see(self, stream: StreamName, place: int) -> None:
        """Take note of rows of the present part: the latest of them has this timestamp or arrival number."""
        place += self._streams.lateness is None  # with row number 6 a stream has come to 7
        known = self._reached[stream]
        self._reached[stream] = place if known is None else max(known, place)

    def begin(self) -> None:
        """Take note that the next part begins."""
        reached = self._reached
        if self._streams.lateness is not None:
            reached = dict.fromkeys(reached, watermark_of(self._streams, reached))
        self.before = expired_before(self._streams, reached)

    def meet(self, stream: StreamName, number: int) -> None:
        """Take note, in a count window, that ``stream`` had come to ``number`` before any row to come arrives."""
        (place,) = expired_before(self._streams, {stream: number}).values()
        known = self.before[stream]
        assert place is not None, "the stream has begun"
        self.before = {**self.before, stream: place if known is None else max(place, known)}


def expire(holders: Mapping[StreamName, Iterable[Holder]], before: Bounds) -> dict[StreamName, list[Departed]]:
    """Let all holders drop the rows that have expired; return the rows that have left."""
    return {
        stream: [] if place is None else [departed for holder in holders[stream] for departed in holder.expire(place)]
        for stream, place in before.items()
    }
