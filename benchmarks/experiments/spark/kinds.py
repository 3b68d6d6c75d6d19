"""What the kinds of joins cost on Spark: left, full, semi and anti against the inner join, taking turns.

All have the same files and the same band. About 37 % of the rows meet nobody (a row meets one on average), so the outer
and anti joins give these as well, once the watermark has passed them.
"""

from __future__ import annotations

from typing import Final

from benchmarks.contestant import OURS, Arena, ContestantName, MicroBatch, median_rate, median_seconds
from benchmarks.experiment import Context, DisagreementError, Experiment, median
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table

__all__ = ["EXPERIMENT"]

SEED: Final = 83
WINDOW: Final = 4_000_000
BATCH: Final = 1_000_000
TURNS: Final = 3
BATCHES: Final = 4
WARM_UP: Final = 2
MEMORY: Final = "2g"
RATES: Final[dict[ContestantName, float]] = {
    "ours, left": 0.8,
    "ours, full": 0.8,
    "ours, semi": 0.95,
    "ours, anti": 0.8,
}
"""The part of the inner join's rows a second that each has to keep."""
STATE: Final = 1.03
COPIES: Final[ContestantName] = "ours, full"
"""It stores copies of both sides' rows where the inner join stores those of one: its state is shown, and no goal."""


def run(context: Context) -> Result:
    """Fill the windows, then let all take turns."""
    window, batch = context.size(WINDOW), context.size(BATCH)
    turns, batches = context.size(TURNS, 1), context.size(BATCHES, 2)
    with Arena.open(context, seed=SEED, block=batch) as arena:
        contestants = [arena.enter(name, window, memory=MEMORY) for name in (OURS, *RATES)]
        measured: dict[str, list[MicroBatch]] = {contestant.name: [] for contestant in contestants}
        for contestant in contestants:
            contestant.fill(window, batch)
        for turn in range(turns):
            for contestant in contestants[:: -1 if turn % 2 else 1]:
                measured[contestant.name] += contestant.turn(batches, batch, warm_up=WARM_UP)
    _check(measured)
    sizes = f"window {window:,} rows a side, micro-batches of {batch:,} rows a side"
    rates = {name: median_rate(taken) for name, taken in measured.items()}
    states = {name: median([float(_state(one)) for one in taken]) for name, taken in measured.items()}
    lines: list[tuple[Cell, ...]] = [
        (
            name,
            rates[name],
            rates[name] / rates[OURS],
            median_seconds(taken),
            median([float(one["pairs"]) for one in taken]),
            median([float(one["unmatched_rows"]) for one in taken]),
            states[name] / states[OURS],
        )
        for name, taken in measured.items()
    ]
    bars = [Series(name, [0.0], [rate]) for name, rate in rates.items()]
    return Result(
        tables=[
            Table(
                f"rows/s on 2 cores, {sizes}",
                (
                    "query",
                    "rows/s",
                    "of the inner join",
                    "s a micro-batch",
                    "pairs a micro-batch",
                    "rows that met nobody",
                    "state against the inner join's",
                ),
                lines,
                f"medians of {turns * batches} micro-batches in {turns} turns; semi and anti give left rows, no pairs",
            )
        ],
        figures=[Figure("kinds", "Kinds of joins", [Panel(sizes, "", "rows/s", bars, bars=True)])],
        goals=[
            *(
                Goal(f"{name} against the inner join, rows/s", rates[name] / rates[OURS], least, at_least=True)
                for name, least in RATES.items()
            ),
            *(
                Goal(f"state of {name} against the inner join's", states[name] / states[OURS], STATE, at_least=False)
                for name in RATES
                if name != COPIES
            ),
        ],
        runs=[{"what": name, **one} for name, taken in measured.items() for one in taken],
    )


def _state(one: MicroBatch) -> int:
    return sum(core["state_bytes"] for core in one["cores"])


def _check(measured: dict[str, list[MicroBatch]]) -> None:
    """Raise unless the kinds agree with each other on what they found."""

    def found(name: ContestantName, what: str) -> list[object]:
        return [one[what] for one in measured[name]]  # type: ignore[literal-required]

    if not found(OURS, "pairs") == found("ours, left", "pairs") == found("ours, full", "pairs"):
        raise DisagreementError("the kinds find other numbers of pairs in the same micro-batches")
    if found("ours, left", "unmatched_rows") != found("ours, anti", "unmatched_rows"):
        raise DisagreementError("left and anti join give other numbers of left rows that met nobody")


EXPERIMENT: Final = Experiment(
    "kinds",
    Description(
        purpose="rows a second and state of left, full, semi and anti joins on Spark against the inner join in one run",
        seed=SEED,
        shape="2 cores, window 4 million rows a side, micro-batches of 1 million rows a side; int64 keys uniform in"
        " 2^31, a timestamp per microsecond, 8 bytes of payload; Parquet files in, noop sink out",
        expected="outer and anti joins keep 0.8 of the inner join's rows a second, semi joins 0.95; state grows by 3 %"
        " at most, but that of full joins, which store copies of both sides",
    ),
    run,
)
