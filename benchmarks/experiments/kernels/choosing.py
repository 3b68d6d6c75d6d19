"""Which structure is fastest for which batches and how many matches: what the thresholds of ``auto`` are set from.

PanJoin's rule (section V-A4) is BI-Sort where batches or selectivity are large, RaP-Table where keys are steady, else
WiB+-Tree. The paper finds the borders at 64K rows and 1K matches, for subwindows alone, BI-Sort inserting on 8 threads.
Here whole pushes are measured: sorting, probing, inserting, expiring, gathering pairs. Windows are full and rotate. The
structures take turns with the same rows, and find equally many pairs. The processor's time is taken, which other
programs on the machine disturb less than the clock's.

A table more has the probing alone, by batch size: there the work of a push that is the same for all is left out.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from benchmarks.experiment import Context, DisagreementError, Experiment, cpu_seconds_of, median
from benchmarks.feed import Feed
from benchmarks.report import Cell, Description, Figure, Panel, Result, Series, Table, short_number
from benchmarks.structures import PAPER, fill, make, probes_of, warm_up
from watersmeet.spec.options import StructureName
from watersmeet.subwindow.contract import Subwindow

__all__ = ["EXPERIMENT"]

SEED: Final = 85
WINDOW: Final = 1 << 17
LARGE_WINDOW: Final = 1 << 21
FILLED_WITH: Final = 1 << 12
BATCHES: Final = (8, 32, 64, 128, 256, 1 << 10)
MOST_PUSHES: Final = 400
"""Small batches stop before a whole rotation of subwindows."""
TURNS: Final = 4
SELECTIVITIES: Final = (1, 16, 64)
SUBWINDOW: Final = 1 << 21
STEP: Final = 256
PROBING_BATCHES: Final = (8, 64, 512, 1 << 12, 1 << 15, 1 << 18)
SECONDS: Final = 0.1
FASTEST: Final = "fastest"


def run(context: Context) -> Result:
    """Measure whole pushes by selectivity, by equality and in a larger window; then the probing alone."""
    warm_up()
    result = Result()
    small, large = context.size(WINDOW, 1 << 13), context.size(LARGE_WINDOW, 1 << 13)
    names: tuple[StructureName, ...] = (*PAPER, "hash")
    panels = [
        _pushes(context, result, {name: Feed(small, FILLED_WITH, SEED, name, matches=matches) for name in PAPER})
        for matches in SELECTIVITIES
    ]
    _pushes(context, result, {name: Feed(small, FILLED_WITH, SEED, name, by_equality=True) for name in names})
    _pushes(context, result, {name: Feed(large, FILLED_WITH, SEED, name) for name in PAPER})
    result.tables.append(_probing(context, result))
    result.figures.append(Figure("choosing", "Whole pushes by structure", panels))
    return result


def _pushes(context: Context, result: Result, feeds: dict[StructureName, Feed]) -> Panel:
    """Fill the windows, then push batches of every size, by turns; add a table."""
    any_feed = next(iter(feeds.values()))
    window, matches = any_feed.window, any_feed.matches
    how = f"{'equality' if any_feed.by_equality else 'band'}, {matches} matches a row, window {short_number(window)}"
    for feed in feeds.values():
        feed.prefill(context.progress.step)
    rates: dict[StructureName, list[float]] = {name: [] for name in feeds}
    batches = [batch for batch in BATCHES if batch * TURNS <= window]
    lines: list[tuple[Cell, ...]] = []
    for batch in batches[:: 3 if context.quick else 1]:
        context.progress.step(f"{how}: batches of {batch:,}")
        seconds: dict[StructureName, list[float]] = {name: [] for name in feeds}
        pairs = dict.fromkeys(feeds, 0)
        for feed in feeds.values():
            feed.cut_into(batch)
        pushes = min(context.size(MOST_PUSHES), any_feed.rotation) // TURNS + 1
        for _ in range(TURNS):
            for name, feed in feeds.items():
                timed = feed.timed(pushes)
                seconds[name].append(timed.cpu_seconds / pushes)
                pairs[name] += timed.pairs
        _agree(how, pairs)
        for name, each in seconds.items():
            rates[name].append(2 * batch / median(each))
            result.runs.append({"join": how, "structure": name, "batch": batch, "pushes": pushes, "seconds": each})
        context.noted[:] = result.runs
        fastest = max(feeds, key=lambda name: rates[name][-1])
        others = max(rates[name][-1] for name in feeds if name != "bi_sort")
        lines.append((batch, *(rates[name][-1] for name in feeds), fastest, rates["bi_sort"][-1] / others))
        _round_off(feeds)
    result.tables.append(
        Table(f"{how}: rows a processor second", ("batch", *feeds, FASTEST, "bi_sort against the best other"), lines)
    )
    for feed in feeds.values():
        feed.join.close()
    return Panel(
        f"{matches} matches a row",
        "batch size (rows a side)",
        "rows/s",
        [Series(name, [float(line[0]) for line in lines], each) for name, each in rates.items()],  # type: ignore[arg-type]
    )


def _round_off(feeds: dict[StructureName, Feed]) -> None:
    """Push until as many rows have come as make whole batches of any size."""
    for feed in feeds.values():
        while feed.number * feed.batch % FILLED_WITH:
            feed.push()


def _agree(how: str, pairs: dict[StructureName, int]) -> None:
    if len(set(pairs.values())) > 1:
        raise DisagreementError(f"{how}: numbers of pairs {pairs}")


def _probing(context: Context, result: Result) -> Table:
    """Return the rates of probing full subwindows, by batch size."""
    rows = context.size(SUBWINDOW)
    rng = np.random.default_rng(SEED)
    keys = STEP * rng.integers(0, rows, rows)
    made: dict[str, Subwindow] = {name: fill(make(name, rows, before=keys[::2]), keys, seal=True) for name in PAPER}
    lines: list[tuple[Cell, ...]] = []
    for batch in PROBING_BATCHES:
        context.progress.step(f"probing alone, batches of {batch:,}")
        some = [
            probes_of(rng.integers(0, STEP * rows, batch), STEP // 2) for _ in range(max(1, min(64, rows // batch)))
        ]
        rates: dict[str, float] = {}
        for name, structure in made.items():

            def probe(structure: Subwindow = structure) -> None:
                for probes in some:  # noqa: B023 -- called at once
                    list(structure.probe(probes))

            times = max(1, int(context.size(100, 1) / 100 * SECONDS / cpu_seconds_of(probe)))
            each = [sum(cpu_seconds_of(probe) for _ in range(times)) for _ in range(TURNS)]
            rates[name] = times * len(some) * batch / median(each)
            result.runs.append({"probing": name, "batch": batch, "times": times, "seconds": each})
        lines.append((batch, *rates.values(), max(rates, key=lambda name: rates[name])))
    return Table(
        f"probing alone, one match a row, a full subwindow of {rows:,} rows: probing rows/s",
        ("batch", *made, FASTEST),
        lines,
        "rap_table and wib_tree give pairs, bi_sort ranges",
    )


EXPERIMENT: Final = Experiment(
    "choosing",
    Description(
        purpose="whole pushes by batch size, structure and selectivity: from which batch on BI-Sort is fastest",
        seed=SEED,
        shape="uniform int64 keys, windows of 128K rows a side and one of 2M, batches of 8 to 1K rows a side",
        expected="equally many pairs from all structures; all alike for small batches, BI-Sort ahead from some size on",
    ),
    run,
)
