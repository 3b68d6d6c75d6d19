"""PanJoin (section III-A): a manager gives commands, and workers carry them out on subwindows.

The five steps are: (1) *collect* rows, which the caller's pushes do, (2) *preprocess*: compute keys and sort each batch
once, (3) *send* the commands of a push, (4) *process* them, (5) *feed back* the pairs. The commands are ``create`` and
``insert`` (one for the newest subwindow) and ``probe`` (for the other stream's subwindows); ``expire`` comes from the
driver. Gathering the columns of pairs is a command too, one for each side. No command waits for it, so it fills the
time in which a worker would wait for another.

Departures. Workers share one memory, so any of them may work on any subwindow, and a window is not divided further for
their sake: each subwindow is one more that all probes must search.

*Commands that all workers carry out together.* This is the normal case. The manager, the caller's thread, gives one
command after the other, and each is a compiled function in which every worker takes stretches of the batch until none
is left (:mod:`watersmeet.kernels.team`). Workers run no Python between commands, so none waits for the interpreter, and
the manager is a worker too: on one core this is ``kang``. What a push returns does not depend on the workers' number.

*Commands that each one worker carries out.* They are for what is done in Python: structures other than sorted arrays,
rows that are held in chunks, predicates that keys do not decide, and results in another form than pairs. A batch's
sorted probes are divided, a stretch of keys for each command, and a free worker takes the next one. Gathering the
columns of pairs is a command too, one for each side; none waits for it, so it fills the time in which a worker would
wait for another. If an index alone answers a stretch, the Python around it is most of the work: such batches are cut
into few, long stretches.

Invariant: a command waits for the commands whose effects it must see, and for those that must not see its own. Right
rows probe the left window when the left batch is in it, and are inserted when all left rows have probed the right
window. So a pair of two new rows is found once, by the right row. Pairs may be gathered while their rows' window grows:
a match refers to the memory in which it found its rows, and that never changes. Results in portions (``pushes``) are
found in the caller's thread alone.

*Submitted slices.* A manager in a thread of its own carries out the slices that are submitted, one after the other.
A pushed slice is carried out by the caller, who waits for it anyway. On one core submitting a slice is joining it.
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
from watersmeet.engine.team import Team
from watersmeet.engine.threads import Crew, Inbox
from watersmeet.engine.topologies.contract import Layout
from watersmeet.engine.topologies.whole_windows import WholeWindows
from watersmeet.spec.expression import StreamName
from watersmeet.subwindow.choose import STRUCTURES
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.expiry import Bounds, Departed, expire
from watersmeet.window.plan import OTHER_SIDE
from watersmeet.window.stream_window import Match, StreamWindow

__all__ = ["PanJoin"]

MOST_SLICES: Final = 4
"""Slices that may wait for the manager before its caller does."""
LEAST_PROBES: Final = 2048
"""With fewer rows waking a thread does not pay, unless they scan."""
LEAST_STRETCH: Final = 1 << 14
MOST_STRETCHES: Final = 4
"""Limits for a batch that an index alone answers: with shorter or more stretches threads would wait too long for the
interpreter's lock."""
LONG_SCAN: Final = 1 << 24
"""Comparisons of a long scan: they take about 10 ms, compared with which the Python around them is little."""
SCANS_PER_CORE: Final = 2
"""Long scans of a batch per core: more than one, so that a core that other programs slow down gets fewer."""
EVEN: Final = 1.25
"""Two batches are about equally large if neither has more than this many times the other's rows."""


@dataclass(eq=False, slots=True)
class _Command:
    """Work to do once other commands are done."""

    run: Callable[[], None]
    after: Sequence[_Command] = ()
    done: bool = False

    @property
    def is_ready(self) -> bool:
        return all(command.done for command in self.after)


@dataclass(eq=False, slots=True)
class _Share:
    """A stretch of a batch's probes, and the pairs that they find: first as row numbers, then as columns.

    Results in another form than pairs are there when the stretch has probed.
    """

    layout: Layout
    window: StreamWindow
    probing: KeyedBatch
    matches: list[Match] = field(default_factory=list)
    own: Columns = field(default_factory=list)
    stored: Columns = field(default_factory=list)
    tables: list[pa.Table] = field(default_factory=list)

    def probe(self) -> None:
        if self.layout.form is None:
            self.matches = list(self.layout.wanted(self.probing, self.window.probe(self.probing)))
        else:
            self.tables = self.layout.results(self.window, self.probing)

    def gather_own(self) -> None:
        if self.matches:
            self.own = self.layout.own_columns(self.probing, self.matches)

    def gather_stored(self) -> None:
        if self.matches:
            self.stored = self.layout.stored_columns(self.probing, self.matches)

    def results(self) -> list[pa.Table]:
        if not self.matches:
            return self.tables
        return [self.layout.table(self.probing.side, self.own, self.stored)]


