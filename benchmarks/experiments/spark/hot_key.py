"""What balance gains where one key has half of all rows, and what it costs where keys are even.

On a real cluster: Spark's standalone mode, two workers of one core, each bound to a processor of its own. The query
without balance has a cluster of its own; both take turns, so that one runs while the other rests.

A hot key costs pairs: its rows meet each other, so pairs grow with the square of its rows. Here they are most of the
work, not the fixed cost of a micro-batch; and few enough that one executor alone can still hand them over in files (see
``spark/hand_over.py``), so that both queries take the same way. The balancer gets its first epoch in small
micro-batches; what is measured comes when the window has been filled anew since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.contestant import Arena, Contestant, MicroBatch, median_rate, median_seconds
from benchmarks.experiment import Context, DisagreementError, Experiment, median
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table
from benchmarks.standalone_cluster import StandaloneCluster

__all__ = ["EXPERIMENT", "enter_cluster"]

SEED: Final = 86
WORKERS: Final = 2
EPOCH_AND_LEAD: Final = 14
"""Micro-batches until what the balancer decides at the end of its first epoch is in effect."""
WARM_UP: Final = 1
FASTER: Final = 1.6
DEARER: Final = 1.03
WAYS: Final = ("off", "auto")


@dataclass(frozen=True)
class _Load:
    """Rows a side of the window and of micro-batches, and how often they are measured."""

    name: str
    hot: float
    window: int
    batch: int
    small_batch: int
    """While the balancer looks on."""
    turns: int
    batches: int


LOADS: Final = (
    _Load("one hot key", 0.5, window=16_000, batch=8_000, small_batch=250, turns=3, batches=3),
    _Load("even keys", 0.0, window=800_000, batch=400_000, small_batch=100_000, turns=5, batches=7),
)
QUICK_PART: Final = 10


def run(context: Context) -> Result:
    """Measure both loads, balanced and not, in turns."""
    measured = {load: _measure(context, load) for load in LOADS}
    hot, even = measured.values()
    gained = median_rate(hot["auto"]) / median_rate(hot["off"])
    cost = median_seconds(even["auto"]) / median_seconds(even["off"])
    lines: list[tuple[Cell, ...]] = [
        (
            load.name,
            way,
            median_rate(taken),
            median_rate(taken) / median_rate(ways["off"]),
            median_seconds(taken),
            sum(one["pairs"] for one in taken) / sum(one["rows"] for one in taken),
            median([_spread(one) for one in taken]),
        )
        for load, ways in measured.items()
        for way, taken in ways.items()
    ]
    panels = [
        Panel(
            load.name,
            "",
            "rows/s",
            [Series(f'balance="{way}"', [0.0], [median_rate(taken)]) for way, taken in ways.items()],
            bars=True,
        )
        for load, ways in measured.items()
    ]
    return Result(
        tables=[
            Table(
                f"rows/s on {WORKERS} workers of one core",
                ("keys", "balance", "rows/s", "to off", "s a micro-batch", "pairs a row", "most over mean pairs"),
                lines,
                "medians; the last column is of the pairs that each core found",
            )
        ],
        figures=[Figure("hot_key", "Balance on two workers", panels)],
        goals=[
            Goal("one hot key: rows/s balanced against not", gained, FASTER, at_least=True),
            Goal("even keys: time of a micro-batch balanced against not", cost, DEARER, at_least=False),
        ],
        runs=[
            {"what": load.name, "balance": way, **one}
            for load, ways in measured.items()
            for way, taken in ways.items()
            for one in taken
        ],
    )


def _measure(context: Context, load: _Load) -> dict[str, list[MicroBatch]]:
    batch, small = (context.size(n, n // QUICK_PART) for n in (load.batch, load.small_batch))
    window = context.size(load.window, load.window // QUICK_PART)
    measured: dict[str, list[MicroBatch]] = {way: [] for way in WAYS}
    key_range = window if not load.hot else 1 << 31
    with Arena.open(context, seed=SEED, block=small, hot=load.hot, key_range=key_range) as arena:
        contestants = {way: enter_cluster(arena, way, window) for way in WAYS}
        for contestant in contestants.values():
            contestant.take([small] * EPOCH_AND_LEAD + [batch] * -(-window // batch))
        for _ in range(context.size(load.turns, 1)):
            for way, contestant in contestants.items():
                measured[way] += contestant.turn(load.batches, batch, warm_up=WARM_UP)
    found = {way: sum(one["pairs"] for one in taken) for way, taken in measured.items()}
    if len(set(found.values())) > 1:
        raise DisagreementError(f"{load.name}: the numbers of pairs differ: {found}")
    return measured


def enter_cluster(arena: Arena, way: str, window: int) -> Contestant:
    """Start a cluster and a query on it."""
    cluster = arena.processes.enter_context(StandaloneCluster(arena.folder / f"cluster-{way}", memory="2g"))
    for processor in range(WORKERS):
        cluster.add_worker(processor=processor)
    cluster.await_workers()
    settings = cluster.settings("1g", executors=WORKERS)
    if way == "auto":
        settings["spark.watersmeet.balanceDir"] = str(arena.folder / "balance")
    return arena.enter("ours", window, condition="equality", memory="2g", settings=settings)


def _spread(batch: MicroBatch) -> float:
    """Return how many times the mean the core with most pairs found."""
    pairs = [core["pairs"] for core in batch["cores"] if core["rows_in"]]
    return max(pairs) * len(pairs) / max(1, sum(pairs))


EXPERIMENT: Final = Experiment(
    "hot_key",
    Description(
        purpose="what balance gains with one hot key, and costs without, on a standalone cluster of two workers",
        seed=SEED,
        shape="2 workers of one core; equal keys; one key with half of all rows, window 16,000 and micro-batches of"
        " 8,000 rows a side; or even keys, window 800,000 and micro-batches of 400,000 rows a side; noop sink",
        expected="the same pairs; at least 1.6 times the rows/s with the hot key, at most 1.03 times the time without",
    ),
    run,
)
