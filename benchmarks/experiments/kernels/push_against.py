"""``StreamJoin.push`` of this tree against that of an older one: the same rows, a process each, turn by turn.

Large pushes are those of the experiment ``push``; small ones, which go into the same full windows, show what a push
costs by itself. Which tree goes first changes with every turn. The numbers of pairs must agree in each.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final, Literal, cast

import numpy as np

from benchmarks.experiment import NO_SLOWER, Context, DisagreementError, Experiment, median
from benchmarks.process import Worker
from benchmarks.push_worker import PushTask, PushTurn
from benchmarks.report import Cell, Description, Goal, Result, Table

__all__ = ["EXPERIMENT"]

SEED: Final = 40
WINDOW: Final = 8 << 20
BATCH: Final = 1 << 15
SMALL_BATCH: Final = 256
SMALL_PUSHES: Final = 1 << 10
TURNS: Final = 9
SEGMENTS: Final = 2
NOW: Final = "this tree"
BEFORE: Final = "older tree"
KINDS: Final[tuple[Literal["large", "small"], ...]] = ("large", "small")
Turns = dict[str, list[PushTurn]]


def run(context: Context) -> Result:
    """Fill the windows of both, then let them take turns."""
    assert context.before is not None, "this experiment runs with an older tree only"
    window, batch = context.size(WINDOW), context.size(BATCH, BATCH // 16)
    turns = context.size(TURNS, 2)
    task: PushTask = {
        "window": window,
        "seed": SEED,
        "batch": batch,
        "pushes": max(1, window // SEGMENTS // batch),
        "small_batch": SMALL_BATCH,
        "small_pushes": context.size(SMALL_PUSHES, batch // SMALL_BATCH),
    }
    taken: Turns = {NOW: [], BEFORE: []}
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(Worker("benchmarks.push_worker", name, task, {}, tree))
            for name, tree in ((NOW, None), (BEFORE, context.before))
        }
        for name, worker in workers.items():
            context.progress.step(f"{name} fills windows of {window:,} rows")
            worker.wait_until_ready()
        for turn in range(turns + 1):
            context.progress.step(f"turn {turn} of {turns}" if turn else "warming up")
            for name in list(workers)[:: -1 if turn % 2 else 1]:
                workers[name].ask()
                taken[name].append(cast("PushTurn", workers[name].answer()))
                context.noted.append({"what": name, "turn": turn, **taken[name][-1]})
    _check(taken)
    return _report({name: some[1:] for name, some in taken.items()}, task, context.before)


def _check(taken: Turns) -> None:
    found = {name: [turn[kind]["pairs"] for turn in some for kind in KINDS] for name, some in taken.items()}
    if found[NOW] != found[BEFORE]:
        raise DisagreementError(f"the numbers of pairs of the turns differ: {found}")


def _report(taken: Turns, task: PushTask, before: Path) -> Result:
    sizes = {"large": task["batch"], "small": task["small_batch"]}
    lines: list[tuple[Cell, ...]] = []
    goals, notes = [], []
    for kind in KINDS:
        seconds = {name: [sum(turn[kind]["seconds"]) for turn in some] for name, some in taken.items()}
        processor = {name: median([turn[kind]["cpu_seconds"] for turn in some]) for name, some in taken.items()}
        rows = 2 * sizes[kind] * len(taken[NOW][0][kind]["seconds"])
        for name, some in taken.items():
            slow = np.quantile([push for turn in some for push in turn[kind]["seconds"]], [0.5, 0.99]) * 1000
            rate = rows / median(seconds[name])
            of_older = median(seconds[name]) / median(seconds[BEFORE])
            line = (name, sizes[kind], rate, of_older, processor[name] / processor[BEFORE])
            lines.append((*line, float(slow[0]), float(slow[1]), some[0][kind]["pairs"]))
        each = [now / then for now, then in zip(seconds[NOW], seconds[BEFORE], strict=True)]
        notes.append(
            f"pushes of {sizes[kind]:,} rows a side, turn by turn, time of this tree to the older: {min(each):.3f} to"
            f" {max(each):.3f}, median {median(each):.3f}"
        )
        what = f"time of pushes of {sizes[kind]:,} rows a side, this tree against the older one"
        ratio = median(seconds[NOW]) / median(seconds[BEFORE])
        goals.append(Goal(what, ratio, NO_SLOWER, at_least=False))
    columns = ("tree", "rows a side", "rows/s", "time to the older", "processor time", "ms a push", "99th", "pairs")
    title = f"pushes into windows of {task['window']:,} rows a side, one thread"
    note = f"medians of {len(taken[NOW])} turns; older tree: {before}"
    runs: list[dict[str, object]] = [{"what": name, **turn} for name, some in taken.items() for turn in some]
    return Result(tables=[Table(title, columns, lines, note)], goals=goals, notes=notes, runs=runs)


EXPERIMENT: Final = Experiment(
    "push_against",
    Description(
        purpose="rows a second of StreamJoin.push against an older tree of the package in one run",
        seed=SEED,
        shape="window 8M rows a side, batches of 32K and of 256 rows a side; int64 keys uniform in 2^31, a timestamp"
        " per microsecond, 8 bytes of payload; pairs materialised",
        expected="about one pair per row, the same pairs; at most 1.05 times the older tree's time",
    ),
    run,
)
