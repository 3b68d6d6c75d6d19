"""PanJoin with BI-Sort against nested loops, like for like: one predicate, the same rows, the same windows.

Beside PanJoin's figures 15e and 15f. All join the same narrow rows by the same band: whole joins, pairs as tables, each
on as many threads. Then the same indexes are probed by themselves, one thread each, with ever wider bands: BI-Sort
tells the range of each probe's matches, the nested loop gives their numbers.

Windows are loaded in bulk and full before the clock starts. The largest fill most of a machine's memory, so those that
are compared come one after the other; first of all they join the same few rows, and the numbers of pairs must agree. A
nested loop gets few rows, since a large batch would take minutes; its rate is per row. They come in one batch all the
same, because it compares a tile of the window with all of them while the tile is cached. The time of the processor is
taken, of all threads together: it depends less than the clock's on what else the machine does.
"""

from __future__ import annotations

import gc
import os
import time
from dataclasses import dataclass
from typing import Final

import numpy as np
import psutil
import pyarrow as pa

from benchmarks.experiment import Context, DisagreementError, Experiment, median
from benchmarks.machine import resident_bytes
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table, short_number
from benchmarks.rig import Rig, Sides
from benchmarks.structures import probes_of
from watersmeet.spec.options import Structure, TopologyName
from watersmeet.subwindow.contract import Probes, Subwindow, count_matches

__all__ = ["EXPERIMENT"]

SEED: Final = 67
KEY_RANGE: Final = 1 << 31
SMALL: Final = 8 << 20
LARGE: Final = 128 << 20
BYTES_PER_ROW: Final = 40
"""What a row of a window takes, while a subwindow is merged or copied: measured, and rounded up."""
MOST_BYTES: Final = 12 << 30
SELECTIVITIES: Final = (1, 16, 256, 1 << 12, 1 << 14)
"""Matches a row, counted; pairs are put together for the first of them and for ``MORE``."""
MORE: Final = (256, 1 << 14)
BATCH: Final = 1 << 15
MOST_PAIRS: Final = 1 << 22
FEW: Final = 32
LOAD: Final = 1 << 18
REPETITIONS: Final = 2
GOALS: Final = {SMALL: 1000.0, LARGE: 5000.0}


@dataclass(frozen=True)
class _Contestant:
    """One way to join."""

    name: str
    topology: TopologyName
    structure: Structure


INDEXED: Final = _Contestant("panjoin, bi_sort", "panjoin", "bi_sort")
NESTED: Final = (
    _Contestant("splitjoin, nested loops", "splitjoin", "scan"),
    _Contestant("low_latency_handshake, nested loops", "low_latency_handshake", "scan"),
)


@dataclass
class _Measured:
    """What one contestant took and found."""

    found: int
    """Pairs of the few rows that all join."""
    seconds_per_row: float
    resident: int
    counted: dict[int, tuple[int, float]]
    """By selectivity: matches of the few rows, and seconds per row."""


