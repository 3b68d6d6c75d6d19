"""Production delay while a hot key is shared out: measured micro-batches, and rows that come at a steady rate.

The paper on shared-nothing clusters measures how long after its later row a pair is produced, and moves stored rows to
relieve a core. Ours waits until they have expired. Here one key has half of all rows from the start, on the cluster of
:mod:`benchmarks.experiments.spark.hot_key`, balanced and not. The window is a little longer than a reorganisation
epoch, so relief begins after the first epoch and is complete a window later.

How long each micro-batch takes is measured. The delay follows from it: rows come at a steady rate, a micro-batch takes
those of an interval, and begins when the one before is done. The interval is what the balanced query needs in the end,
and a tenth more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.contestant import Arena, MicroBatch
from benchmarks.experiment import Context, DisagreementError, Experiment, median
from benchmarks.experiments.spark.hot_key import enter_cluster
from benchmarks.report import Description, Figure, Goal, Panel, Result, Series, Table

__all__ = ["EXPERIMENT", "delays"]

SEED: Final = 89
HOT: Final = 0.5
BATCH: Final = 3_000
WINDOW_BATCHES: Final = 12
BATCHES: Final = 36
EPOCH_AND_LEAD: Final = 13
ROOM: Final = 1.1
LESS_DELAY: Final = 1.5
WAYS: Final = ("off", "auto")


def run(context: Context) -> Result:
    """Let both ways take the same micro-batches, one after the other."""
    batch, count = context.size(BATCH, BATCH // 6), context.size(BATCHES, 3)
    with Arena.open(context, seed=SEED, block=batch, hot=HOT, key_range=1 << 31) as arena:
        contestants = {way: enter_cluster(arena, way, WINDOW_BATCHES * batch) for way in WAYS}
        taken = {way: contestant.take([batch] * count) for way, contestant in contestants.items()}
    found = {way: sum(one["pairs"] for one in some) for way, some in taken.items()}
    if len(set(found.values())) > 1:
        raise DisagreementError(f"the numbers of pairs differ: {found}")
    return _report(taken)


def delays(seconds: Sequence[float], interval: float) -> list[float]:
    """Return the mean delay of each micro-batch's rows, which come during an interval each."""
    found, waiting = [], 0.0
    for took in seconds:
        found.append(interval / 2 + waiting + took)
        waiting = max(0.0, waiting + took - interval)
    return found


def _report(taken: dict[str, list[MicroBatch]]) -> Result:
    seconds = {way: [one["seconds"] for one in some] for way, some in taken.items()}
    third = max(1, len(seconds["auto"]) // 3)
    interval = ROOM * median(seconds["auto"][-third:])
    delayed = {way: delays(some[1:], interval) for way, some in seconds.items()}  # the first one starts Python
    parts = {"before": slice(0, EPOCH_AND_LEAD), "window after": slice(EPOCH_AND_LEAD, EPOCH_AND_LEAD + WINDOW_BATCHES)}
    parts["then"] = slice(EPOCH_AND_LEAD + WINDOW_BATCHES, None)
    return Result(
        tables=[
            Table(
                f"micro-batches every {interval:.2f} s, one key with half of {BATCH:,} rows a side",
                ("balance", "when", "median micro-batch (s)", "last delay (s)", "most over mean pairs"),
                [
                    (way, name, median(seconds[way][1:][part]), delayed[way][part][-1], _spread(taken[way][1:][part]))
                    for way in WAYS
                    for name, part in parts.items()
                    if delayed[way][part]
                ],
                "a decision takes effect after 13 micro-batches; relief is complete a window of 12 later",
            )
        ],
        figures=[
            Figure(
                "cluster_delay",
                "Production delay on two workers, one hot key",
                [
                    Panel(
                        f"rows at a steady rate, a micro-batch every {interval:.2f} s",
                        "micro-batches",
                        "production delay (s)",
                        [
                            Series(f'balance="{way}"', list(map(float, range(len(some)))), some)
                            for way, some in delayed.items()
                        ],
                        x_log=False,
                        y_log=False,
                    )
                ],
            )
        ],
        goals=[
            Goal(
                "last production delay, not balanced against balanced",
                delayed["off"][-1] / delayed["auto"][-1],
                LESS_DELAY,
                at_least=True,
            )
        ],
        runs=[{"balance": way, **one} for way, some in taken.items() for one in some],
    )


def _spread(batches: Sequence[MicroBatch]) -> float:
    """Return how many times the mean the core with most pairs found, at the median."""
    found = [[core["pairs"] for core in one["cores"] if core["rows_in"]] for one in batches]
    return median([max(pairs) * len(pairs) / max(1, sum(pairs)) for pairs in found])


EXPERIMENT: Final = Experiment(
    "cluster_delay",
    Description(
        purpose="production delay while a hot key is shared out by waiting, on a standalone cluster of two workers",
        seed=SEED,
        shape="2 workers of one core; equal keys, one with half of all rows; micro-batches of 3,000 rows a side, window"
        " of 12 of them; noop sink",
        expected="the delay of the balanced query falls within a window of the first decision; the other's grows on",
    ),
    run,
)
