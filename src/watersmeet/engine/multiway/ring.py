"""The ring on threads: stages with bounded buffers that work side by side (sections II-C and III).

Every thread has some of the stages and an inbox with two lanes, the paper's StageBuffer and distribution chain: partial
results go before new rows. What passes through a stage is offered to the thread of the next stage.

*No deadlock, nothing dropped.* In a ring of full buffers every stage would wait for itself. The paper drops an
intermediate result then. Here a thread that finds its neighbour's lane full continues with that portion itself, depth
first. So no thread ever waits to send, memory stays bounded, and nothing is lost. Only the caller, from whom new rows
come, waits for room.

*Circular-MJ: two phases.* A push first stores all its rows, each stage on its own thread, and then lets them pass
through. What is stored prematurely is dropped by number (*refine*, see :mod:`watersmeet.engine.multiway.stage`), and
while rows pass through, nothing is written, so any thread may help with any stage without a lock.

*Stashed-MJ: turn by turn.* No row passes through its own stage. So in a block's turn its rows are stored there by the
caller, beside the threads that share the processing. The two streams of the stash have their turns first: that is the
paper's first stage. Their pairs go on at once, to the stages of the other streams, which are the second, and into the
stash, which the caller writes in the next turn, beside the threads again. Then come the rows that look into it. Expiry
waits for the end of the push, with the driver: while threads work they may read any row, also of a block's own stream.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from typing import Final

import pyarrow as pa

from watersmeet.engine.intake import Arrived
from watersmeet.engine.multiway.block import Block
from watersmeet.engine.multiway.circular import Circular, Steps
from watersmeet.engine.multiway.partial import Partials
from watersmeet.engine.multiway.stage import Passage, Step
from watersmeet.engine.multiway.stash import Stash
from watersmeet.engine.multiway.stashed import Stashed
from watersmeet.engine.threads import Crew, Inbox
from watersmeet.spec.expression import StreamName

__all__ = ["Ring"]

CAPACITY: Final = 4
"""Messages in one lane: few, so that idle threads get some, and busy threads do the rest themselves."""
PART: Final = 1 << 12
"""New rows in one message."""
SMALLEST_SHARE: Final = 1 << 11
"""New rows that are worth a message where threads share a block."""
INTERMEDIATE: Final = 0
NEW: Final = 1

_Message = Block | tuple[Partials, Steps]
"""Rows to store, or partial results and the steps that are left for them."""


class Ring:
    """Runs a strategy on threads."""

    def __init__(self, strategy: Circular, cores: int) -> None:
        self._strategy = strategy
        self._crew = Crew()
        self._inboxes: list[Inbox[_Message]] = [
            self._crew.hire(f"watersmeet ring {number}", self._handle, lanes=2, capacity=CAPACITY, ranked=True)
            for number in range(cores)
        ]
        self._inbox: dict[StreamName, Inbox[_Message]] = dict(
            zip(strategy.orders.wiring or strategy.stages.plan.streams, cycle(self._inboxes), strict=False)
        )
        self._results: list[pa.Table] = []
        self._passages: list[tuple[Partials, Step, Passage]] = []
        self._stashed: frozenset[StreamName] = frozenset()
        self._pairs: list[Partials] = []

    def push(self, arrived: Arrived) -> list[pa.Table]:
        """Join rows that arrive together; return the results found."""
        strategy = self._strategy
        self._results, self._passages = [], []
        if isinstance(strategy, Stashed) and strategy.stash is not None:
            blocks = self._turn_by_turn(strategy, strategy.stash, arrived)
        else:
            blocks = self._in_two_phases(arrived)
        for passage in self._passages:  # only now, so that what is decided does not depend on timing
            strategy.note(*passage)
        for block in blocks:
            strategy.count(block)
        return self._results

    def _in_two_phases(self, arrived: Arrived) -> list[Block]:
        """Store all rows, then let them pass through; return them."""
        self._stashed = frozenset()
        blocks = list(self._strategy.stages.enter_all(arrived))
        for block in blocks:
            self._inbox[block.stream].put(block, NEW)
        self._crew.wait_until_quiet()
        for block in blocks:
            for part in block.parts(PART):
                for partials, steps in self._strategy.starts(part):
                    self._inbox[steps[0].streams[0]].put((partials, steps), NEW)
        self._crew.wait_until_quiet()
        return blocks

    def _turn_by_turn(self, strategy: Stashed, stash: Stash, arrived: Arrived) -> list[Block]:
        """Store each stream's rows while they pass through the other stages; return them."""
        self._stashed = frozenset(stash.streams)
        ranked = sorted(arrived.rows.items(), key=lambda entry: entry[0] not in stash.streams)
        blocks: list[Block] = []
        pairs: list[Partials] = []
        for block in strategy.stages.enter_all(replace(arrived, rows=dict(ranked))):
            if block.stream not in stash.streams:
                pairs = self._fill(stash, blocks, pairs)
            share = min(PART, max(SMALLEST_SHARE, len(block) // len(self._inboxes)))
            starts = [start for part in block.parts(share) for start in strategy.starts_apart(part)]
            room = CAPACITY * len(self._inboxes)
            self._send(starts[:room])
            strategy.stages.index(block)
            self._fill(stash, blocks, pairs)
            self._send(starts[room:])
            self._crew.wait_until_quiet()
            blocks.append(block)
            pairs, self._pairs = self._pairs, []
        self._fill(stash, blocks, pairs)
        return blocks

    def _send(self, starts: list[tuple[Partials, Steps]]) -> None:
        """Let the threads share what begins here."""
        for start, inbox in zip(starts, cycle(self._inboxes), strict=False):
            inbox.put(start, NEW)

    def _fill(self, stash: Stash, blocks: list[Block], pairs: list[Partials]) -> list[Partials]:
        """Stash the pairs that the last block has found, in the order of its rows; return what is left: none."""
        for number, some in enumerate(sorted(pairs, key=lambda some: int(some.block.numbers[0]))):
            stash.add(blocks[-1], some, is_first=number == 0)
        return []

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
        is_first_stage = partials.bound < self._stashed
        for portion in self._strategy.pass_through(partials, steps[0], passage):
            if is_first_stage:
                self._pairs.append(portion)
            if not rest:
                self._results.extend(self._strategy.stages.tables(portion))
            elif not self._inbox[rest[0].streams[0]].offer((portion, rest), INTERMEDIATE):
                self._follow(portion, rest)
        self._passages.append((partials, steps[0], passage))
