"""Many streams in this process: generated rows, a strategy over full windows, and what it took."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.engine.intake import Intake
from watersmeet.engine.multiway.circular import Circular, Steps
from watersmeet.engine.multiway.partial import Partials
from watersmeet.engine.multiway.plan import plan_streams
from watersmeet.engine.multiway.ring import Ring
from watersmeet.engine.multiway.stage import Passage, Stages, Step
from watersmeet.engine.multiway.stashed import Stashed
from watersmeet.spec.expression import StreamName
from watersmeet.spec.streams import read_predicate
from watersmeet.spec.window import count_window, windows_of

__all__ = ["Counted", "Feed", "ManyStreams", "chain", "names_of"]

NAMES: Final = "abcdefgh"


def names_of(streams: int) -> tuple[StreamName, ...]:
    """Return the names of so many streams."""
    return tuple(NAMES[:streams])


def chain(streams: int) -> str:
    """Return the condition that neighbours have equal keys."""
    names = names_of(streams)
    return " AND ".join(f"{left}.x = {right}.x" for left, right in pairwise(names))


@dataclass(frozen=True)
class Feed:
    """What was fed: seconds, rows of all streams, results."""

    seconds: float
    rows: int
    results: int

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds


class Counted(Circular):
    """A ring that counts the partial results which pass through its stages."""

    probing: int = 0

    def note(self, partials: Partials, step: Step, passage: Passage) -> None:
        """Take note of what a step has shown."""
        super().note(partials, step, passage)
        self.probing += passage.probing


class ManyStreams:
    """A join of streams with columns ``x``, ``y`` and ``z``, uniform over as many values as ``values`` says.

    A name with a stream's before it, ``c.x``, says so for that stream alone.
    """

    def __init__(
        self,
        streams: int,
        on: str,
        window: int,
        values: dict[str, int],
        seed: int,
        *,
        strategy: str,
        cores: int = 1,
        closes: bool = True,
    ) -> None:
        names = names_of(streams)
        self.schema = pa.schema([(column, pa.int64()) for column in values if "." not in column])
        plan = plan_streams(
            dict.fromkeys(names, self.schema),
            read_predicate(on, names),
            windows_of(count_window(window), names),
            "auto",
            closes=closes,
        )
        self.intake = Intake(plan)
        stages = Stages(plan)
        self.strategy = self._strategy(stages, strategy)
        self._engine = self.strategy if cores == 1 else Ring(self.strategy, cores)
        self._values = values
        self._random = np.random.default_rng(seed)
        self._window = window

    @staticmethod
    def _strategy(stages: Stages, strategy: str) -> Circular:
        if strategy == "circular":
            return Counted(stages)
        name, _, capacity = strategy.partition(":")
        return Stashed(stages, int(capacity or 1 << 20), always=name == "stashed")

    def fix(self, orders: dict[StreamName, Steps]) -> None:
        """Let rows take these steps, whatever is measured."""
        self.strategy.orders.fixed = orders

    def fill(self, batch: int) -> None:
        """Push until all windows are full, and one batch more."""
        self.feed(-(-self._window // batch) + 1, batch)

    def feed(self, pushes: int, batch: int) -> Feed:
        """Push so many rows of every stream so often, rows made before the clock starts."""
        seconds, rows, results = 0.0, 0, 0
        for _ in range(pushes):
            tables = {stream: self._rows(stream, batch) for stream in self.intake.streams.schemas}
            begin = time.perf_counter()
            accepted = self.intake.accept(tables)
            for arrived in accepted.slices:
                results += sum(table.num_rows for table in self._engine.push(arrived))
            self.intake.progress = accepted.progress
            seconds += time.perf_counter() - begin
            rows += sum(table.num_rows for table in tables.values())
        return Feed(seconds, rows, results)

    def close(self) -> None:
        """End all threads."""
        if isinstance(self._engine, Ring):
            self._engine.close()

    def _rows(self, stream: StreamName, count: int) -> pa.Table:
        values = {name: self._values.get(f"{stream}.{name}", self._values[name]) for name in self.schema.names}
        columns = {name: self._random.integers(0, own, count) for name, own in values.items()}
        return pa.table(columns, schema=self.schema)
