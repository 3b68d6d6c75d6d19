"""The clock of a core: what it knows of the streams' progress, and the join's own watermark that follows from it.

The query's watermark lies *behind* the join's own (:mod:`watersmeet.spark.event_time`), so a core adds that. A
checkpoint may have been begun by a version, or with options, that held the query's watermark back less, or not at all,
and the query's watermark never goes back. So a core notes the query's watermark *since* which it adds anything: what it
found when it first went by this. As long as the query has not come further, that is the join's own too, which is never
too far.

Every core hears in every micro-batch how far each stream has come, and keeps it: the watermark of the next one follows
from that (:func:`~watersmeet.window.streams.watermark_of`), so a replay decides the same, on every core. With ``idle``
the query's lies further behind, and it begins in 1970 only. A core that has not heard of all goes by the query's. Where
the query's watermark is not ours, cores go by it alone.

Invariant: the join's own watermark never goes back, whatever options change from one start to the next: what was
decided by it stays decided. So a core keeps how far it has *reached*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from watersmeet.spec.expression import StreamName
from watersmeet.window.streams import Streams, waiting_for, watermark_of

__all__ = ["Clock"]

MILLI_SCALE: Final = 3


@dataclass(slots=True)
class Clock:
    """A core's knowledge of time, as its manifest keeps it."""

    behind: int
    """Milliseconds by which the query's watermark lies behind the join's own."""
    since: int
    """The query's watermark, in milliseconds, since which it does."""
    largest: dict[StreamName, int] = field(default_factory=dict)
    """The largest timestamp of each stream that has had rows, as far as this core has heard of them."""
    reached: int | None = None
    """The join's own watermark in this core's last micro-batch, in units of the timestamps; None if there was none."""

    @classmethod
    def at(cls, query: int, behind: int, saved: Mapping[str, Any] | None) -> Self:
        """Return a core's clock when the query's watermark is at ``query``; ``saved`` is what its manifest has."""
        if saved is None:
            return cls(behind, query)
        known = cls(**saved)
        return known if known.behind == behind else cls(behind, query, known.largest, known.reached)

    def to_json(self) -> dict[str, Any]:
        """Return what :meth:`at` reads: the same in whichever order the streams were heard."""
        return {
            "behind": self.behind,
            "since": self.since,
            "largest": dict(sorted(self.largest.items())),
            "reached": self.reached,
        }

    def hear(self, largest: Mapping[StreamName, int]) -> None:
        """Take note of the largest timestamps of a micro-batch, which count from the next one on."""
        for stream, time in largest.items():
            self.largest[stream] = max(time, self.largest.get(stream, time))

    def waiting_for(self, streams: Streams) -> StreamName | None:
        """Return the stream that holds the join's watermark back, if there is one."""
        return waiting_for(streams, {stream: self.largest.get(stream) for stream in streams.schemas})

    def advance(self, query: int, streams: Streams) -> int | None:
        """Return the join's own watermark in this micro-batch, which is kept; None while there is none."""
        reached = [] if self.reached is None else [self.reached]
        if query > 0:  # there is none before 1970
            own = query + self.behind if query > self.since else query
            reached.append(own * 10 ** (streams.time_scale - MILLI_SCALE))
        if streams.idle is not None or self.behind:
            heard = watermark_of(streams, {stream: self.largest.get(stream) for stream in streams.schemas})
            reached += [] if heard is None else [heard]
        self.reached = max(reached, default=None)
        return self.reached
