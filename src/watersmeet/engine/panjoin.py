"""PanJoin (section III-A): a manager that gives commands, workers that carry them out on subwindows.

The five steps: (1) *collect* rows, which the caller's pushes do, (2) *preprocess*: keys are computed and each batch is
sorted once, (3) *send* the commands of a batch, (4) *process*, (5) *feed back* the pairs. The commands are ``create``
and ``insert`` (one for the newest subwindow), ``probe`` (for the other stream's subwindows) and ``expire``. Subwindows
belong to the workers in turn, and whose it is carries out ``create`` and ``insert``, if he is free; there is no word
between workers.

Where it departs. Workers share one memory, and that pays twice. The manager's thread is a worker too, so one core needs
no other thread and is as fast as ``kang``. And a probe, which changes nothing, need not be made by the owner of a
subwindow: instead of the subwindows, of which there are two or three, the batch's sorted probes are shared out, a
stretch of keys to each command, and whoever is free takes the next. Any number of cores is thus kept busy without
cutting the window into more subwindows, each of which all probes would have to search.

Invariant: the commands of one round touch different things. The left batch probes right subwindows while it is
inserted into the newest left one; then the right batch does the same the other way round. So a pair of two new rows is
found once, by the right row.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.engine.intake import Slice
from watersmeet.engine.threads import Crew
from watersmeet.engine.topology import Layout, Topology
from watersmeet.spec.expression import Side
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.plan import OTHER_SIDE
from watersmeet.window.stream_window import StreamWindow

__all__ = ["PanJoin"]

LEAST_PROBES: Final = 2048
"""A probe command of fewer rows is not worth waking a thread, unless it scans."""
ANYBODY: Final = -1


@dataclass(frozen=True, slots=True)
class _Command:
    """Something to do, and whose subwindow it is about."""

    worker: int
    run: Callable[[], list[pa.Table]]


class _Round:
    """Commands that may be carried out side by side, and what they found."""

    def __init__(self, commands: list[_Command]) -> None:
        self._lock = threading.Lock()
        self._commands = list(enumerate(commands))
        self._found: list[list[pa.Table]] = [[] for _ in commands]

    def work(self, worker: int) -> None:
        """Carry out commands until none is left: a worker's own first, then whatever comes next."""
        try:
            while (claimed := self._claim(worker)) is not None:
                place, command = claimed
                self._found[place] = command.run()
        except BaseException:
            with self._lock:
                self._commands.clear()  # the round has failed
            raise

    def _claim(self, worker: int) -> tuple[int, _Command] | None:
        with self._lock:
            own = next((at for at, (_, command) in enumerate(self._commands) if command.worker == worker), 0)
            return self._commands.pop(own) if self._commands else None

    @property
    def found(self) -> list[pa.Table]:
        """What was found, in the order of the commands, whoever carried them out."""
        return [table for tables in self._found for table in tables]


def _take_part(worker: int, _: int, round_: _Round) -> None:
    round_.work(worker)


class PanJoin(Topology):
    """The manager, and the windows whose subwindows it shares out."""

    keeps_order: ClassVar[bool] = False

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._windows: dict[Side, StreamWindow] = {side: StreamWindow(layout.plan, side) for side in OTHER_SIDE}
        self._expired: dict[Side, int] = dict.fromkeys(OTHER_SIDE, 0)  # subwindows so far
        self._least_probes = 1 if layout.plan.structure == "scan" else LEAST_PROBES
        self._crew = Crew()
        self._workers = [
            self._crew.hire(f"watersmeet worker {number}", partial(_take_part, number))
            for number in range(1, layout.cores)
        ]

    def push(self, part: Slice) -> list[pa.Table]:
        """Carry out one batch of each stream."""
        found: list[pa.Table] = []
        self._preprocess(part)
        for batch in (part.left, part.right):
            if len(batch):
                found += self._process([self._insertion(batch), *self._probes(batch)], len(batch))
        for side, before in part.expire_before.items():
            if before is not None:
                subwindows = self._windows[side].segments
                held = len(subwindows)
                self._windows[side].expire(before)
                self._expired[side] += held - len(subwindows)
        return found

    def _preprocess(self, part: Slice) -> None:
        """Step 2: sort both batches, by all orders in which they will be looked up, side by side."""
        self._process(
            [
                _Command(number, partial(self._sort, batch))
                for number, batch in enumerate((part.left, part.right))
                if len(batch)
            ],
            max(len(part.left), len(part.right)),
        )

    def _sort(self, batch: KeyedBatch) -> list[pa.Table]:
        for segment in self._windows[OTHER_SIDE[batch.side]].segments:
            batch.probes(segment.choice.order)
        own = self._windows[batch.side].segments
        if own:
            batch.sorted(own[-1].choice.order)
        return []

    def _insertion(self, batch: KeyedBatch) -> _Command:
        """Return the commands create and insert: the window creates a subwindow when the newest is full."""
        own, other = self._windows[batch.side], self._windows[OTHER_SIDE[batch.side]]

        def insert() -> list[pa.Table]:
            own.insert(batch, other)
            return []

        return _Command(self._owner(batch.side, len(own.segments) - 1), insert)

    def _probes(self, batch: KeyedBatch) -> list[_Command]:
        """Return the probe commands, for a large batch one per core.

        More would even out what cores have to do, but threads that return from short kernels wait for the
        interpreter's lock more often than that is worth.
        """
        window = self._windows[OTHER_SIDE[batch.side]]
        stretches = max(1, min(self._layout.cores, len(batch) // self._least_probes))

        def probe(stretch: int) -> list[pa.Table]:
            probing = batch.portion(stretch, stretches)
            return self._layout.gather(probing, list(window.probe(probing)))

        return [_Command(ANYBODY, partial(probe, stretch)) for stretch in range(stretches)]

    def _owner(self, side: Side, at: int) -> int:
        """Return whose the subwindow at a place of the chain is: in turn, the two streams out of step."""
        return (self._expired[side] + at + (side == "right")) % self._layout.cores

    def _process(self, commands: list[_Command], rows: int) -> list[pa.Table]:
        """Give the commands for so many rows to workers, take part and wait (steps 3 to 5); return what was found."""
        round_ = _Round(commands)
        helpers = self._workers[: len(commands) - 1] if rows >= self._least_probes else []
        for worker in helpers:
            worker.put(round_)
        round_.work(0)
        if helpers:
            self._crew.wait_until_quiet()
        return round_.found

    def windows(self, side: Side) -> Sequence[StreamWindow]:
        """Return a side's window."""
        return [self._windows[side]]

    def load(self, side: Side, rows: pa.RecordBatch, sequence: npt.NDArray[np.int64] | None) -> None:
        """Add a subwindow of saved rows."""
        self._windows[side].load(rows, sequence)

    def close(self) -> None:
        """End the workers."""
        self._crew.close()
