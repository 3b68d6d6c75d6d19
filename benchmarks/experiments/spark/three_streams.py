"""Three streams at once, against Spark's own chain of two joins, and against a chain of our own.

Spark's own joins are measured as in ``spark_join``: one whole micro-batch fills the window, and of two of half the size
the second is measured, when rows leave its state.

A chain of two joins keeps the pairs of the first in the state of the second. Where a row meets many, that is most of
the state; a join of three streams keeps rows only. One query cannot hold two of our joins (Spark would have to define a
watermark anew), so the chain is two queries with files between them.
"""

from __future__ import annotations

from typing import Final

from benchmarks.contestant import Arena, ContestantName, MicroBatch, median_rate, median_seconds
from benchmarks.experiment import Context, DisagreementError, Experiment
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table

__all__ = ["EXPERIMENT"]

SEED: Final = 85
BATCH: Final = 400_000
"""Rows a stream, and of the window too."""
WARM_UP: Final = 2
MEASURED: Final = 4
STATE_BATCH: Final = 25_000
BATCHES_PER_WINDOW: Final = 4
MATCHES: Final = 10
SPARKS_OWN: Final[tuple[ContestantName, ...]] = ("Spark, format 2", "Spark, format 4")
CHAINED: Final[tuple[ContestantName, ...]] = ("ours", "ours, pair by pair")
FASTER: Final = 20.0
STATE: Final = 0.5

Taken = dict[ContestantName, list[MicroBatch]]


def run(context: Context) -> Result:
    """Run all queries, one after the other, over the same rows."""
    speed = _speed(context)
    state = _state(context)
    return Result(
        tables=[*speed.tables, *state.tables],
        figures=[*speed.figures, *state.figures],
        goals=[*speed.goals, *state.goals],
        notes=[*speed.notes, *state.notes],
        runs=[*speed.runs, *state.runs],
    )


def _speed(context: Context) -> Result:
    half = context.size(BATCH) // 2
    batch = window = 2 * half
    sizes: dict[ContestantName, list[int]] = {"ours": [batch] * (1 + WARM_UP + MEASURED)}
    sizes |= {name: [batch, half, half] for name in SPARKS_OWN}
    taken: Taken = {}
    for name, some in sizes.items():
        with Arena.open(context, seed=SEED, block=half, streams=3) as arena:
            taken[name] = arena.enter(name, window).take(some)
    found = {name: sum(one["pairs"] for one in some[: 2 if name == "ours" else 3]) for name, some in taken.items()}
    if len(set(found.values())) > 1:
        raise DisagreementError(f"the numbers of results of the first {2 * batch:,} rows a stream differ: {found}")
    steady: Taken = {name: some[-MEASURED if name == "ours" else -1 :] for name, some in taken.items()}
    rates = {name: median_rate(some) for name, some in steady.items()}
    lines: list[tuple[Cell, ...]] = [
        (name, rates[name], rates["ours"] / rates[name], median_seconds(some), len(some), some[0]["rows"] // 3)
        for name, some in steady.items()
    ]
    columns = ("query", "rows/s", "ours is faster by", "s a micro-batch", "micro-batches", "rows a stream in each")
    bars = [Series(name, [0.0], [rate]) for name, rate in rates.items()]
    ratio = rates["ours"] / max(rates[name] for name in SPARKS_OWN)
    return Result(
        tables=[Table(f"bands between three streams, window {window:,} rows a stream", columns, lines, "medians")],
        figures=[Figure("three_streams", "Three streams", [Panel("rows", "", "rows/s", bars, bars=True)])],
        goals=[Goal("against Spark's own chain, its better format", ratio, FASTER, at_least=True)],
        notes=[f"all found {found['ours']:,} results in the first {2 * batch:,} rows a stream"],
        runs=[{"what": name, **one} for name, some in taken.items() for one in some],
    )


def _state(context: Context) -> Result:
    batch = context.size(STATE_BATCH)
    window = batch * BATCHES_PER_WINDOW
    turns = context.size(2 * BATCHES_PER_WINDOW, 2)
    taken: Taken = {}
    for name in CHAINED:
        with Arena.open(context, seed=SEED, block=batch, streams=3) as arena:
            contestant = arena.enter(name, window, matches=MATCHES)
            # Turn by turn: the second query of a pair must not get all pairs of the first at once.
            taken[name] = [contestant.take([batch])[0] for _ in range(turns)]
    results = {name: sum(one["pairs"] for one in some) for name, some in taken.items()}
    if len(set(results.values())) > 1:
        raise DisagreementError(f"the numbers of results differ: {results}")
    held = {
        name: [float(sum(core["state_bytes"] for core in one["cores"])) for one in some] for name, some in taken.items()
    }
    most = {name: max(some[-BATCHES_PER_WINDOW:]) for name, some in held.items()}
    lines: list[tuple[Cell, ...]] = [(name, most[name], most[name] / most[CHAINED[1]]) for name in CHAINED]
    passed = [(number + 1) / BATCHES_PER_WINDOW for number in range(turns)]
    series = [Series(name, passed, some) for name, some in held.items()]
    panel = Panel("state", "windows passed", "bytes", series, y_log=False)
    title = f"state, window {window:,} rows a stream, a row meets about {MATCHES}"
    return Result(
        tables=[Table(title, ("query", "bytes at the fullest", "of pair by pair"), lines)],
        figures=[Figure("three_streams_state", title, [panel])],
        goals=[Goal("state against a chain of our own", most["ours"] / most[CHAINED[1]], STATE, at_least=False)],
        notes=[f"state: both found {results['ours']:,} results"],
        runs=[{"what": f"state, {name}", **one} for name, some in taken.items() for one in some],
    )


EXPERIMENT: Final = Experiment(
    "three_streams",
    Description(
        purpose="a band join of three streams in one step against chains of two joins, Spark's and our own",
        seed=SEED,
        shape="2 cores, three streams, bands between the first and second and the second and third, window and"
        " micro-batches of 400,000 rows a stream, about one match per row and band; for the state about ten",
        expected="the same results; at least 20 times Spark's own chain, less than half the state of our own chain",
    ),
    run,
)
