"""What an experiment is, what it is given, and how it takes times."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.report import Description, Progress, Result
from watersmeet import WatersmeetError

__all__ = [
    "NO_SLOWER",
    "Context",
    "DisagreementError",
    "Experiment",
    "cpu_seconds_of",
    "median",
    "seconds_of",
    "seconds_side_by_side",
]

NO_SLOWER: Final = 1.05
"""By how much two runs of the same code may differ on a machine that others use too."""


class DisagreementError(WatersmeetError):
    """Those compared found different numbers of pairs."""

    def __init__(
        self, given: str, allowed: str = "equal results", next_step: str = "report this, with the data and its seed"
    ) -> None:
        super().__init__(given, allowed, next_step)


@dataclass(frozen=True)
class Context:
    """What an experiment is given."""

    quick: bool
    progress: Progress
    data: Path | None = None
    """Folder of real data, where there is one."""
    before: Path | None = None
    """Folder of an older tree of the package, to be compared with this one."""
    noted: list[dict[str, object]] = field(default_factory=list)
    """What has been measured so far, for a run that is cut off."""

    def size(self, full: int, quick: int | None = None) -> int:
        """Return a size for this run: ``full``, or for a quick run ``quick`` (64 times smaller unless given)."""
        if not self.quick:
            return full
        return max(1, full // 64) if quick is None else quick


@dataclass(frozen=True)
class Experiment:
    """A named measurement that describes itself."""

    name: str
    description: Description
    run: Callable[[Context], Result]
    against: Experiment | None = None
    """What takes its place where ``Context.before`` is given; only experiments that have it can compare two trees."""


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long ``work`` takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def cpu_seconds_of(work: Callable[[], object]) -> float:
    """Return how much of the processor's time ``work`` takes, which other programs disturb less."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def seconds_side_by_side(work: Sequence[Callable[[], object]]) -> float:
    """Return how long several things take, each in a thread of its own."""
    threads = [threading.Thread(target=some) for some in work]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begin


def median(values: list[float]) -> float:
    """Return the median of some figures."""
    return float(statistics.median(values))
