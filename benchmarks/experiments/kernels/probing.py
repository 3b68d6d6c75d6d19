"""How fast the structures are probed, over partition size, selectivity and distribution.

The layout follows PanJoin's figures 10c-e, 11c-e, 12c-e and 13b: throughput in probing rows a second, both axes
logarithmic. Subwindows are full and sealed. RaP-Table, WiB+-Tree, hash and scan answer with pairs, which costs time per
match; BI-Sort answers with ranges, as in the paper, and once more with the ranges written out as pairs.

Keys are multiples of ``STEP``, drawn from as many values as there are rows, so an equality meets one row on average and
a band of half-width ``STEP * S / 2`` around any integer meets S.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from benchmarks.data import band_for, draw_keys
from benchmarks.experiment import Context, Experiment, median, seconds_of
from benchmarks.report import Cell, Description, Figure, Panel, Result, Series, Table, short_number
from benchmarks.structures import PAPER, fill, make, probes_of, warm_up
from watersmeet.arrays import Int64s
from watersmeet.spec.options import StructureName
from watersmeet.subwindow.contract import Subwindow, count_matches, pairs_of

__all__ = ["EXPERIMENT"]

SEED: Final = 13
REPETITIONS: Final = 3
STEP: Final = 256
LARGEST: Final = 8 << 20
EQUALITY_ROWS: Final = 1 << 20
SUBWINDOWS: Final = (1 << 16, 1 << 20)
BATCH: Final = 1 << 15
PARTITIONS: Final = (1 << 10, 1 << 14, 1 << 16)
PARTITION_SIZES: Final = (16, 128, 1 << 10, 1 << 13)
SELECTIVITIES: Final = (1, 16, 256, 1 << 12, 1 << 14)
EQUALITY_SELECTIVITIES: Final = (1, 16, 256, 1 << 12)
TRIAL_ROWS: Final = 512
LIMIT_SECONDS: Final = 1.0
MOST_PAIRS: Final = 1 << 24
MOST_COMPARISONS: Final = 1 << 30
DISTRIBUTIONS: Final = ("uniform", "normal", "multimodal", "rank_size", "increasing")
PAPER_FIGURE: Final = {"rap_table": "10c-e", "wib_tree": "11c-e", "bi_sort": "12c-e"}
AS_PAIRS: Final = "bi_sort, pairs"
"""BI-Sort with its ranges written out."""


class _Probing:
    """One run of the experiment: measures points and keeps their figures."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.runs: list[dict[str, object]] = []
        self.batch = context.size(BATCH, BATCH // 8)
        self.most_pairs = context.size(MOST_PAIRS)
        self.most_comparisons = context.size(MOST_COMPARISONS)
        self._rng = np.random.default_rng(SEED)

    def stored(self, rows: int, matches: int = 1) -> Int64s:
        """Return the keys of a subwindow in which an equality meets ``matches`` rows."""
        return STEP * self._rng.integers(0, max(1, rows // matches), rows)

    def build(self, name: StructureName, keys: Int64s, partitions: int | None) -> Subwindow:
        """Return a full, sealed subwindow."""
        self.context.progress.step(f"filling {name} with {short_number(len(keys))} rows")
        before = keys[::2] if name == "rap_table" else None
        return fill(make(name, len(keys), partitions=partitions, before=before), keys, seal=True)

    def rate(self, label: str, made: Subwindow, rows: int, probing: Int64s, *, half: int, expected: float) -> float:
        """Return probing rows a second; batches are cut where ``expected`` matches a row would be too many pairs."""
        most = len(probing)
        if label != "bi_sort":
            most = min(most, max(1, int(self.most_pairs / max(1.0, expected))))
        if label == "scan" or (label == "hash" and half):
            most = min(most, max(1, self.most_comparisons // rows))
        pairs = 0
        probes = probes_of(probing[: min(most, TRIAL_ROWS)], half)

        def probe() -> None:
            nonlocal pairs
            found = list(made.probe(probes))
            if label == AS_PAIRS:
                found = [pairs_of(found)]
            pairs = count_matches(found)

        affordable = int(len(probes) * LIMIT_SECONDS / seconds_of(probe))
        most = min(most, max(TRIAL_ROWS, affordable))
        probes = probes_of(probing[:most], half)
        probe()
        seconds = [seconds_of(probe) for _ in range(REPETITIONS)]
        self.runs += [
            {"structure": label, "subwindow": rows, "batch": most, "half_width": half, "pairs": pairs, "seconds": each}
            for each in seconds
        ]
        return most / median(seconds)

    def equality(self, name: str, structure: Subwindow, keys: Int64s, matches: int) -> float:
        """Return the rate of equality probes: keys that are stored."""
        probing = keys[self._rng.integers(0, len(keys), self.batch)]
        return self.rate(name, structure, len(keys), probing, half=0, expected=matches)

    def band(self, name: str, structure: Subwindow, rows: int, matches: int) -> float:
        """Return the rate of band probes that meet ``matches`` rows on average."""
        probing = self._rng.integers(0, STEP * rows, self.batch)
        return self.rate(name, structure, rows, probing, half=STEP * matches // 2, expected=matches)


def run(context: Context) -> Result:
    """Measure all points."""
    warm_up()
    measured = _Probing(context)
    largest = context.size(LARGEST)
    partitions = [max(16, context.size(count)) for count in PARTITIONS]
    keys = measured.stored(largest)
    figures, compared = [], []
    for name in PAPER:
        counts: list[int | None] = [None] if name == "bi_sort" else [*partitions]
        built = {count: measured.build(name, keys, count) for count in counts}
        by_size = [*_by_partition_size(measured, name, context), _largest_by_size(measured, name, built, keys)]
        if name == "bi_sort":  # its blocks have one size: a line over the subwindow size instead
            rows = [float(context.size(full, full // 16)) for full in SUBWINDOWS]
            by_size = [Series("blocks of 8 keys", [*rows, float(largest)], [series.y[0] for series in by_size])]
        by_matches = [
            Series(_label(count), list(SELECTIVITIES), [measured.band(name, made, largest, s) for s in SELECTIVITIES])
            for count, made in built.items()
        ]
        compared.append(replace(by_matches[-1], label=name))
        if name == "bi_sort":
            rates = [measured.band(AS_PAIRS, built[None], largest, s) for s in SELECTIVITIES]
            compared.append(Series(AS_PAIRS, list(SELECTIVITIES), rates))
        figures.append(_figure(name, by_size, _by_equality(measured, name, context), by_matches, context))
        del built
    scan = measured.build("scan", keys, None)
    compared.append(
        Series("scan", list(SELECTIVITIES), [measured.band("scan", scan, largest, s) for s in SELECTIVITIES])
    )
    panel = Panel(
        f"N_Sub = {short_number(largest)}, P = {short_number(partitions[-1])}, N_Bat = {short_number(measured.batch)}",
        "selectivity S (matches per probing row)",
        "rows/s",
        compared,
    )
    figures.append(Figure("probing_compared", "Band probing compared (beside figure 13b)", [panel]))
    return Result(
        tables=[_comparison(compared, largest, measured.batch), _by_distribution(measured, context)],
        figures=figures,
        notes=[
            "times are of one thread and leave out sorting the probes, which is done once for all structures",
            f"fewer rows probe where a batch gives over {measured.most_pairs:,} pairs or takes long; rates are per row",
            f"scan is probed by as many rows as make at most {measured.most_comparisons:,} comparisons",
        ],
        runs=measured.runs,
    )


def _by_partition_size(measured: _Probing, name: StructureName, context: Context) -> list[Series]:
    """Return equality rates over the partition size, a line per (smaller) subwindow size."""
    lines = []
    for full in SUBWINDOWS:
        rows = context.size(full, full // 16)
        keys = measured.stored(rows)
        sizes = [size for size in PARTITION_SIZES if size <= rows // 4] if name != "bi_sort" else [8]
        made = [measured.build(name, keys, rows // size if name != "bi_sort" else None) for size in sizes]
        rates = [measured.equality(name, structure, keys, 1) for structure in made]
        lines.append(Series(f"N_Sub = {short_number(rows)}", [float(size) for size in sizes], rates))
    return lines


def _largest_by_size(measured: _Probing, name: str, built: dict[int | None, Subwindow], keys: Int64s) -> Series:
    sizes = [8.0 if count is None else len(keys) / count for count in built]
    rates = [measured.equality(name, structure, keys, 1) for structure in built.values()]
    return Series(f"N_Sub = {short_number(len(keys))}", sizes[::-1], rates[::-1])


def _by_equality(measured: _Probing, name: StructureName, context: Context) -> list[Series]:
    """Return equality rates over the selectivity, a line per partition count; hash beside them."""
    rows = context.size(EQUALITY_ROWS, EQUALITY_ROWS // 16)
    selectivities = [s for s in EQUALITY_SELECTIVITIES if s * 16 <= rows]
    stored = {s: measured.stored(rows, s) for s in selectivities}
    counts: list[int | None] = (
        [None] if name == "bi_sort" else [max(16, context.size(c, c // 16)) for c in PARTITIONS[:2]]
    )
    lines: list[tuple[StructureName, int | None, str]] = [(name, count, _label(count)) for count in counts]
    return [
        Series(
            label,
            [float(s) for s in selectivities],
            [measured.equality(what, measured.build(what, keys, count), keys, s) for s, keys in stored.items()],
        )
        for what, count, label in [*lines, ("hash", None, "hash")]
    ]


def _figure(name: str, by_size: list[Series], equal: list[Series], band: list[Series], context: Context) -> Figure:
    largest = short_number(context.size(LARGEST))
    small = short_number(context.size(EQUALITY_ROWS, EQUALITY_ROWS // 16))
    matches = "selectivity S (matches per probing row)"
    by = ("subwindow size", "N_Sub") if name == "bi_sort" else ("partition size", "N_P")
    panels = [
        Panel(f"(c) equality, S = 1, by {by[0]}", f"{by[0]} {by[1]} (rows)", "rows/s", by_size),
        Panel(f"(d) equality by selectivity, N_Sub = {small}", matches, "rows/s", equal),
        Panel(f"(e) band by selectivity, N_Sub = {largest}", matches, "rows/s", band),
    ]
    return Figure(f"probing_{name}", f"Probing {name} (beside figure {PAPER_FIGURE[name]})", panels)


def _comparison(compared: list[Series], rows: int, batch: int) -> Table:
    """Return the rates of all structures by selectivity, each also as a ratio to RaP-Table."""
    reference = compared[0].y
    return Table(
        f"band probing by selectivity, rows/s: subwindow of {rows:,} rows, batches of {batch:,}",
        ("S", *(series.label for series in compared), *(f"{s.label}/rap" for s in compared[1:])),
        [
            (int(s), *(series.y[at] for series in compared), *(o.y[at] / reference[at] for o in compared[1:]))
            for at, s in enumerate(SELECTIVITIES)
        ],
    )


def _by_distribution(measured: _Probing, context: Context) -> Table:
    """Return the rates by distribution for a band that meets about 4 rows, each also as a ratio to scan's."""
    rows = context.size(EQUALITY_ROWS, EQUALITY_ROWS // 16)
    lines: list[tuple[Cell, ...]] = []
    names: tuple[StructureName, ...] = (*PAPER, "scan")
    for distribution in DISTRIBUTIONS:
        keys = draw_keys(distribution, rows, seed=SEED)
        probing = draw_keys(distribution, measured.batch, seed=SEED + 1)
        half = band_for(np.sort(keys), probing[:4096], 4)
        before = draw_keys(distribution, rows, seed=SEED + 2) if distribution != "increasing" else keys - keys.max()
        rates = {}
        for name in names:
            made = fill(make(name, rows, before=before), keys, seal=True)
            rates[name] = measured.rate(name, made, rows, probing, half=half, expected=4)
        lines.append((distribution, half, *rates.values(), *(rates[name] / rates["scan"] for name in PAPER)))
    return Table(
        f"band probing by distribution, rows/s: subwindow of {rows:,} rows, about 4 matches a row",
        ("keys", "half-width", *names, *(f"{name}/scan" for name in PAPER)),
        lines,
        "RaP-Table has the splitters learned from the subwindow before, which increasing keys have left behind",
    )


def _label(count: int | None) -> str:
    return "blocks of 8 keys" if count is None else f"P = {short_number(count)}"


EXPERIMENT: Final = Experiment(
    "probing",
    Description(
        purpose="probing rows a second of each structure, beside PanJoin's figures 10c-e, 11c-e, 12c-e and 13b",
        seed=SEED,
        shape="full sealed subwindows of 64K, 1M and 8M rows; batches of 32K probing rows; five distributions",
        expected="S matches per probing row, S from 1 to 16K; ranges (bi_sort) do not slow down as S grows, pairs do",
    ),
    run,
)
