"""PanJoin (section III-A): a manager that gives commands, workers that carry them out on subwindows.

The five steps: (1) *collect* rows, which the caller's pushes do, (2) *preprocess*: keys are computed and each batch is
sorted once, (3) *send* the commands of a push, (4) *process*, (5) *feed back* the pairs. The commands are ``create``
and ``insert`` (one for the newest subwindow) and ``probe`` (for the other stream's subwindows); ``expire`` comes from
the driver. Gathering the columns of what a probe has found is a command too, for either side of the pairs: nothing
waits for it, so it fills the time in which a worker would wait for another.

Where it departs. Workers share one memory, and that pays twice. The manager's thread is a worker too, so one core needs
no other thread and is as fast as ``kang``. And a command need not be carried out by the owner of a subwindow: there are
two or three subwindows only, so a batch's sorted probes are shared out instead, a stretch of keys to each command, and
whoever is free takes the next. Cores are thus kept busy without cutting the window into more subwindows, each of which
all probes would have to search. A stretch that an index alone answers is short work, though, and Python's part of it is
done by one thread at a time: such batches are cut into few, long stretches.

Invariant: a command waits for those whose traces it must see, or must not be seen by. Right rows probe the left window
when the left batch is in it, and are inserted when all left rows have probed the right window. So a pair of two new
rows is found once, by the right row. Of two workers one can thus insert the left batch and then probe with the right
one, while the other probes with the left batch and then inserts the right one: as much work for both. Pairs may be
gathered while their rows' window grows: a match holds on to the piece of memory in which it found its rows, and these
never change. Results in portions (``pushes``) are found in the caller's thread alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final

import pyarrow as pa

from watersmeet.columns.gather import Columns
from watersmeet.engine.intake import Slice
from watersmeet.engine.result import gather_probing, gather_stored
from watersmeet.engine.threads import Crew
from watersmeet.engine.topologies.contract import Layout
from watersmeet.engine.topologies.whole_windows import WholeWindows
from watersmeet.subwindow.choose import STRUCTURES
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.plan import OTHER_SIDE
from watersmeet.window.stream_window import Match, StreamWindow

__all__ = ["PanJoin"]

LEAST_PROBES: Final = 2048
"""Fewer rows are not worth waking a thread, unless they scan."""
LEAST_STRETCH: Final = 1 << 14
MOST_STRETCHES: Final = 4
"""Of a batch that an index alone answers: shorter or more would wait for the interpreter's lock longer than they gain.
"""
LONG_SCAN: Final = 1 << 24
"""Comparisons: a stretch of so many takes about 10 ms, beside which what Python does for it is little."""
SCANS_PER_CORE: Final = 2
"""Long scans of a batch, so that a core that somebody else slows down gets fewer of them."""
EVEN: Final = 1.25
"""Batches of both streams are about as large if neither has more than so many times the other's rows."""


@dataclass(eq=False, slots=True)
class _Command:
    """Something to do once other commands are done."""

    run: Callable[[], None]
    after: Sequence[_Command] = ()
    done: bool = False

    @property
    def is_ready(self) -> bool:
        return all(command.done for command in self.after)


@dataclass(eq=False, slots=True)
class _Stretch:
    """Some probes of a batch: the pairs that they find, as row numbers first and then as columns."""

    window: StreamWindow
    probing: KeyedBatch
    matches: list[Match] = field(default_factory=list)
    own: Columns = field(default_factory=list)
    stored: Columns = field(default_factory=list)

    def probe(self) -> None:
        self.matches = list(self.window.probe(self.probing))

    def gather_own(self) -> None:
        if self.matches:
            self.own = gather_probing(self.probing, self.matches)

    def gather_stored(self) -> None:
        if self.matches:
            self.stored = gather_stored(self.matches)

    def pairs(self, layout: Layout) -> list[pa.Table]:
        if not self.matches:
            return []
        return [layout.table(self.probing.side, self.own, self.stored)]


class _Round:
    """The commands of a push, in an order in which they could be carried out one by one."""

    def __init__(self, commands: Sequence[_Command]) -> None:
        self._changed = threading.Condition()
        self._commands = list(commands)

    def work(self) -> None:
        """Carry out commands until all have been taken: the first that need not wait for others."""
        try:
            while (command := self._claim()) is not None:
                command.run()
                with self._changed:
                    command.done = True
                    self._changed.notify_all()
        except BaseException:
            with self._changed:
                self._commands.clear()  # the round has failed
                self._changed.notify_all()
            raise

    def _claim(self) -> _Command | None:
        with self._changed:
            while self._commands:
                for command in self._commands:
                    if command.is_ready:
                        self._commands.remove(command)
                        return command
                self._changed.wait()
            return None


