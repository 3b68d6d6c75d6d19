"""Results of handshake join in order, by punctuations that flow with the rows (its footnote 2).

A *punctuation* is a number up to which all rows of both streams have entered. It is sent in at both ends, behind the
rows, and flows with them: it stays behind the block that it followed, and moves on behind it. When one core has had
those of both streams, the left rows up to the number are there or to the right of it, the right ones there or to the
left. So they have met, but for a left and a right block that cross: the left one finds the other when it arrives. So a
right punctuation waits, on every core, until the left blocks that were under way when it came have been acknowledged.

Then no pair to come has its later row among them: all pairs found whose later row is one of them are released.

*Delay.* A row has met all before it when the punctuations behind it meet. With equal windows that is when they have
moved through half of them; with windows of ``a`` and ``b`` rows, after about ``ab / (a + b)`` rows of each stream, or
up to a segment less, since they meet on whole cores (``benchmarks/experiments/engine/flowing.py``). Punctuations come
with the end of a push, and within a push every few blocks, so a result may wait for the next one as well. Rows that
nothing pushes along stand still: the rest comes with ``finish``.

*Cost.* Two messages a punctuation and core. The pairs of a table are put in the order of their later rows once; after
that a release takes the beginnings of those tables alone that have something to release.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.arrays import Int64s
from watersmeet.engine.intake import Slice
from watersmeet.engine.row_numbers import numbers_of, pair_numbers
from watersmeet.spec.expression import StreamName
from watersmeet.window.plan import OTHER_SIDE

__all__ = ["HeldBack", "Passing", "Punctuated", "Punctuation"]


@dataclass(frozen=True, slots=True)
class Punctuation:
    """All rows of ``side`` up to a number have passed."""

    side: StreamName
    number: int


class Passing:
    """The punctuations of both streams that have come to one core."""

    def __init__(self) -> None:
        self._crossing: deque[tuple[int, int, Punctuation]] = deque()
        self._behind: dict[StreamName, deque[tuple[int, Punctuation]]] = {side: deque() for side in OTHER_SIDE}
        self._passed: dict[StreamName, int] = dict.fromkeys(OTHER_SIDE, -1)

    @property
    def complete(self) -> int:
        """All rows up to this number have met, here or before they came here."""
        return min(self._passed.values())

    def come(self, punctuation: Punctuation, crossing: int, ahead: int) -> None:
        """Take a punctuation that counts when so many left blocks have arrived, and moves on behind so many blocks."""
        self._crossing.append((crossing, ahead, punctuation))

    def count(self, arrived: int) -> None:
        """Take note that so many left blocks have arrived at the next core."""
        while self._crossing and self._crossing[0][0] <= arrived:
            _, ahead, punctuation = self._crossing.popleft()
            behind = self._behind[punctuation.side]
            if behind and behind[-1][0] == ahead:
                behind.pop()  # the newer one says more
            behind.append((ahead, punctuation))
            self._passed[punctuation.side] = punctuation.number

    def due(self, side: StreamName, sent: int) -> Iterator[Punctuation]:
        """Take out and yield a stream's punctuations behind its first ``sent`` blocks, which have moved on."""
        behind = self._behind[side]
        while behind and behind[0][0] <= sent:
            yield behind.popleft()[1]


class HeldBack:
    """Pairs that have been found and not released."""

    def __init__(self) -> None:
        self._tables: list[tuple[int, int, pa.Table, Int64s]] = []
        """A heap of pairs with the numbers of their later rows, which ascend: the smallest number first."""
        self._kept = 0

    def add(self, found: Iterable[pa.Table]) -> None:
        """Hold pairs back."""
        for pairs in found:
            left, right = pair_numbers(pairs).values()
            later = np.maximum(left, right)
            order = np.argsort(later, kind="stable")
            self._keep(pairs.take(pa.array(order)), later[order])

    def _keep(self, pairs: pa.Table, later: Int64s) -> None:
        self._kept += 1
        heapq.heappush(self._tables, (int(later[0]), self._kept, pairs, later))

    def release(self, complete: int) -> list[pa.Table]:
        """Return the pairs whose later row has a number of at most ``complete``, and hold them back no longer."""
        released = []
        while self._tables and self._tables[0][0] <= complete:
            *_, pairs, later = heapq.heappop(self._tables)
            end = int(np.searchsorted(later, complete, "right"))
            released.append(pairs.slice(0, end))
            if end < len(later):
                self._keep(pairs.slice(end), later[end:])
        return released

    def pairs(self) -> list[pa.Table]:
        """Return all that is held back."""
        return [pairs for *_, pairs, _ in self._tables]


class Punctuated:
    """The punctuations so far, and how many rows of each stream had come before each."""

    def __init__(self) -> None:
        self._entered: dict[StreamName, int] = dict.fromkeys(OTHER_SIDE, 0)
        self._under_way: deque[tuple[int, dict[StreamName, int]]] = deque()
        self._newest = -1
        self._complete = dict(self._entered)

    def after(self, part: Slice, entered: int) -> int | None:
        """Return the next punctuation when so many rows of each side of a slice have entered; None if it is no news.

        It lies before all numbers that are still to come.
        """
        numbers = {batch.side: numbers_of(batch.rows) for batch in (part.left, part.right) if len(batch)}
        to_come = [int(own[entered]) for own in numbers.values() if entered < len(own)]
        number = min(to_come) - 1 if to_come else max((int(own[-1]) for own in numbers.values()), default=-1)
        if number <= self._newest:
            return None
        self._newest = number
        rows = {side: int(np.searchsorted(own, number, "right")) for side, own in numbers.items()}
        self._under_way.append((number, {side: n + rows.get(side, 0) for side, n in self._entered.items()}))
        return number

    def end(self, part: Slice) -> None:
        """Take note that all rows of a slice have entered."""
        for batch in (part.left, part.right):
            self._entered[batch.side] += len(batch)

    def complete(self, number: int) -> dict[StreamName, int]:
        """Take note that all rows up to a number have met; return how many of each stream that is, by punctuations."""
        while self._under_way and self._under_way[0][0] <= number:
            _, self._complete = self._under_way.popleft()
        return dict(self._complete)

    def finish(self) -> None:
        """Take note that all rows have met."""
        self._under_way.clear()
        self._complete = dict(self._entered)
