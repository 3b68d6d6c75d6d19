"""A join that is fed batch after batch: the whole of ``StreamJoin.push``, timed push by push.

Both streams bring one row per microsecond, so a window of n rows is a time window of n microseconds. The band is so
wide that each row has about one match in the other window, or as many as are asked for. It is fed through what the
package makes public, so that a process with an older tree of the package can be fed the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from benchmarks.data import stream_rows
from watersmeet import StreamJoin, band, equal, time_window

if TYPE_CHECKING:  # an older tree may have them elsewhere
    from watersmeet.spec.kinds import How
    from watersmeet.spec.options import ResultForm, Structure, TopologyName

__all__ = ["KEY_RANGE", "Feed", "Pushed", "Timed", "band_width"]

KEY_RANGE: Final = 1 << 31
SEGMENTS_PER_WINDOW: Final = 2


def band_width(window: int, matches: int = 1) -> int:
    """Return the half-width of the band in which a row meets about so many of ``window`` rows."""
    return max(1, KEY_RANGE * matches // (2 * window))


@dataclass(frozen=True)
class Pushed:
    """One push: what it took, and what it gave."""

    seconds: float
    cpu_seconds: float
    pairs: pa.Table


@dataclass
class Timed:
    """Several pushes: the seconds of each, processor seconds and pairs of all."""

    each: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0
    pairs: int = 0

    @property
    def seconds(self) -> float:
        """The seconds of all."""
        return sum(self.each)


@dataclass
class Feed:
    """A join over two windows of ``window`` rows and where its streams stand."""

    window: int
    batch: int
    seed: int
    structure: Structure = "bi_sort"
    topology: TopologyName = "kang"
    cores: int = 1
    result: ResultForm = "pairs"
    matches: int = 1
    """Of a row, in a full window."""
    number: int = 0
    """The next batch of both streams."""
    by_equality: bool = False
    """Joined by an equality on as few keys as that takes, not by a band."""
    how: How = "inner"

    def __post_init__(self) -> None:
        self.key_range = self.window // self.matches if self.by_equality else KEY_RANGE
        schema = stream_rows("left", 0, 1, seed=0).schema
        given: dict[str, Any] = {} if self.result == "pairs" else {"result": self.result}  # older trees have no other
        if self.how != "inner":
            given["how"] = self.how
        self.join = StreamJoin(
            left=schema,
            right=schema,
            on=equal("key") if self.by_equality else band("key", "key", band_width(self.window, self.matches)),
            window=time_window(timedelta(microseconds=self.window), ts="ts"),
            topology=self.topology,
            structure=self.structure,
            cores=self.cores,
            **given,
        )

    @property
    def rotation(self) -> int:
        """Pushes in which a window gets one new subwindow and loses one: times over fewer would miss some work."""
        return max(1, self.window // SEGMENTS_PER_WINDOW // self.batch)

    def cut_into(self, batch: int) -> None:
        """Go on with batches of so many rows."""
        fed = self.number * self.batch
        assert fed % batch == 0, "batches are numbered, and all before have the same size"
        self.batch, self.number = batch, fed // batch

    def push(self) -> Pushed:
        """Push the next batch of both streams."""
        left = stream_rows("left", self.number, self.batch, seed=self.seed, key_range=self.key_range)
        right = stream_rows("right", self.number, self.batch, seed=self.seed, key_range=self.key_range)
        begin, cpu = time.perf_counter(), time.process_time()
        pairs = self.join.push(left=left, right=right)
        seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu
        self.number += 1
        return Pushed(seconds, cpu_seconds, pairs)

    def prefill(self, say: Callable[[str], None]) -> None:
        """Push until the windows are full and subwindows come and go steadily: two window lengths."""
        total = 2 * self.rotation * SEGMENTS_PER_WINDOW + 2
        for count in range(total):
            if count % 16 == 0:
                say(f"filling windows of {self.window:,} rows: push {count} of {total}")
            self.push()

    def timed(self, pushes: int) -> Timed:
        """Push so many times."""
        timed = Timed()
        for _ in range(pushes):
            pushed = self.push()
            timed.each.append(pushed.seconds)
            timed.cpu_seconds += pushed.cpu_seconds
            timed.pairs += pushed.pairs.num_rows
        return timed
