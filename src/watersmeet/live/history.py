"""The figures of one query since they are looked at: its last micro-batches, and sums over all of them.

Design: :class:`Figures` is filled by one thread (:mod:`watersmeet.live.watch`, or a listener of the user's own) and
read by many, the server's. A reader takes a :class:`View`, which never changes, or waits for the next one.

Invariant: every micro-batch counts once in the sums, however often its progress is given; the sums never go back.

Cost: memory for ``KEPT`` micro-batches, of which only the last one keeps its cores and groups.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from watersmeet.live.figures import JoinFigures, MicroBatch, read

__all__ = ["Decided", "Figures", "Point", "Sums", "View"]

KEPT: Final = 600
"""Micro-batches that charts go back to."""
DECISIONS: Final = 50
"""Changes of balance that are remembered."""


@dataclass(frozen=True, slots=True)
class Point:
    """A micro-batch in the history; its joins have no cores and groups any more."""

    batch: MicroBatch
    interval: float
    """Seconds since the micro-batch before it was done: rates are per second of this."""
    skews: Mapping[str, float | None]
    """How uneven the work of each join's cores was."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A change of balance."""

    at: float
    micro_batch: int
    join: str
    generation: int
    reasons: tuple[str, ...]


@dataclass(slots=True)
class Sums:
    """What one join did in all micro-batches that were seen."""

    rows_in: int = 0
    pairs: int = 0
    late_rows: int = 0
    null_rows: int = 0
    unmatched_rows: int = 0
    changes: int = 0
    """Changes of balance."""
    core_rows: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    core_work: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    core_busy: dict[int, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, join: JoinFigures) -> None:
        """Add a micro-batch."""
        for name in ("rows_in", "pairs", "late_rows", "null_rows", "unmatched_rows"):
            setattr(self, name, getattr(self, name) + getattr(join, name))
        for core in join.cores:
            self.core_rows[core.core] += core.rows_in
            self.core_work[core.core] += core.work_seconds
            self.core_busy[core.core] += core.busy_seconds

    def copy(self) -> Sums:
        """Return sums that the next micro-batch does not change."""
        return replace(
            self, core_rows=dict(self.core_rows), core_work=dict(self.core_work), core_busy=dict(self.core_busy)
        )


@dataclass(frozen=True, slots=True)
class View:
    """What is known at one moment."""

    version: int
    """Grows with every change."""
    points: tuple[Point, ...]
    latest: MicroBatch | None
    """The last micro-batch, with its cores and groups."""
    micro_batches: int
    rows: int
    results: int | None
    """None as long as no micro-batch has told of its results."""
    sums: Mapping[str, Sums]
    source_rows: Mapping[str, int]
    decided: tuple[Decided, ...]
    heard: float
    """When the last change was noticed here."""
    started: bool
    ended: bool
    error: str | None
    """What the query failed with."""

    @property
    def unmoved(self) -> tuple[int, float]:
        """For how many micro-batches with rows, and how many seconds up to the last of them, the watermark stood."""
        watermark = None if self.latest is None else self.latest.watermark
        standing = 0
        since = last = 0.0
        for point in reversed(self.points):
            if point.batch.watermark != watermark:
                break
            since = point.batch.ended
            if point.batch.rows:
                standing += 1
                last = max(last, point.batch.ended)
        return (0, 0.0) if standing == 0 or watermark is None else (standing - 1, max(0.0, last - since))


class Figures:
    """The figures of one streaming query; safe for threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._points: deque[Point] = deque(maxlen=KEPT)
        self._decided: deque[Decided] = deque(maxlen=DECISIONS)
        self._latest: MicroBatch | None = None
        self._version = 0
        self._micro_batches = 0
        self._rows = 0
        self._results: int | None = None
        self._sums: dict[str, Sums] = defaultdict(Sums)
        self._source_rows: dict[str, int] = defaultdict(int)
        self._generations: dict[str, int] = {}
        self._heard = time.time()
        self._started = False
        self._ended = False
        self._error: str | None = None

    def add(self, progress: Mapping[str, Any]) -> MicroBatch | None:
        """Add the progress of a micro-batch, as ``recentProgress`` has it or a ``StreamingQueryListener`` gets it.

        One that is known already, one before the last, and one of another query are left out: then None is returned.
        """
        batch = read(progress)
        with self._changed:
            last = self._latest
            if last is not None and (batch.query != last.query or batch.began <= last.began):
                return None
            interval = batch.seconds if last is None else max(batch.seconds, batch.ended - last.ended)
            plain = {name: replace(join, cores=(), groups=()) for name, join in batch.joins.items()}
            skews = {name: join.skew for name, join in batch.joins.items()}
            self._started = True
            self._points.append(Point(replace(batch, joins=plain), interval, skews))
            self._latest = batch
            self._micro_batches += 1
            self._rows += batch.rows
            if batch.results is not None:
                self._results = (self._results or 0) + batch.results
            for source in batch.sources:
                self._source_rows[source.name] += source.rows
            for name, join in batch.joins.items():
                self._sums[name].add(join)
                self._note_change(batch, name, join)
            self._announce()
        return batch

    def start(self) -> None:
        """Say that the query runs, before its first micro-batch does."""
        with self._changed:
            self._started = True
            self._announce()

    def end(self, error: str | None = None) -> None:
        """Say that the query has ended, and with which error if there was one."""
        with self._changed:
            if not self._ended:
                self._ended, self._error = True, error
                self._announce()

    def view(self) -> View:
        """Return what is known now."""
        with self._changed:
            return View(
                self._version,
                tuple(self._points),
                self._latest,
                self._micro_batches,
                self._rows,
                self._results,
                {name: sums.copy() for name, sums in self._sums.items()},
                dict(self._source_rows),
                tuple(self._decided),
                self._heard,
                self._started,
                self._ended,
                self._error,
            )

    def wait(self, seen: int, seconds: float) -> bool:
        """Wait for a version after ``seen``, at most so long; return whether there is one."""
        with self._changed:
            return self._changed.wait_for(lambda: self._version > seen, seconds)

    def _note_change(self, batch: MicroBatch, name: str, join: JoinFigures) -> None:
        if join.generation is None:
            return
        before = self._generations.get(name)
        if before is not None and join.generation > before:
            self._sums[name].changes += 1
            self._decided.append(Decided(batch.ended, batch.number, name, join.generation, join.decisions))
        self._generations[name] = join.generation

    def _announce(self) -> None:
        self._version += 1
        self._heard = time.time()
        self._changed.notify_all()
