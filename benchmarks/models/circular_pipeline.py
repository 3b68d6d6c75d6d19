"""Circular-MJ in hardware, cycle by cycle: a model of the paper's circuit (001, section II), not a way to run joins.

Stage *i* has the window of stream *i* and compares one partial result with ``widths[i]`` of its rows a cycle. A new row
is stored at its own stage, and enters the ring at the next one: from there it and what it leads to pass through all
other stages. Storing happens beside comparing. All streams have equal keys, so a partial result has one key.

- *Distribution chain*: new rows come one a cycle, in order; where the stage at which one enters the ring has no room
  for it (it has room for as many as there are stages), all behind it wait. There is always one more to come.
- *StageBuffer*: finite. Partial results go before new rows, and a new row waits while the next stage's buffer is full;
  a match that finds it full is dropped and counted, which is how the paper keeps a ring from waiting for itself.
- *Order control*: a row meets those that entered before it. Rows stored prematurely are compared and refined away;
  rows that expired prematurely (``EBuf``) are compared again, and the most that one needed of them is noted.

Between two events nothing changes, so time jumps from one to the next; every figure is a number of cycles all the same.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

__all__ = ["CircularPipeline"]

UNBOUNDED: Final = 1 << 60
FREE, CHAIN, FOUND = 0, 1, 2
"""What may happen: a stage has finished, the chain can move, a stage has found a match."""


@dataclass(frozen=True, slots=True)
class Row:
    """A new row: its stream, key and number, and how many rows of every stream entered before it."""

    stream: int
    key: int
    number: int
    before: tuple[int, ...]


Partial = tuple[Row, tuple[int, ...]]
"""A partial result: the row that it began with, and the numbers of those bound so far, in the order of the ring."""


@dataclass(slots=True)
class Stage:
    """One stream's window, its join core and its buffers."""

    window: int
    width: int
    stored: int = 0
    by_key: dict[int, list[int]] = field(default_factory=dict)
    buffer: deque[Partial] = field(default_factory=deque)
    new: deque[Partial] = field(default_factory=deque)
    busy: bool = False
    busy_cycles: int = 0


class CircularPipeline:
    """The circuit, what it has found, and what it took."""

    def __init__(self, windows: Sequence[int], *, widths: Sequence[int] = (), buffer: int = UNBOUNDED) -> None:
        self.stages = [Stage(*each) for each in zip(windows, widths or [1] * len(windows), strict=True)]
        self.buffer = buffer
        self.entered: list[int] = []
        """The cycle in which each row came."""
        self.results: list[tuple[int, tuple[int, ...]]] = []
        """Stream of the row that entered last, and the numbers of all rows from it on, in the order of the ring."""
        self.cycles = self.jobs = self.dropped = self.fullest = self.refined = self.expired_too_early = 0
        self._events: list[tuple[int, int, int, int, Partial | None]] = []
        self._count = 0
        self._coming: Iterator[tuple[int, int]] = iter(())
        self._waiting: Row | None = None
        self._chain_moves = False

    def run(self, arrivals: Iterable[tuple[int, int]]) -> None:
        """Let rows enter, each a stream and a key, as fast as the circuit takes them, until nothing moves any more."""
        self._coming = iter(arrivals)
        self._chain_goes_on()
        while self._events:
            self.cycles, _, kind, at, partial = heapq.heappop(self._events)
            if kind == CHAIN:
                self._move_chain()
            elif kind == FREE:
                self.stages[at].busy = False
                self._work(at)
            elif partial is not None:
                self._offer(at, partial)

    def _happens(self, cycle: int, kind: int, at: int, partial: Partial | None = None) -> None:
        self._count += 1
        heapq.heappush(self._events, (cycle, self._count, kind, at, partial))

    def _chain_goes_on(self) -> None:
        if not self._chain_moves:
            self._chain_moves = True
            self._happens(self.cycles + 1, CHAIN, 0)

    def _move_chain(self) -> None:
        """Let the chain's first row enter its stage; the next one comes a cycle later."""
        self._chain_moves = False
        row = self._waiting or self._next_row()
        if row is None:
            return
        enters_at = (row.stream + 1) % len(self.stages)
        if len(self.stages[enters_at].new) == len(self.stages):
            self._waiting = row
            return
        self._waiting = None
        self.stages[enters_at].new.append((row, (row.number,)))
        stage = self.stages[row.stream]
        stage.by_key.setdefault(row.key, []).append(row.number)
        stage.stored += 1
        self.entered.append(self.cycles)
        self._chain_goes_on()
        self._work(enters_at)

    def _next_row(self) -> Row | None:
        stream, key = next(self._coming, (-1, 0))
        before = tuple(stage.stored for stage in self.stages)
        return None if stream < 0 else Row(stream, key, before[stream], before)

    def _work(self, at: int) -> None:
        """Begin with the next partial result, or the next new row, if the stage is free and there is one."""
        stage, following = self.stages[at], (at + 1) % len(self.stages)
        if stage.busy:
            return
        if stage.buffer:
            partial = stage.buffer.popleft()
            self._probe(at, partial)
            self._work((at - 1) % len(self.stages))  # it may have waited for room here
        elif stage.new and len(self.stages[following].buffer) < self.buffer:
            self._probe(at, stage.new.popleft())
            if self._waiting is not None:
                self._chain_goes_on()

    def _probe(self, at: int, partial: Partial) -> None:
        """Compare a partial result with the window, and with what has left it too early."""
        row, numbers = partial
        stage = self.stages[at]
        end = row.before[at]
        begin, held_from = max(0, end - stage.window), max(0, stage.stored - stage.window)
        self.jobs += 1
        self.refined += stage.stored - max(end, held_from)
        self.expired_too_early = max(self.expired_too_early, held_from - begin)
        first = min(begin, held_from)
        cycles = max(1, -(-(stage.stored - first) // stage.width))
        stage.busy = True
        stage.busy_cycles += cycles
        self._happens(self.cycles + cycles, FREE, at)
        known = stage.by_key.get(row.key, [])
        for number in known[bisect_left(known, begin) : bisect_left(known, end)]:
            cycle = self.cycles + (number - first) // stage.width + 1
            self._happens(cycle, FOUND, (at + 1) % len(self.stages), (row, (*numbers, number)))

    def _offer(self, at: int, partial: Partial) -> None:
        """Give a partial result to the next stage; or it is a result; or there is no room for it."""
        row, numbers = partial
        stage = self.stages[at]
        if len(numbers) == len(self.stages):
            self.results.append((row.stream, numbers))
        elif len(stage.buffer) >= self.buffer:
            self.dropped += 1
        else:
            stage.buffer.append(partial)
            self.fullest = max(self.fullest, len(stage.buffer))
            self._work(at)
