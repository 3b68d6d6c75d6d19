"""The ring on threads: stages with bounded buffers that work at the same time (Circular-MJ, section II-C).

Every thread has some of the stages and an inbox with two lanes, the paper's StageBuffer and distribution chain: partial
results go before new rows. What passes through a stage is offered to the thread of the next stage.

*No deadlock, nothing dropped.* In a ring of full buffers every stage would wait for itself. The paper drops an
intermediate result then. Here a thread that finds its neighbour's lane full continues with that portion itself, depth
first. So no thread ever waits to send, memory stays bounded, and nothing is lost. Only the caller, from whom new rows
come, waits for room.

*Two phases.* A push first stores all its rows, each stage on its own thread, and then lets them pass through. Rows that
were stored too early are excluded by number (*refine*, see :mod:`watersmeet.engine.multiway.stage`). While rows pass
through, nothing is written, so any thread may work on any stage without a lock. Only the caller writes to the stash at
that time, and only rows that it sends afterwards read from it.
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
from watersmeet.spec.expression import StreamName

__all__ = ["Ring"]

CAPACITY: Final = 4
"""Messages in one lane: few, so that idle threads get some, and busy threads do the rest themselves."""
PART: Final = 1 << 12
"""New rows in one message."""
INTERMEDIATE: Final = 0
NEW: Final = 1

_Message = Block | tuple[Partials, Steps]
"""Rows to store, or partial results and the steps that are left for them."""


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
        self._inbox: dict[StreamName, Inbox[_Message]] = {
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
        for block in sorted(blocks, key=lambda block: block.stream not in stashed):  # stashed streams go first
            parts = [block] if block.stream in stashed else block.parts(PART)
            for part in parts:
                for partials, steps in strategy.starts(part):
                    self._inbox[steps[0].streams[0]].put((partials, steps), NEW)
        self._crew.wait_until_quiet()
        for passage in self._passages:  # only now, so that decisions do not depend on timing
            strategy.note(*passage)
        for block in blocks:
            strategy.count(block)
        return self._results

    def close(self) -> None:
        """Stop all threads."""
        self._crew.close()

    def _handle(self, _lane: int, message: _Message) -> None:
        if isinstance(message, Block):
            self._strategy.stages.index(message)
        else:
            self._follow(*message)

    def _follow(self, partials: Partials, steps: Steps) -> None:
        """Take one step and offer its portions to the next stage, or continue here if that stage's lane is full."""
        passage = Passage()
        rest = steps[1:]
        for portion in self._strategy.pass_through(partials, steps[0], passage):
            if not rest:
                self._results.append(self._strategy.stages.gather(portion))
            elif not self._inbox[rest[0].streams[0]].offer((portion, rest), INTERMEDIATE):
                self._follow(portion, rest)
        self._passages.append((partials, steps[0], passage))
