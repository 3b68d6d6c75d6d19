"""The ring on threads: stages with bounded buffers that work side by side (Circular-MJ, section II-C).

Every thread has some of the stages and an inbox with two lanes, the paper's StageBuffer and distribution chain: partial
results go before new rows. What passes through a stage is offered to the next one's thread.

*No deadlock, nothing dropped.* In a ring of full buffers every stage would wait for itself. The paper drops an
intermediate result then; here a thread whose neighbour's lane is full goes on with that portion itself, depth first.
So no thread ever waits to send, what is held stays bounded, and nothing is lost. Only the caller, the source of new
rows, waits for room.

*Two phases.* A push first stores all its rows, each stage on its own thread, and then lets them pass through. What
is stored prematurely is dropped by number (*refine*, see :mod:`watersmeet.engine.multiway.stage`), and while rows pass
through, nothing is written, so any thread may help with any stage without a lock. Only the stash is written meanwhile,
by the caller, and read only by rows that it sends afterwards.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from watersmeet.engine.intake import Arrived
from watersmeet.engine.multiway.block import Block
from watersmeet.engine.multiway.circular import Circular, Steps
from watersmeet.engine.multiway.partial import Partials
from watersmeet.engine.multiway.stage import Passage, Step
from watersmeet.engine.multiway.stashed import Stashed
from watersmeet.engine.threads import Crew, Inbox
from watersmeet.spec.expression import Side

__all__ = ["Ring"]

CAPACITY: Final = 4
"""Messages in one lane: few, so that threads which have nothing to do get some, and others help themselves."""
PART: Final = 1 << 12
"""New rows in one message."""
INTERMEDIATE: Final = 0
NEW: Final = 1

_Message = Block | tuple[Partials, Steps]
"""Rows to store, or partial results and the steps they still have to take."""


class Ring:
    """Runs a strategy on threads."""

    def __init__(self, strategy: Circular, cores: int) -> None:
        self._strategy = strategy
        self._crew = Crew()
        inboxes: list[Inbox[_Message]] = [
            self._crew.hire(f"watersmeet ring {number}", self._handle, lanes=2, capacity=CAPACITY, ranked=True)
            for number in range(cores)
        ]
        streams = strategy.stages.plan.streams
        self._inbox: dict[Side, Inbox[_Message]] = {
            stream: inboxes[number % cores] for number, stream in enumerate(streams)
        }
        self._results: list[pa.Table] = []
        self._passages: list[tuple[Partials, Step, Passage]] = []

    def push(self, arrived: Arrived) -> list[pa.Table]:
        """Join rows that arrive together; return the results found."""
        strategy = self._strategy
        self._results, self._passages = [], []
        blocks = list(strategy.stages.enter_all(arrived))
        for block in blocks:
            self._inbox[block.stream].put(block, NEW)
        self._crew.wait_until_quiet()
        stash = strategy.stash if isinstance(strategy, Stashed) else None
        stashed = () if stash is None else stash.streams
        for block in sorted(blocks, key=lambda block: block.stream not in stashed):  # these fill the stash
            parts = [block] if block.stream in stashed else block.parts(PART)
            for part in parts:
                for partials, steps in strategy.starts(part):
                    self._inbox[steps[0].streams[0]].put((partials, steps), NEW)
        self._crew.wait_until_quiet()
        for passage in self._passages:  # only now, so that what is decided does not depend on timing
            strategy.note(*passage)
        for block in blocks:
            strategy.count(block)
        return self._results

    def close(self) -> None:
        """End all threads."""
        self._crew.close()

    def _handle(self, _lane: int, message: _Message) -> None:
        if isinstance(message, Block):
            self._strategy.stages.index(message)
        else:
            self._follow(*message)

    def _follow(self, partials: Partials, steps: Steps) -> None:
        """Take one step, and hand on what it leads to; or go on with it, where the next stage's lane is full."""
        passage = Passage()
        rest = steps[1:]
        for portion in self._strategy.pass_through(partials, steps[0], passage):
            if not rest:
                self._results.append(self._strategy.stages.gather(portion))
            elif not self._inbox[rest[0].streams[0]].offer((portion, rest), INTERMEDIATE):
                self._follow(portion, rest)
        self._passages.append((partials, steps[0], passage))