class _Round:
    """The commands of a push, in an order in which they could be carried out one by one."""

    def __init__(self, commands: Sequence[_Command]) -> None:
        self._changed = threading.Condition()
        self._commands = list(commands)

    def work(self) -> None:
        """Carry out commands until all have been taken; each time the first that need not wait for others."""
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
        self._shares = layout.cores == 1 or not (scans or verifies or layout.form is not None)
        self._team = Team(layout.cores if self._shares else 1)
        self._crew = Crew()
        self._beside = Crew()
        self._manager: Inbox[Slice | Bounds] = self._beside.hire(
            "watersmeet manager", self._manage, capacity=MOST_SLICES
        )
        self._workers = [
            self._crew.hire(f"watersmeet worker {number}", _take_part) for number in range(1, layout.cores)
        ]

    def submit(self, part: Slice) -> None:
        """Carry out one batch of each stream: beside the caller where there are workers."""
        if self._workers:
            self._manager.put(part)
        else:
            self._found.extend(self._carried_out(part))

    def push(self, part: Slice) -> list[pa.Table]:
        """Carry it out in the caller's thread, when those before it are done, and return the pairs."""
        self.settle()
        self._found.extend(self._carried_out(part))
        return self.poll()

    def _manage(self, _: int, message: Slice | Bounds) -> None:
        """Take the caller's place."""
        if isinstance(message, Slice):
            self._found.extend(self._carried_out(message))
        else:
            self._drop(message)

    def settle(self) -> None:
        """Wait until all that was submitted has been carried out."""
        self._beside.wait_until_quiet()

    @property
    def is_quiet(self) -> bool:
        """Whether all that was submitted has been carried out."""
        return self._beside.is_quiet

    def poll(self) -> list[pa.Table]:
        """Return what has been found, slice by slice."""
        self._beside.check()
        return super().poll()

    def expire(self, before: Bounds) -> dict[StreamName, list[Departed]]:
        """Drop what has expired, when the slices before have been carried out."""
        if self._beside.is_quiet:
            return self._drop(before)
        self._manager.put(before)
        return {side: [] for side in before}

    def _drop(self, before: Bounds) -> dict[StreamName, list[Departed]]:
        return expire({side: [self._windows[side]] for side in before}, before)

    def windows(self, side: StreamName) -> Sequence[StreamWindow]:
        """Return the one window of a side."""
        self._beside.rest()
        return super().windows(side)

    def _carried_out(self, part: Slice) -> list[pa.Table]:
        left, right = part.left, part.right
        if self._shares and all(window.shares_work for window in self._windows.values()):
            return self._shared(part)
        most = self._stretches(len(left), len(right))
        stretches = self._cut(left, most), self._cut(right, most)
        self._process(self._commands(left, right, *stretches), sum(map(len, stretches)), max(len(left), len(right)))
        self._have_met(part)
        return [table for some in stretches for stretch in some for table in stretch.results()]

    def _shared(self, part: Slice) -> list[pa.Table]:
        """Give the commands for a push one after the other, each to all workers (steps 2 to 5)."""
        found: list[pa.Table] = []
        if max(len(part.left), len(part.right)) >= self._least_probes:
            self._team.begin()
        for batch in (part.left, part.right):
            batch.team = self._team.address
            self._windows[batch.side].announce(batch)
        for batch in (part.left, part.right):
            found += self._layout.results(self._windows[OTHER_SIDE[batch.side]], batch)
            self._insert(batch)
        self._have_met(part)
        return found

    def _commands(
        self, left: KeyedBatch, right: KeyedBatch, left_stretches: list[_Share], right_stretches: list[_Share]
    ) -> list[_Command]:
        """Return the commands for a push; the module's header explains which commands wait for others.

        They are taken in this order. Two workers each sort a batch and then probe with it, while their cache still has
        it. Small commands that no other waits for come last, so all workers finish at about the same time.
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
        """Return the most stretches for each batch's probes, so that cores get equal work.

        Fewer are better, because threads that return from short kernels wait for the interpreter's lock more often.
        """
        cores = self._layout.cores
        even = max(left, right) <= EVEN * min(left, right)
        return min(self._most_stretches, cores // 2 if even and cores % 2 == 0 else cores)

    def _sort(self, batch: KeyedBatch) -> None:
        """Sort a batch in all orders in which it will probe and be inserted (step 2)."""
        for segment in self._windows[OTHER_SIDE[batch.side]].segments:
            for part in (segment, *segment.others):
                batch.probes(part.choice.order)
        own = self._windows[batch.side].segments
        if own:
            for part in (own[-1], *own[-1].others):
                batch.sorted(part.choice.order)

    def _cut(self, batch: KeyedBatch, most: int) -> list[_Share]:
        """Cut a batch's probes into at most ``most`` stretches, or into more if they are long scans."""
        window = self._windows[OTHER_SIDE[batch.side]]
        count = max(1, min(most, len(batch) // self._least_stretch))
        cores = self._layout.cores
        if self._scans and cores > 1:
            count = max(count, min(SCANS_PER_CORE * cores, len(batch), len(batch) * window.rows // LONG_SCAN))
        return [_Share(self._layout, window, batch.portion(number, count)) for number in range(count)]

    def _process(self, commands: list[_Command], at_once: int, rows: int) -> None:
        """Give the commands for ``rows`` rows to workers, take part, and wait (steps 3 and 4)."""
        round_ = _Round(commands)
        helpers = self._workers[: at_once - 1] if rows >= self._least_probes else []
        for worker in helpers:
            worker.put(round_)
        round_.work()
        if helpers:
            self._crew.wait_until_quiet()

    def close(self) -> None:
        """Stop the manager and the workers."""
        self._beside.close()
        self._crew.close()
        self._team.close()
