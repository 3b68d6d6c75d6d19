"""The process of one tree of the package: a join whose windows are full, fed turn by turn.

``python -m benchmarks.push_worker NAME TASK`` fills the windows and prints which package it has imported. For each line
that it reads it takes a turn of large pushes and one of small ones, into the same windows, and prints what they took.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TypedDict

import watersmeet as wm
from benchmarks.feed import Feed, Timed

__all__ = ["PushTask", "PushTurn", "Pushes"]


class PushTask(TypedDict):
    """What the process is told: sizes in rows, and how many pushes are a turn."""

    window: int
    seed: int
    batch: int
    pushes: int
    small_batch: int
    small_pushes: int


class Pushes(TypedDict):
    """Pushes of one size: the seconds of each, processor seconds and pairs of all."""

    seconds: list[float]
    cpu_seconds: float
    pairs: int


class PushTurn(TypedDict):
    """One turn."""

    large: Pushes
    small: Pushes


def _pushes(timed: Timed) -> Pushes:
    return {"seconds": timed.each, "cpu_seconds": timed.cpu_seconds, "pairs": timed.pairs}


def _take_turn(feed: Feed, task: PushTask) -> PushTurn:
    large = feed.timed(task["pushes"])
    feed.cut_into(task["small_batch"])
    small = feed.timed(task["small_pushes"])
    feed.cut_into(task["batch"])
    return {"large": _pushes(large), "small": _pushes(small)}


def run(task: PushTask) -> None:
    """Fill the windows, then take a turn for each line read."""
    feed = Feed(task["window"], task["batch"], task["seed"])
    feed.prefill(lambda _: None)
    print(json.dumps(str(Path(wm.__file__).parent)), flush=True)
    for _ in sys.stdin:
        print(json.dumps(_take_turn(feed, task)), flush=True)


if __name__ == "__main__":
    run(json.loads(sys.argv[2]))
