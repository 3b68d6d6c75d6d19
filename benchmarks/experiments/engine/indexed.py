"""PanJoin with BI-Sort over cores, every topology with an index on each core, and how long small pushes take.

PanJoin is fed through ``StreamJoin.push``, windows rotating, pairs materialised. ``nested_loops`` holds it against
nested loops.

An index waits for memory, which cores share with each other and, on a rented machine, with strangers. What two threads
gain that probe a subwindow of their own each, and share nothing else, is measured in every turn too.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Final

import numpy as np

from benchmarks.experiment import Context, Experiment, median, seconds_of, seconds_side_by_side
from benchmarks.feed import KEY_RANGE, Feed, band_width
from benchmarks.report import Cell, Description, Goal, Result, Table
from benchmarks.rig import NESTED_LOOP_TOPOLOGIES, Rig, core_counts
from watersmeet.subwindow.bi_sort import BiSort
from watersmeet.subwindow.contract import Entries, Probes

__all__ = ["EXPERIMENT"]

SEED: Final = 61
WINDOW: Final = 8 << 20
BATCH: Final = 1 << 15
PUSHES: Final = 40
TURNS: Final = 7
INDEXED_WINDOW: Final = 1 << 19
INDEXED_ROWS: Final = 4096
INDEXED_BLOCK: Final = 128
SMALL_WINDOW: Final = 1 << 20
SMALL_PUSH: Final = 256
SMALL_PUSHES: Final = 2000
TWO_CORES: Final = 1.7


def run(context: Context) -> Result:
    """Fill all windows, then take turns."""
    counts = core_counts(os.cpu_count() or 1)
    window, batch = context.size(WINDOW), context.size(BATCH, BATCH // 16)
    feeds = {
        f"panjoin, {cores} core(s)": Feed(window, batch, SEED, topology="panjoin", cores=cores) for cores in counts
    }
    feeds["kang"] = Feed(window, batch, SEED)
    for feed in feeds.values():
        feed.prefill(context.progress.step)
    most = min(2, counts[-1])
    seconds: dict[str, list[float]] = {name: [] for name in feeds}
    alone, gained = _ProbesAlone(window, batch, most), []
    for turn in range(context.size(TURNS, 1)):
        context.progress.step(f"turn {turn + 1}")
        for name, taken in _pushed_in_turn(feeds, context.size(PUSHES, 4), turn).items():
            seconds[name].append(taken / (2 * batch))
        gained.append(alone.times_faster(context.size(PUSHES, 4)))
    for feed in feeds.values():
        feed.join.close()
    rates = {name: 1 / median(some) for name, some in seconds.items()}
    one, best = "panjoin, 1 core(s)", f"panjoin, {most} core(s)"

    def times_faster(name: str, other: str) -> float:
        """Return the median of the turns' ratios: what the machine does meanwhile slows both of a turn."""
        return median([slow / fast for fast, slow in zip(seconds[name], seconds[other], strict=True)])

    goals = [Goal("panjoin on 2 cores against 1", times_faster(best, one), TWO_CORES, at_least=True)]
    lines: list[tuple[Cell, ...]] = [
        (name, rate, times_faster(name, one), times_faster(best, name)) for name, rate in rates.items()
    ]
    return Result(
        tables=[
            Table(
                f"window {window:,} rows a side, batches of {batch:,} rows a side: rows/s of both streams",
                ("join", "rows/s", "against panjoin on 1 core", f"panjoin on {most} cores is faster by"),
                lines,
                "medians of turns",
            ),
            _local_index(context, counts),
            _small_pushes(context, counts),
        ],
        goals=goals,
        notes=[_what_the_machine_gives(most, gained)],
        runs=[{"what": name, "seconds_per_row": some} for name, some in seconds.items()],
    )


