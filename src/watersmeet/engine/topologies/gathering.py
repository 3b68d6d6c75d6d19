"""The result gathering network (SplitJoin, section 5.2, figure 11): a tree of mergers, and a combiner at its root.

Every join core hands its runs (:mod:`watersmeet.engine.topologies.punctuation`) on to a merger, as do mergers to the
one below them; each has at most ``fanout`` inputs and is a thread. A merger keeps what comes until all its inputs have
sent a star as far on: then it merges up to there, in the order of the cores, and hands the result on. So a slow core
holds results back, never the order up.

The *combiner* releases the results that come out, in the order of arrival of the rows that found them, and keeps for
each stream up to which turn they are complete.

Departures. The paper merges the results of left and of right regions apart and lets the combiner take from both as it
likes. Both regions of a core are one thread's here, so its results leave in one lane, in the order of arrival, the
stars flagged by stream; merging keeps that order, and so the combined stream is ordered too.

Invariant: when all messages have been handled nothing is left in a merger, since every message ends with a star that
all cores send. Bounds: as the distributors wait for the slowest core, no core is further ahead of another than the
lanes are long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from watersmeet.engine.threads import Crew
from watersmeet.engine.topologies.contract import drained
from watersmeet.engine.topologies.punctuation import Run, merged
from watersmeet.spec.expression import StreamName
from watersmeet.window.plan import OTHER_SIDE

__all__ = ["Combiner", "HandsOn", "Merger", "gathering_tree"]


class HandsOn(Protocol):
    """Whoever has runs for a merger: a core, or a merger above it."""

    hand_on: Callable[[Run], None]
    """Takes its runs."""


class Merger:
    """One node of the tree."""

    hand_on: Callable[[Run], None]

    def __init__(self, inputs: int) -> None:
        self._waiting: list[list[Run]] = [[] for _ in range(inputs)]
        self._complete = [-1] * inputs
        self._handed_on = -1

    def handle(self, lane: int, run: Run) -> None:
        """Take a run of one input, and hand on what all inputs have completed."""
        self._waiting[lane].append(run)
        self._complete[lane] = run.complete
        border = min(self._complete)
        if border > self._handed_on:
            self._handed_on = border
            self.hand_on(merged([part for waiting in self._waiting for part in _taken(waiting, border)]))


def _taken(waiting: list[Run], border: int) -> list[Run]:
    """Take what is complete up to a turn from an input's runs."""
    parts = []
    while waiting and waiting[0].complete <= border:
        parts.append(waiting.pop(0))
    if waiting and waiting[0].outer[0] <= border:
        part, waiting[0] = waiting[0].split(border)
        parts.append(part)
    return parts


class Combiner:
    """The root: releases results."""

    def __init__(self) -> None:
        self._released: deque[pa.Table] = deque()
        self.complete: dict[StreamName, int] = dict.fromkeys(OTHER_SIDE, -1)
        """For each stream the turn of the last row whose pairs with all rows before it have been released."""

    def release(self, run: Run) -> None:
        """Let the caller have these results."""
        table = run.table()
        if table is not None:
            self._released.append(table)
        for side, stars in (("left", run.of_left), ("right", ~run.of_left)):
            if stars.any():
                self.complete[side] = int(run.outer[np.flatnonzero(stars)[-1]])

    def taken(self) -> list[pa.Table]:
        """Return what has been released, and nobody was given yet."""
        return drained(self._released)


def gathering_tree(crew: Crew, cores: Sequence[HandsOn], fanout: int, combiner: Combiner) -> None:
    """Hire mergers for these cores, and tell everybody whom to hand on to."""
    level = cores
    while True:
        groups = [level[begin : begin + fanout] for begin in range(0, len(level), fanout)]
        mergers = [Merger(len(group)) for group in groups]
        for merger, group in zip(mergers, groups, strict=True):
            inbox = crew.hire("watersmeet merger", merger.handle, lanes=len(group))
            for lane, above in enumerate(group):
                above.hand_on = partial(inbox.put, lane=lane)
        if len(mergers) == 1:
            mergers[0].hand_on = combiner.release
            return
        level = mergers
