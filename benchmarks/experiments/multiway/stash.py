"""What a stash is worth by the room it has: hits, recomputations and rate against circular, for 3 to 8 streams."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from benchmarks.experiment import Context, DisagreementError, Experiment, median
from benchmarks.many import ManyStreams, chain, names_of
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table
from watersmeet.engine.multiway.stashed import Stashed

__all__ = ["EXPERIMENT"]

SEED: Final = 72
WINDOW: Final = 50_000
BATCH: Final = 1_024
PUSHES: Final = 6
TURNS: Final = 5
STREAMS: Final = (3, 4, 5, 6, 7, 8)
ROOMS: Final = (0.1, 0.25, 0.5, 0.75, 1.0, 1.2)
"""Of the pairs whose rows are both in their windows; a stash holds others besides until they expire."""
COMPLETE: Final = 4.0
"""Room for all: what the others are measured by."""
REACH: Final = 64
"""A row of c meets 2 * reach + 1 rows of a."""
RARE: Final = 4
"""One row of a in so many has a match in b."""
LEAST: Final = 0.9
CIRCULAR: Final = "circular"


@dataclass(frozen=True)
class _Measured:
    """What one join took: the median of its rates, and of rows of which other streams it found and recomputed."""

    rate: float
    hits: int
    recomputed: float


def run(context: Context) -> Result:
    """Sweep the room of a stash that may be hit, for every number of streams; then one that is no use."""
    window = context.size(WINDOW, 2_000)
    streams_of = STREAMS if not context.quick else STREAMS[:2]
    result = Result()
    lowest: list[float] = []
    panels, wins = [], []
    for streams in streams_of:
        live = window // RARE
        values = {"x": RARE * window, "y": window, "z": window}
        rooms = [*_rooms(live), _room(live, COMPLETE)]
        found = _measured(context, _star(streams), streams, window, values=values, rooms=rooms)
        complete = found["stashed", _room(live, COMPLETE)].hits
        lines: list[tuple[Cell, ...]] = []
        shares: list[float] = []
        gains: list[float] = []
        for share in (*ROOMS, COMPLETE):
            room = _room(live, share)
            kept, auto = found["stashed", room], found["auto", room]
            shares.append(kept.hits / max(1, complete))
            gains.append(kept.rate / found[CIRCULAR, 0].rate)
            lowest.append(auto.rate / found[CIRCULAR, 0].rate)
            lines.append((f"{share:.0%}", shares[-1], kept.recomputed, kept.rate, gains[-1], lowest[-1]))
            result.runs.append({"streams": streams, "room": room, "hit share": shares[-1], "stashed": gains[-1]})
            result.runs[-1]["auto"] = lowest[-1]
        wins.append(_wins_from(shares, gains))
        columns: tuple[str, ...] = ("room, of the live pairs", "hit share", "recomputed, of the rows that look")
        columns += ("stashed, rows/s", "stashed against circular", "auto against circular")
        note = f"circular: {found[CIRCULAR, 0].rate:,.0f} rows/s; wins from a hit share of {_word(wins[-1])} on"
        result.tables.append(Table(f"{streams} streams, windows of {window:,} rows", columns, lines, note))
        panels.append(Series(f"{streams} streams", shares, gains))
    lines = []
    for streams in streams_of:
        values = {"x": window}
        found = _measured(context, chain(streams), streams, window, values=values, rooms=_rooms(window)[::5])
        for (strategy, room), own in found.items():
            if strategy != CIRCULAR:
                gain = own.rate / found[CIRCULAR, 0].rate
                lowest += [gain] if strategy == "auto" else []
                lines.append((streams, strategy, room, gain, own.recomputed))
    columns = ("streams", "strategy", "room, pairs", "against circular", "recomputed, of the rows that look")
    result.tables.append(Table("neighbours have equal keys, one match each: a stash is no use", columns, lines))
    result.notes.append(
        "a stash that is kept wins over circular from a hit share of "
        + ", ".join(f"{_word(share)} ({streams})" for streams, share in zip(streams_of, wins, strict=True))
        + " on (streams)"
    )
    result.goals += [
        Goal("auto against circular, the worst of all", min(lowest), LEAST, at_least=True),
        Goal("auto against circular, the best of all", max(lowest), 1, at_least=True),
    ]
    panel = Panel("a stash that is always kept", "hit share", "rate against circular", panels, x_log=False, y_log=False)
    result.figures.append(Figure("multiway_stash", "What a stash is worth", [panel]))
    return result


def _star(streams: int) -> str:
    """Return the condition: a and b rarely meet, c meets many of a, and from c on neighbours have equal keys."""
    more = [f"{left}.z = {right}.z" for left, right in pairwise(names_of(streams)[2:])]
    return " AND ".join(["a.x = b.x", f"a.y BETWEEN c.y - {REACH} AND c.y + {REACH}", *more])


def _room(live: int, share: float) -> int:
    return max(8, round(live * share))


def _rooms(live: int) -> list[int]:
    return [_room(live, share) for share in ROOMS]


def _measured(
    context: Context, on: str, streams: int, window: int, *, values: dict[str, int], rooms: list[int]
) -> dict[tuple[str, int], _Measured]:
    """Measure in turns, each join on the same rows: circular, and both strategies with each room."""
    batch = context.size(BATCH, 128)
    names = [(CIRCULAR, 0), *((strategy, room) for room in rooms for strategy in ("stashed", "auto"))]
    joins = {}
    for strategy, room in names:
        context.progress.step(f"{streams} streams, {strategy}, {room} pairs")
        called = strategy if strategy == CIRCULAR else f"{strategy}:{room}"
        joins[strategy, room] = ManyStreams(streams, on, window, values, SEED, strategy=called)
        joins[strategy, room].fill(batch)
    before = {name: _counted(join) for name, join in joins.items()}
    rates: dict[tuple[str, int], list[float]] = {name: [] for name in joins}
    for _ in range(TURNS):
        feeds = {name: join.feed(PUSHES, batch) for name, join in joins.items()}
        if len({feed.results for feed in feeds.values()}) > 1:
            raise DisagreementError(f"{on}: strategies found { {name: feed.results for name, feed in feeds.items()} }")
        for name, feed in feeds.items():
            rates[name].append(feed.rate)
    looked = TURNS * PUSHES * batch * (streams - 2)
    measured = {}
    for name, join in joins.items():
        (hits, again), (hits_before, again_before) = _counted(join), before[name]
        measured[name] = _Measured(median(rates[name]), hits - hits_before, (again - again_before) / looked)
    return measured


def _counted(join: ManyStreams) -> tuple[int, int]:
    strategy = join.strategy
    return (strategy.hits, strategy.recomputed) if isinstance(strategy, Stashed) else (0, 0)


def _wins_from(shares: list[float], gains: list[float]) -> float | None:
    """Return the hit share from which on the stash is at least as fast, between those measured; None: nowhere."""
    last = max((at for at, gain in enumerate(gains) if gain < 1), default=-1)
    if last == len(gains) - 1:
        return None
    if last < 0:
        return shares[0]
    step = (1 - gains[last]) / (gains[last + 1] - gains[last])
    return shares[last] + step * (shares[last + 1] - shares[last])


def _word(share: float | None) -> str:
    return "nowhere" if share is None else f"{share:.0%}"


EXPERIMENT: Final = Experiment(
    "stash",
    Description(
        purpose="what a stash is worth by its room, and that auto keeps none that costs more than it saves",
        seed=SEED,
        shape="a row of a meets 1/4 row of b, one of c 129 rows of a, further streams in a chain; and chains of keys",
        expected="the more of the matches it has, the better; auto never below 0.9 of circular",
    ),
    run,
)