def _take_part(_: int, round_: _Round) -> None:
    round_.work()


class PanJoin(WholeWindows):
    """The manager, and the windows whose subwindows the commands are about."""

    keeps_order: ClassVar[bool] = False

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        wanted = layout.plan.structure
        self._scans = scans = wanted != "auto" and STRUCTURES[wanted].scans
        verifies = layout.plan.residual is not None
        self._least_probes = 1 if scans else LEAST_PROBES
        self._least_stretch = self._least_probes if scans or verifies else LEAST_STRETCH
        self._most_stretches = layout.cores if scans or verifies else MOST_STRETCHES
        self._crew = Crew()
        self._workers = [
            self._crew.hire(f"watersmeet worker {number}", _take_part) for number in range(1, layout.cores)
        ]

    def push(self, part: Slice) -> list[pa.Table]:
        """Carry out one batch of each stream."""
        left, right = part.left, part.right
        most = self._stretches(len(left), len(right))
        stretches = self._cut(left, most), self._cut(right, most)
        self._process(self._commands(left, right, *stretches), sum(map(len, stretches)), max(len(left), len(right)))
        return [table for some in stretches for stretch in some for table in stretch.pairs(self._layout)]

    def _commands(
        self, left: KeyedBatch, right: KeyedBatch, left_stretches: list[_Stretch], right_stretches: list[_Stretch]
    ) -> list[_Command]:
        """Return the commands for a push; see the module's header for what waits for what.

        They are taken in this order. Two workers each sort a batch and then probe with it, while their cache still has
        it. What nothing waits for comes last, in small pieces, so that all workers are done at about the same time.
        """
        for batch in (left, right):
            self._windows[batch.side].announce(batch)
        sort_left, sort_right = (_Command(partial(self._sort, batch)) for batch in (left, right))
        left_probes = [_Command(stretch.probe, [sort_left]) for stretch in left_stretches]
        left_insertion = _Command(partial(self._insert, left), [sort_left, sort_right])  # both look at its window
        right_probes = [_Command(stretch.probe, [left_insertion]) for stretch in right_stretches]
        right_insertion = _Command(partial(self._insert, right), [sort_right, *left_probes])
        commands = [sort_left, sort_right, *left_probes, left_insertion, *right_probes, right_insertion]
        probed = [*zip(left_stretches, left_probes, strict=True), *zip(right_stretches, right_probes, strict=True)]
        commands += [_Command(stretch.gather_stored, [probe]) for stretch, probe in probed]
        commands += [_Command(stretch.gather_own, [probe]) for stretch, probe in probed]
        return commands

    def _stretches(self, left: int, right: int) -> int:
        """Return into how many stretches each batch's probes are cut at most, so that cores get as much to do.

        Fewer are better: threads that return from short kernels wait for the interpreter's lock more often.
        """
        cores = self._layout.cores
        even = max(left, right) <= EVEN * min(left, right)
        return min(self._most_stretches, cores // 2 if even and cores % 2 == 0 else cores)

    def _sort(self, batch: KeyedBatch) -> None:
        """Step 2: sort a batch, by all orders in which it will be looked up."""
        for segment in self._windows[OTHER_SIDE[batch.side]].segments:
            batch.probes(segment.choice.order)
        own = self._windows[batch.side].segments
        if own:
            batch.sorted(own[-1].choice.order)

    def _cut(self, batch: KeyedBatch, most: int) -> list[_Stretch]:
        """Cut a batch's probes into stretches, at most so many; more if they are long scans."""
        window = self._windows[OTHER_SIDE[batch.side]]
        count = max(1, min(most, len(batch) // self._least_stretch))
        cores = self._layout.cores
        if self._scans and cores > 1:
            count = max(count, min(SCANS_PER_CORE * cores, len(batch), len(batch) * window.rows // LONG_SCAN))
        return [_Stretch(window, batch.portion(number, count)) for number in range(count)]

    def _process(self, commands: list[_Command], at_once: int, rows: int) -> None:
        """Give the commands for so many rows to workers, take part and wait (steps 3 and 4)."""
        round_ = _Round(commands)
        helpers = self._workers[: at_once - 1] if rows >= self._least_probes else []
        for worker in helpers:
            worker.put(round_)
        round_.work()
        if helpers:
            self._crew.wait_until_quiet()

    def close(self) -> None:
        """End the workers."""
        self._crew.close()
