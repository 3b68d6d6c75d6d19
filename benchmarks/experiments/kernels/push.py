"""The whole join, ``StreamJoin.push``, against a nested loop, DuckDB and Polars, one thread each.

Ours: windows full and rotating, both sides pushed, pairs as tables; sorting, probing, inserting, expiring and the time
filter are inside the clock, generating rows is not. A repetition is one rotation of subwindows, so that no rare work
is left out. A row counts once, on whichever side it comes.

Peers hold the other side's window in memory as they like best and join a batch with it: no insertion, no expiry, no
time filter. That batch is one that ours took too, and the numbers of pairs must agree. All take turns, so a machine
that is busy with something else is busy for all of them; processor time is given beside the time of the clock.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.data import stream_rows
from benchmarks.experiment import Context, DisagreementError, Experiment, median
from benchmarks.experiments.kernels import push_against
from benchmarks.feed import KEY_RANGE, Feed
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table
from benchmarks.worker import Task, start, take_turn

__all__ = ["EXPERIMENT"]

SEED: Final = 40
WINDOW: Final = 8 << 20
BATCH: Final = 1 << 15
TURNS: Final = 5
LEAST_PUSHES: Final = 20
SCAN_ROWS: Final = 512
OURS: Final = "ours (bi_sort)"
PEERS: Final = ("duckdb", "polars")
GOALS: Final = {"scan": 1000.0, "duckdb": 300.0, "polars": 120.0}


@dataclass
class _Measured:
    """The figures of one of those compared; ``rows`` rows are joined in each turn."""

    rows: int
    pairs: int | None = None
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)

    def add(self, seconds: float, cpu_seconds: float) -> None:
        self.seconds.append(seconds)
        self.cpu_seconds.append(cpu_seconds)

    @property
    def rate(self) -> float:
        return self.rows / median(self.seconds)

    @property
    def cpu_rate(self) -> float:
        return self.rows / median(self.cpu_seconds)


def run(context: Context) -> Result:
    """Fill all windows, then let ours and the others take turns."""
    window, batch = context.size(WINDOW), context.size(BATCH, BATCH // 16)
    feed = Feed(window, batch, SEED)
    feed.prefill(context.progress.step)
    number, our_pairs = _checked_batch(feed)
    scan = _ScanFeed(context, window, batch)
    pushes = max(LEAST_PUSHES, feed.rotation)
    measured = {OURS: _Measured(2 * batch * pushes, our_pairs), "scan": _Measured(scan.rows)}
    measured |= {name: _Measured(batch) for name in PEERS}
    each: list[float] = []
    task: Task = {"window": window, "batch": batch, "number": number, "seed": SEED}
    with ExitStack() as stack:
        context.progress.step("the peers take their windows in")
        peers = {name: stack.enter_context(start(name, task)) for name in PEERS}
        for worker in peers.values():
            worker.answer()
        for turn in range(TURNS + 1):
            warming = turn == 0
            context.progress.step("warming up" if warming else f"turn {turn} of {TURNS}")
            timed = feed.timed(1 if warming else pushes)
            taken = {OURS: (timed.seconds, timed.cpu_seconds), "scan": scan.push()}
            for name, worker in peers.items():
                join = take_turn(worker)
                taken[name] = (join["seconds"], join["cpu_seconds"])
                measured[name].pairs = join["window_pairs"]
            context.noted.append({"what": "turn", "number": turn, "seconds and processor seconds": taken})
            if not warming:
                each += timed.each
                for name, figures in taken.items():
                    measured[name].add(*figures)
    _check(number, {name: measured[name].pairs for name in (OURS, *PEERS)})
    return _report(measured, each, f"window {window:,} rows a side, batches of {batch:,} rows a side", number)


def _check(number: int, pairs: dict[str, int | None]) -> None:
    if len(set(pairs.values())) > 1:
        raise DisagreementError(f"the numbers of pairs of batch {number} differ: {pairs}")


def _checked_batch(feed: Feed) -> tuple[int, int]:
    """Push once more; return the batch's number and the pairs of its left rows with earlier right rows."""
    number = feed.number
    pairs = feed.push().pairs
    left, right = (np.asarray(pairs.column(name)).astype(np.int64) for name in ("left_ts", "right_ts"))
    begin = number * feed.batch
    return number, int(np.count_nonzero((left >= begin) & (right < begin)))


class _ScanFeed:
    """Our own compiled nested loop: a few left rows a push against a full right window."""

    def __init__(self, context: Context, window: int, batch: int) -> None:
        self.rows = min(SCAN_ROWS, batch)
        self._join = Feed(window, batch, SEED, "scan").join
        context.progress.step("filling the window of scan")
        for number in range(window // batch):  # one side alone: there is nothing to probe yet
            self._join.push(right=stream_rows("right", number, batch, seed=SEED, key_range=KEY_RANGE))
        self._number, self._now = 0, window

    def push(self) -> tuple[float, float]:
        """Push the next rows; return seconds and processor seconds."""
        rows = stream_rows("left", self._number, self.rows, seed=SEED, key_range=KEY_RANGE)
        moments = self._now + np.arange(self.rows)
        rows = rows.set_column(1, "ts", pa.array(moments, pa.timestamp("us")))
        self._number, self._now = self._number + 1, self._now + self.rows
        begin, cpu = time.perf_counter(), time.process_time()
        self._join.push(left=rows)
        return time.perf_counter() - begin, time.process_time() - cpu


def _report(measured: dict[str, _Measured], each: list[float], sizes: str, number: int) -> Result:
    ours = measured[OURS]
    lines: list[tuple[Cell, ...]] = [
        (name, one.rate, ours.rate / one.rate, ours.cpu_rate / one.cpu_rate, one.pairs, GOALS.get(name))
        for name, one in measured.items()
    ]
    slow = np.quantile(each, [0.5, 0.99, 1.0]) * 1000
    bars = [Series(name, [0.0], [one.rate]) for name, one in measured.items()]
    return Result(
        tables=[
            Table(
                f"rows/s on one thread, {sizes}",
                ("join", "rows/s", "ours is faster by", "by processor time", "pairs of one batch", "goal"),
                lines,
                f"medians of {TURNS} turns; the pairs are those of one left batch with the right rows before it",
            )
        ],
        figures=[
            Figure(
                "push",
                "A band join, about one match per row",
                [Panel(sizes, "", "rows/s on one thread", bars, bars=True)],
            )
        ],
        goals=[
            Goal(f"push against {name}", ours.rate / measured[name].rate, least, at_least=True)
            for name, least in GOALS.items()
        ],
        notes=[
            f"scan: {measured['scan'].rows} rows a push, since a whole batch would take very long; the rate is per row",
            f"the pairs of batch {number} agree: {ours.pairs:,}",
            f"ours, milliseconds a push: median {slow[0]:.1f}, 99th percentile {slow[1]:.1f}, slowest {slow[2]:.1f}",
        ],
        runs=[{"what": name, **asdict(one)} for name, one in measured.items()]
        + [{"what": "each push", "seconds": each}],
    )


EXPERIMENT: Final = Experiment(
    "push",
    Description(
        purpose="the headline: rows a second of StreamJoin.push against scan, DuckDB and Polars in one run",
        seed=SEED,
        shape="window 8M rows a side, batches of 32K rows a side; int64 keys uniform in 2^31, a timestamp per"
        " microsecond, 8 bytes of payload; pairs materialised",
        expected="about one pair per row; at least 1000 times scan, 300 times DuckDB, 120 times Polars",
    ),
    run,
    push_against.EXPERIMENT,
)