def run(context: Context) -> Result:
    """Measure the large windows, then the small ones, these with more matches too."""
    result = Result()
    threads = min(2, os.cpu_count() or 1)
    small = context.size(SMALL, SMALL // 512)
    large = context.size(_that_fits(), LARGE // 4096)
    counted = {
        window: _compare(context, result, NESTED, window=window, matches=SELECTIVITIES[0], threads=threads)
        for window in (large, small)
    }
    lines = [line for window, measured in counted.items() for line in _whole(measured, window, SELECTIVITIES[0])]
    for matches in MORE:
        measured = _compare(context, result, NESTED[:1], window=small, matches=matches, threads=threads)
        lines += _whole(measured, small, matches)
    _judge(result, counted[small], SMALL, small)
    _judge(result, counted[large], LARGE, large)
    if large < LARGE and not context.quick:
        result.notes.append(f"windows of {LARGE:,} rows a side do not fit into the memory that is free here")
    result.tables = [
        Table(
            f"whole joins on {threads} threads, pairs as tables: by processor time",
            (
                "window rows a side",
                "matches a row",
                "join",
                "rows/s",
                "us a row",
                "panjoin is faster by",
                "GB resident",
            ),
            lines,
            f"panjoin: batches of {BATCH:,} rows a side, less where they give over {MOST_PAIRS:,} pairs;"
            f" nested loops: {FEW} rows a side",
        ),
        _counts(counted),
    ]
    result.figures = [_figure(counted)]
    return result


def _that_fits() -> int:
    """Return the largest window of at most ``LARGE`` rows a side that there is memory for."""
    room = min(MOST_BYTES, psutil.virtual_memory().available - (2 << 30))
    window = LARGE
    while window > SMALL and 2 * window * BYTES_PER_ROW > room:
        window //= 2
    return window


def _compare(
    context: Context, result: Result, nested: tuple[_Contestant, ...], *, window: int, matches: int, threads: int
) -> dict[str, _Measured]:
    """Measure PanJoin, then the nested loops; the numbers of pairs must agree."""
    measured: dict[str, _Measured] = {}
    for one in (INDEXED, *nested):
        context.progress.step(f"{one.name}, window {short_number(window)}, {matches:,} matches a row")
        measured[one.name] = some = _measure(context, one, window, matches, threads)
        result.runs.append(
            {
                "join": one.name,
                "window": window,
                "matches": matches,
                "pairs": some.found,
                "seconds_per_row": some.seconds_per_row,
                "resident": some.resident,
                "counted": {str(s): figures for s, figures in some.counted.items()},
            }
        )
        context.noted[:] = result.runs
    first = measured[INDEXED.name]
    for name, other in measured.items():
        pairs = [(first.found, other.found)]
        pairs += [(first.counted[s][0], other.counted[s][0]) for s in other.counted]
        if any(ours != theirs for ours, theirs in pairs):
            raise DisagreementError(f"{INDEXED.name} and {name} with windows of {window:,} rows: {pairs}")
    return measured


def _measure(context: Context, one: _Contestant, window: int, matches: int, threads: int) -> _Measured:
    """Load full windows, join the few rows, then measure whole joins, then the indexes alone."""
    half = max(1, KEY_RANGE * matches // (2 * window))
    rig = Rig(
        one.topology,
        window,
        threads,
        LOAD,
        SEED,
        structure=one.structure,
        apart=1.0,
        on=f"left.key BETWEEN right.key - {half} AND right.key + {half}",
        rows_of=_rows,
    )
    counted = {} if matches != SELECTIVITIES[0] or one is NESTED[1] else _count(rig, window)
    _, found = rig.feed(FEW)
    count, repetitions = FEW, context.size(REPETITIONS, 1)
    if one is INDEXED:
        count = min(context.size(BATCH, BATCH // 16), max(FEW, MOST_PAIRS // matches))
        repetitions *= 8
    each = [_processor_seconds(rig, count) / (2 * count) for _ in range(repetitions)]
    resident = resident_bytes()
    rig.close()
    del rig
    gc.collect()
    return _Measured(found, median(each), resident, counted)


def _processor_seconds(rig: Rig, count: int) -> float:
    begin = time.process_time()
    rig.feed(count)
    return time.process_time() - begin


def _rows(first: int, count: int) -> Sides:
    """Return narrow rows: an int32 key and a timestamp."""
    moments = pa.array(np.arange(first, first + count), pa.timestamp("us"))
    left, right = (
        np.random.default_rng((SEED, side, first)).integers(0, KEY_RANGE, count, np.int32) for side in range(2)
    )
    return {"left": pa.table({"key": left, "ts": moments}), "right": pa.table({"key": right, "ts": moments})}


def _count(rig: Rig, window: int) -> dict[int, tuple[int, float]]:
    """Count the matches of few rows in the left window with its index alone, for ever wider bands."""
    few, many = (_rows(window, rows)["right"]["key"].to_numpy().astype(np.int64) for rows in (FEW, BATCH))
    indexes = [segment.index for part in rig.engine.windows("left") for segment in part.segments]
    timed = [few] if rig.structure == "scan" else [many] * REPETITIONS
    counted = {}
    for matches in SELECTIVITIES:
        half = max(1, KEY_RANGE * matches // (2 * window))
        found, _ = _matches(indexes, probes_of(few, half))
        seconds = [_matches(indexes, probes_of(keys, half))[1] / len(keys) for keys in timed]
        counted[matches] = found, median(seconds)
    return counted


def _matches(indexes: list[Subwindow], probes: Probes) -> tuple[int, float]:
    """Return the number of matches, and the seconds that it took."""
    begin = time.process_time()
    count = sum(count_matches(index.probe(probes)) for index in indexes)
    return count, time.process_time() - begin


def _whole(measured: dict[str, _Measured], window: int, matches: int) -> list[tuple[Cell, ...]]:
    best = measured[INDEXED.name].seconds_per_row
    return [
        (
            window,
            matches,
            name,
            1 / some.seconds_per_row,
            some.seconds_per_row * 1e6,
            some.seconds_per_row / best,
            some.resident / 1e9,
        )
        for name, some in measured.items()
    ]


def _judge(result: Result, measured: dict[str, _Measured], goal: int, window: int) -> None:
    best = measured[INDEXED.name].seconds_per_row
    result.goals += [
        Goal(
            f"panjoin against {one.name}, {window:,} rows a side",
            measured[one.name].seconds_per_row / best,
            GOALS[goal],
            at_least=True,
        )
        for one in NESTED
    ]


def _counts(counted: dict[int, dict[str, _Measured]]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for window, measured in counted.items():
        for matches in SELECTIVITIES:
            (found, ours), (_, nested) = (measured[one.name].counted[matches] for one in (INDEXED, NESTED[0]))
            lines.append((window, matches, found / FEW, ours * 1e6, nested * 1e6, nested / ours))
    return Table(
        "matches counted by the index alone, one thread: microseconds a probing row",
        ("window rows", "matches a row", "counted", "bi_sort", "nested loop", "bi_sort is faster by"),
        lines,
        f"{BATCH:,} probing rows at a time for bi_sort, {FEW} for the nested loop",
    )


def _figure(counted: dict[int, dict[str, _Measured]]) -> Figure:
    panels = [
        Panel(
            f"window {short_number(window)} rows",
            "matches per probing row",
            "probing rows/s",
            [
                Series(
                    name, [float(s) for s in SELECTIVITIES], [1 / measured[one].counted[s][1] for s in SELECTIVITIES]
                )
                for name, one in (("bi_sort", INDEXED.name), ("scan", NESTED[0].name))
            ],
        )
        for window, measured in counted.items()
    ]
    return Figure("nested_loops", "Matches counted: BI-Sort and nested loops (beside figures 15e and 15f)", panels)


EXPERIMENT: Final = Experiment(
    "nested_loops",
    Description(
        purpose="panjoin with bi_sort against nested loops with the same band on the same rows",
        seed=SEED,
        shape="rows of an int32 key and a timestamp, windows of 8M and 128M rows a side, or what fits into 12 GiB;"
        " 1 to 16K matches a row",
        expected="equal numbers of pairs; at least 1000 times as fast at 8M rows a side and 5000 times at 128M",
    ),
    run,
)
