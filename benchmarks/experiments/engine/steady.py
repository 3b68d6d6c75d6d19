"""Rows that come steadily, and how long their pairs take: shared by the experiments that measure latency.

A row arrives when it is due, not when the feeder gets to it. So where a topology does not keep up, what waits before it
counts. *Visiting latency* (SplitJoin, section 6) is from the arrival of the later row of a pair until a core has found
the pair; *end to end* until the caller has it. Pairs whose rows have not met when the last row is in count as well, as
found at that moment: else a topology whose rows meet late would look faster than it is.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.rig import Rig

__all__ = ["Meetings", "feed_steadily"]

Floats = npt.NDArray[np.float64]
NAP = 0.0005
"""Seconds between two looks for results."""


class Meetings:
    """When rows were due, and when pairs were found, and when the caller got them."""

    def __init__(self, push: int) -> None:
        self._push = push
        self._first = 0
        self._due: list[float] = []
        self._found: list[tuple[float, pa.Table]] = []
        self._given: list[tuple[float, pa.Table]] = []

    def arrive(self, first: int, due: float) -> None:
        """Take note of a push: the number of its first row, and when it is due."""
        if not self._due:
            self._first = first
        self._due.append(due)

    def observe(self, pairs: pa.Table) -> None:
        """Take note of pairs that a core finds now."""
        self._found.append((time.perf_counter(), pairs.select(["id", "number"])))

    def give(self, tables: Iterable[pa.Table]) -> None:
        """Take note of pairs that the caller gets now."""
        now = time.perf_counter()
        self._given += [(now, pairs.select(["id", "number"])) for pairs in tables]

    def visiting(self) -> Floats:
        """Return the visiting latency of every pair, in milliseconds."""
        return self._latencies(self._found)

    def end_to_end(self) -> Floats:
        """Return for every pair after how many milliseconds the caller had it."""
        return self._latencies(self._given)

    def _latencies(self, moments: list[tuple[float, pa.Table]]) -> Floats:
        due = np.array(self._due)
        found: list[Any] = [np.empty(0)]
        for moment, pairs in moments:
            later = np.maximum(np.asarray(pairs.column("id")), np.asarray(pairs.column("number")))
            push = (later[later >= self._first] - self._first) // self._push
            found.append(1000 * (moment - due[push]))
        return np.concatenate(found)


def feed_steadily(rig: Rig, push: int, pushes: int, pace: float, meetings: Meetings) -> tuple[float, int]:
    """Feed a push every ``pace`` seconds, and close the rig.

    Return by how many seconds the last push was late, and how many pairs had not been given by then.
    """
    rig.feed(push)  # starts the threads
    begin = time.perf_counter()
    for number in range(pushes):
        due = begin + number * pace
        while (ahead := due - time.perf_counter()) > 0:
            meetings.give(rig.engine.poll())
            time.sleep(min(NAP, ahead))
        meetings.arrive(rig.fed, due)
        rig.submit(push)
    late = time.perf_counter() - due
    rig.engine.settle()
    meetings.give(rig.engine.poll())
    owed = rig.engine.owed()
    meetings.give(owed)
    rig.close()
    return late, sum(table.num_rows for table in owed)
