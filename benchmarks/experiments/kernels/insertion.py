"""How fast the structures take rows in, over batch size, partition count, subwindow size and distribution.

The layout follows PanJoin's figures 10a-b, 11a-b, 12a-b and 13a: throughput in rows a second over the batch size, both
axes logarithmic. Each structure is half full when the clock starts; the other half goes in, in sorted batches, in three
timed portions. A portion ends early after a third of a second, so that small batches do not take minutes.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Final

from benchmarks.data import draw_keys
from benchmarks.experiment import Context, Experiment
from benchmarks.report import Cell, Description, Figure, Panel, Result, Series, Table, short_number
from benchmarks.structures import PAPER, fill, make, time_insertions, warm_up
from watersmeet.arrays import Int64s
from watersmeet.spec.options import StructureName
from watersmeet.subwindow.contract import Subwindow

__all__ = ["EXPERIMENT"]

SEED: Final = 10
REPETITIONS: Final = 3
LIMIT_SECONDS: Final = 0.33
LARGEST: Final = 8 << 20
PARTITIONS: Final = (1 << 10, 1 << 14, 1 << 16)
BATCHES: Final = (1 << 7, 1 << 10, 1 << 13, 1 << 16, 1 << 19)
SUBWINDOWS: Final = (1 << 16, 1 << 20)
DISTRIBUTIONS: Final = ("uniform", "normal", "multimodal", "rank_size", "increasing")
DISTRIBUTION_ROWS: Final = 1 << 20
DISTRIBUTION_BATCH: Final = 1 << 15
PAPER_FIGURE: Final = {"rap_table": "10a-b", "wib_tree": "11a-b", "bi_sort": "12a-b"}
ALL: Final[tuple[StructureName, ...]] = (*PAPER, "hash", "scan")


class _Insertion:
    """One run of the experiment: measures points and keeps their figures."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.runs: list[dict[str, object]] = []
        self._half_full: tuple[object, Subwindow, Int64s] | None = None

    def rate(
        self, name: StructureName, rows: int, batch: int, partitions: int | None, distribution: str = "uniform"
    ) -> float:
        """Return rows a second while the second half of a subwindow of ``rows`` rows goes in."""
        self.context.progress.step(
            f"{name}, {distribution}, subwindow {short_number(rows)}, batch {short_number(batch)}"
        )
        structure, keys = self._build(name, rows, partitions, distribution)
        figures = time_insertions(structure, keys, batch, repetitions=REPETITIONS, limit=LIMIT_SECONDS)
        self.runs += [
            {
                "structure": name,
                "distribution": distribution,
                "subwindow": rows,
                "batch": batch,
                "partitions": partitions,
                "rows": taken,
                "seconds": seconds,
            }
            for taken, seconds in figures
        ]
        return sum(taken for taken, _ in figures) / sum(seconds for _, seconds in figures)

    def _build(
        self, name: StructureName, rows: int, partitions: int | None, distribution: str
    ) -> tuple[Subwindow, Int64s]:
        """Return a half-full subwindow and the keys of its other half; the last one built is kept and copied."""
        wanted = (name, rows, partitions, distribution)
        if self._half_full is None or self._half_full[0] != wanted:
            half = rows // 2
            keys = draw_keys(distribution, rows, seed=SEED, first=half)
            before = draw_keys(distribution, half, seed=SEED) if name == "rap_table" else None
            made = fill(make(name, rows, partitions=partitions, before=before), keys[:half], seal=False)
            self._half_full = (wanted, made, keys[half:])
        return copy.deepcopy(self._half_full[1]), self._half_full[2]

    def series(self, name: StructureName, rows: int, partitions: int | None, label: str) -> Series:
        """Return a line over the batch sizes that the second half of a subwindow can hold three times."""
        batches = [batch for batch in BATCHES if batch * REPETITIONS <= rows // 2]
        return Series(
            label, [float(batch) for batch in batches], [self.rate(name, rows, b, partitions) for b in batches]
        )


def run(context: Context) -> Result:
    """Measure all points."""
    warm_up()
    measured = _Insertion(context)
    largest = context.size(LARGEST)
    partitions = [max(16, context.size(count)) for count in PARTITIONS]
    subwindows = [context.size(rows, rows // 16) for rows in SUBWINDOWS]
    figures, compared = [], []
    for name in PAPER:
        counts: list[int | None] = [None] if name == "bi_sort" else [*partitions]
        by_partitions = [measured.series(name, largest, count, _partition_label(count)) for count in counts]
        by_rows = [measured.series(name, rows, counts[0], _rows_label(rows)) for rows in subwindows]
        by_rows.append(replace(by_partitions[0], label=_rows_label(largest)))
        compared.append(replace(by_partitions[-1], label=name))
        figures.append(_figure(name, by_partitions, by_rows, counts[0], largest))
    others: tuple[StructureName, ...] = ("hash", "scan")
    compared += [measured.series(name, largest, None, name) for name in others]
    panel = Panel(
        f"uniform keys, N_Sub = {short_number(largest)}, P = {short_number(partitions[-1])}",
        "batch size N_Bat (rows)",
        "rows/s",
        compared,
    )
    figures.append(Figure("insertion_compared", "Insertion compared (beside figure 13a)", [panel]))
    return Result(
        tables=[_comparison(compared, largest, partitions[-1]), _by_distribution(measured, context)],
        figures=figures,
        notes=[
            "times are of one thread and leave out sorting the batch, which is done once for all structures",
            f"a portion ends after {LIMIT_SECONDS} s: small batches may miss BI-Sort's rare large merges",
        ],
        runs=measured.runs,
    )


def _figure(name: str, by_partitions: list[Series], by_rows: list[Series], fixed: int | None, largest: int) -> Figure:
    x_label, y_label = "batch size N_Bat (rows)", "rows/s"
    first = "" if fixed is None else "by partition count, "
    second = "by subwindow size" if fixed is None else f"by subwindow size, P = {short_number(fixed)}"
    panels = [
        Panel(f"(a) {first}N_Sub = {short_number(largest)}", x_label, y_label, by_partitions),
        Panel(f"(b) {second}", x_label, y_label, by_rows),
    ]
    return Figure(f"insertion_{name}", f"Insertion into {name} (beside figure {PAPER_FIGURE[name]})", panels)


def _comparison(compared: list[Series], rows: int, partitions: int) -> Table:
    """Return the rates of all structures by batch size, each also as a ratio to RaP-Table."""
    reference = compared[0].y
    return Table(
        f"insertion by batch size, rows/s: uniform keys, subwindow of {rows:,} rows, P = {partitions:,}",
        ("batch", *(series.label for series in compared), *(f"{s.label}/rap" for s in compared[1:])),
        [
            (
                int(batch),
                *(series.y[at] for series in compared),
                *(series.y[at] / reference[at] for series in compared[1:]),
            )
            for at, batch in enumerate(compared[0].x)
        ],
    )


def _by_distribution(measured: _Insertion, context: Context) -> Table:
    """Return the rates by distribution, each also as a ratio to the same structure's on uniform keys."""
    rows = context.size(DISTRIBUTION_ROWS, DISTRIBUTION_ROWS // 16)
    batch = context.size(DISTRIBUTION_BATCH, DISTRIBUTION_BATCH // 8)
    lines: list[tuple[Cell, ...]] = []
    uniform: dict[StructureName, float] = {}
    for distribution in DISTRIBUTIONS:
        rates = {name: measured.rate(name, rows, batch, None, distribution) for name in ALL}
        uniform = uniform or rates
        lines.append((distribution, *rates.values(), *(rates[name] / uniform[name] for name in ALL)))
    return Table(
        f"insertion by distribution, rows/s, then ratio to uniform: subwindow of {rows:,} rows, batches of {batch:,}",
        ("keys", *ALL, *(f"{name}, ratio" for name in ALL)),
        lines,
    )


def _partition_label(count: int | None) -> str:
    return "blocks of 8 keys" if count is None else f"P = {short_number(count)}"


def _rows_label(rows: int) -> str:
    return f"N_Sub = {short_number(rows)}"


EXPERIMENT: Final = Experiment(
    "insertion",
    Description(
        purpose="rows a second that each structure takes in, beside PanJoin's figures 10a-b, 11a-b, 12a-b and 13a",
        seed=SEED,
        shape="32-bit keys as int64; subwindows of 64K, 1M and 8M rows; batches of 128 to 512K rows",
        expected="larger batches are faster; the paper's BI-Sort leads from 64K rows on, 8 threads against 1;"
        " here all have one; no pairs, nothing is probed",
    ),
    run,
)
