"""PanJoin's worker on an FPGA, as a model: what its mergers and probers take, beside figure 14.

No circuit is measured. :mod:`benchmarks.models.fpga_worker` counts the cycles of one with the paper's clock and memory,
and its merged arrays and ranges are held against NumPy's and our BI-Sort's. Beside its rates are those of BI-Sort here,
on one thread of this machine, for the shape of the curves alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from benchmarks.experiment import Context, DisagreementError, Experiment, cpu_seconds_of
from benchmarks.models.fpga_worker import HERTZ, FpgaWorker
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table
from benchmarks.structures import entries_of, fill, make, probes_of, warm_up
from watersmeet.arrays import Int64s
from watersmeet.subwindow.contract import count_matches

__all__ = ["EXPERIMENT"]

SEED: Final = 88
ROWS: Final = 8 << 20
PARTITIONS: Final = 1 << 16
BATCHES: Final = (1 << 10, 1 << 13, 1 << 16, 1 << 18, 1 << 20)
UNITS: Final = (1, 2, 4, 8, 16)
UNITS_BATCH: Final = 1 << 18
KEY_RANGE: Final = 1 << 32
MORE_UNITS: Final = 1.1


def run(context: Context) -> Result:
    """Count cycles by batch size, then by the number of units."""
    warm_up()
    rows, partitions = context.size(ROWS), max(16, context.size(PARTITIONS))
    keys = np.sort(np.random.default_rng(SEED).integers(0, KEY_RANGE, rows))
    half = KEY_RANGE // rows // 2
    result = Result()
    measured: dict[int, tuple[float, ...]] = {}
    for full in BATCHES:
        batch = context.size(full)
        context.progress.step(f"batches of {batch:,}")
        model, ours = _rates(keys, batch, partitions, half, 8), _ours(keys, batch, half)
        result.runs.append({"batch": batch, "model": model, "bi_sort": ours})
        measured[batch] = *model, *ours
    lines: list[tuple[Cell, ...]] = [(batch, *rates) for batch, rates in measured.items()]
    by_units = {units: _rates(keys, context.size(UNITS_BATCH), partitions, half, units) for units in UNITS}
    result.tables = [
        Table(
            f"model of 8 mergers and 8 probers at {HERTZ / 1e6:.1f} MHz, a subwindow of {rows:,} rows: rows/s",
            ("batch", "model: insertion", "model: probing", "bi_sort here: insertion", "bi_sort here: probing"),
            lines,
            "probing: an equality; what is measured here is one thread of a processor, and only the shape compares",
        ),
        Table(
            f"model, batches of {context.size(UNITS_BATCH):,}, by how many mergers and probers there are: rows/s",
            ("mergers, probers", "insertion", "probing"),
            [(units, *rates) for units, rates in by_units.items()],
        ),
    ]
    result.goals = [
        Goal(f"model: 16 {name} against 8", by_units[16][at] / by_units[8][at], MORE_UNITS, at_least=False)
        for at, name in enumerate(("mergers", "probers"))
    ]
    names = ("model: insertion", "model: probing", "bi_sort: insertion", "bi_sort: probing")
    batches = [float(batch) for batch in measured]
    series = [Series(name, batches, [rates[at] for rates in measured.values()]) for at, name in enumerate(names)]
    panel = Panel("a model beside a measurement", "batch size N_Bat (rows)", "rows/s", series)
    result.figures = [Figure("fpga", "BI-Sort on an FPGA: a model (beside figure 14)", [panel])]
    return result


def _rates(keys: Int64s, batch: int, partitions: int, half: int, units: int) -> tuple[float, float]:
    """Return the model's rows a second when it inserts a batch into a nearly full array, and probes with one."""
    rng = np.random.default_rng(SEED + 1)
    stored = np.delete(keys, rng.choice(len(keys), batch, replace=False)) if batch < len(keys) else keys[:0]
    new, probing = np.sort(rng.integers(0, KEY_RANGE, batch)), np.sort(rng.choice(keys, batch))
    worker = FpgaWorker(partitions, mergers=units, probers=units, main=stored)
    worker.insert(new)
    start, end = worker.probe(probing - half, probing + half)
    expected = fill(make("bi_sort", len(worker.main)), worker.main, seal=True)
    found = count_matches(expected.probe(probes_of(probing, half)))
    if len(worker.main) != len(stored) + batch or int((end - start).sum()) != found:
        raise DisagreementError(f"the model found {int((end - start).sum()):,} matches, bi_sort {found:,}")
    return batch / worker.insertion_cycles * HERTZ, batch / worker.probing_cycles * HERTZ


def _ours(keys: Int64s, batch: int, half: int) -> tuple[float, float]:
    rng = np.random.default_rng(SEED + 1)
    index = fill(make("bi_sort", len(keys)), keys, seal=True)
    probes = probes_of(np.sort(rng.choice(keys, batch)), half)
    probing = cpu_seconds_of(lambda: list(index.probe(probes)))
    (entries,) = entries_of(np.sort(rng.integers(0, KEY_RANGE, batch)), batch, len(keys))

    def insert() -> None:
        index.insert(entries)
        index.seal()  # one array, as in the paper

    return batch / cpu_seconds_of(insert), batch / probing


EXPERIMENT: Final = Experiment(
    "fpga",
    Description(
        purpose="a model of the paper's FPGA worker: insertion and probing by batch size, beside figure 14",
        seed=SEED,
        shape="8M uniform 32-bit keys in 64K partitions, batches of 1K to 1M; 1 to 16 mergers and probers",
        expected="as many matches as bi_sort; rates grow with the batch; more than 8 mergers and probers gain nothing",
    ),
    run,
)