class _ProbesAlone:
    """Threads that each probe a subwindow of half a window, nothing shared."""

    def __init__(self, window: int, batch: int, threads: int) -> None:
        self._indexes: list[BiSort] = []
        for number in range(threads):
            keys = np.sort(np.random.default_rng((SEED, number)).integers(0, KEY_RANGE, window // 2))
            self._indexes.append(BiSort(len(keys)))
            self._indexes[-1].insert(Entries(keys, np.arange(len(keys), dtype=np.int32)))
        probing = np.sort(np.random.default_rng(SEED).integers(0, KEY_RANGE, batch))
        width = band_width(window)
        self._probes = Probes(probing - width, probing + width, np.arange(batch, dtype=np.int32))

    def times_faster(self, repetitions: int) -> float:
        """Return how many times faster all threads are at it than one that does the same."""

        def probe(index: BiSort) -> None:
            for _ in range(repetitions):
                list(index.probe(self._probes))

        work = [partial(probe, index) for index in self._indexes]
        return sum(map(seconds_of, work)) / seconds_side_by_side(work)


def _what_the_machine_gives(threads: int, gained: list[float]) -> str:
    by_turn = f"{min(gained):.3g}x to {max(gained):.3g}x by turn"
    return (
        f"{threads} threads that probe, nothing shared: {median(gained):.3g}x one ({by_turn}): what the machine gives"
    )


def _pushed_in_turn(feeds: dict[str, Feed], pushes: int, turn: int) -> dict[str, float]:
    """Return the mean seconds of a push; what comes first changes from turn to turn.

    A join's pushes follow one another as they do in a stream: threads that have waited for other joins begin with
    caches that hold nothing of theirs, and on a processor that has to wake up.
    """
    names = list(feeds)
    first = turn % len(names)
    return {
        name: sum(feeds[name].push().seconds for _ in range(pushes)) / pushes for name in names[first:] + names[:first]
    }


def _local_index(context: Context, counts: list[int]) -> Table:
    """Every topology with an index on each core, in blocks of 128 rows (handshake join, figure 9)."""
    window, rows = context.size(INDEXED_WINDOW), context.size(INDEXED_ROWS, 256)
    lines: list[tuple[Cell, ...]] = []
    for topology in NESTED_LOOP_TOPOLOGIES:
        first = 0.0
        for cores in counts:
            context.progress.step(f"{topology} with bi_sort, {cores} cores")
            rig = Rig(topology, window, cores, INDEXED_BLOCK, SEED, structure="bi_sort")
            rate = rig.rate(rows, context.size(TURNS, 1))
            rig.close()
            first = first or rate
            lines.append((topology, cores, rate, rate / first))
    return Table(
        f"bi_sort on every core, windows of {window:,} rows, the papers' 2-D band in blocks of {INDEXED_BLOCK} rows",
        ("topology", "cores", "rows/s", "against its 1 core"),
        lines,
        "what cores do in Python is most of the work here, and one at a time can do it",
    )


def _small_pushes(context: Context, counts: list[int]) -> Table:
    window = context.size(SMALL_WINDOW)
    lines: list[tuple[Cell, ...]] = []
    for cores in counts:
        feed = Feed(window, 1 << 12, SEED, topology="panjoin", cores=cores)
        feed.prefill(context.progress.step)
        feed.number, feed.batch = feed.number * feed.batch // SMALL_PUSH, SMALL_PUSH
        each = np.array(feed.timed(context.size(SMALL_PUSHES, 50)).each) * 1000
        lines.append((cores, *(float(np.quantile(each, share)) for share in (0.5, 0.99, 1.0))))
        feed.join.close()
    return Table(
        f"a push of {SMALL_PUSH} rows a side into windows of {window:,} rows, panjoin with bi_sort: milliseconds",
        ("cores", "median", "99th percentile", "slowest"),
        lines,
    )


EXPERIMENT: Final = Experiment(
    "indexed",
    Description(
        purpose="panjoin with bi_sort against itself on one core, and against other topologies with an index",
        seed=SEED,
        shape="window 8M rows a side, batches of 32K rows a side, int64 keys, about one match per row; other"
        " topologies: the papers' 2-D band with windows of 512K rows",
        expected="2 cores at least 1.7 times one",
    ),
    run,
)
