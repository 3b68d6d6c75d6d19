"""WiB+-Tree, and the other structures, against a B-tree of a library: the package BTrees, written in C.

Beside PanJoin's figure 11f, whose B-tree is a library in C++. This one is probed by a call a row from Python, which is
a part of its time: the first line of the table tells how much, by looking for ranges that are empty. A key and its row
are one number in the tree, so that equal keys stay apart and a probe is one range. All structures hold the same rows,
and must find as many for the same probes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
from BTrees.LLBTree import LLTreeSet

from benchmarks.experiment import Context, DisagreementError, Experiment, cpu_seconds_of, median
from benchmarks.report import Cell, Description, Result, Table
from benchmarks.structures import PAPER, entries_of, fill, make, probes_of, warm_up
from watersmeet.arrays import Int64s
from watersmeet.subwindow.contract import Subwindow, count_matches, pairs_of

__all__ = ["EXPERIMENT"]

SEED: Final = 86
ROWS: Final = 1 << 20
BATCHES: Final = (1 << 7, 1 << 12, 1 << 15)
SELECTIVITIES: Final = (1, 16, 256, 1 << 12, 1 << 14)
STEP: Final = 256
ROW_BITS: Final = 24
MOST_PAIRS: Final = 1 << 22
REPETITIONS: Final = 3
TREE: Final = "B-tree"


def run(context: Context) -> Result:
    """Insert in batches of several sizes, then probe for keys and for ever wider bands."""
    warm_up()
    rows = context.size(ROWS)
    rng = np.random.default_rng(SEED)
    keys = STEP * rng.integers(0, rows, rows)
    result = Result()
    tree = LLTreeSet()
    first, second = keys[: rows // 2], keys[rows // 2 :]
    tree.update(_numbers(first, 0))
    lines: list[tuple[Cell, ...]] = [_no_call(context, tree)]
    lines += [_insertion(context, result, first, second[: max(batch, rows // 4)], batch) for batch in BATCHES]
    tree.update(_numbers(second, rows // 2))
    built: dict[str, Subwindow] = {name: fill(make(name, rows, before=first), keys, seal=True) for name in PAPER}
    probing = rng.integers(0, STEP * rows, BATCHES[-1])
    lines.append(_probing(context, result, tree, built, keys[: BATCHES[-1]], 0, 1))
    lines += [_probing(context, result, tree, built, probing, STEP * s // 2, s) for s in SELECTIVITIES]
    result.tables.append(
        Table(
            f"{rows:,} rows, one thread: rows a processor second",
            ("what", TREE, *PAPER, *(f"{name} is faster by" for name in PAPER)),
            lines,
            "probing gives pairs, also bi_sort's; sealed structures; batches are sorted beforehand",
        )
    )
    return result


def _numbers(keys: Int64s, first_row: int) -> list[int]:
    numbers: list[int] = ((keys << ROW_BITS) | (first_row + np.arange(len(keys)))).tolist()
    return numbers


def _no_call(context: Context, tree: LLTreeSet) -> tuple[Cell, ...]:
    count = context.size(1 << 16)
    seconds = _median(context, lambda: [len(tree.keys(-2, -1)) for _ in range(count)])
    return ("a call that finds nothing", count / seconds, *(None for _ in range(2 * len(PAPER))))


def _insertion(context: Context, result: Result, first: Int64s, second: Int64s, batch: int) -> tuple[Cell, ...]:
    """Insert a part of the second half of the rows into half-full structures."""
    context.progress.step(f"inserting batches of {batch:,}")
    tree = LLTreeSet()
    tree.update(_numbers(first, 0))
    new = [_numbers(second[at : at + batch], len(first) + at) for at in range(0, len(second), batch)]
    rates = {TREE: len(second) / sum(cpu_seconds_of(partial(tree.update, numbers)) for numbers in new)}
    for name in PAPER:
        structure = fill(make(name, 2 * len(first), before=first), first, seal=False)
        entries = list(entries_of(second, batch, len(first)))
        rates[name] = len(second) / sum(cpu_seconds_of(partial(structure.insert, some)) for some in entries)
        if len(structure.snapshot()) != len(tree):
            raise DisagreementError(f"{name} holds {len(structure.snapshot()):,} rows, the {TREE} {len(tree):,}")
    return _line(result, f"insertion, batches of {batch:,}", rates)


def _probing(  # noqa: PLR0917 -- what is probed, with what
    context: Context, result: Result, tree: LLTreeSet, built: dict[str, Subwindow], probing: Int64s, half: int, s: int
) -> tuple[Cell, ...]:
    """Find all pairs of some rows; all must find as many."""
    what = f"band, {s:,} matches a row" if half else "equality"
    context.progress.step(f"probing, {what}")
    probing = probing[: max(1, min(len(probing), context.size(MOST_PAIRS) // s))]
    low, high = ((probing - half) << ROW_BITS).tolist(), ((probing + half + 1) << ROW_BITS).tolist()
    found = {TREE: 0}

    def from_tree() -> None:
        found[TREE] = sum(len(list(tree.keys(lo, hi - 1))) for lo, hi in zip(low, high, strict=True))

    rates = {TREE: len(probing) / _median(context, from_tree)}
    probes = probes_of(probing, half)
    for name, structure in built.items():

        def from_structure(name: str = name, structure: Subwindow = structure) -> None:
            found[name] = count_matches([pairs_of(list(structure.probe(probes)))])

        from_structure()
        rates[name] = len(probing) / _median(context, from_structure)
    if len(set(found.values())) > 1:
        raise DisagreementError(f"{what}: matches {found}")
    return _line(result, f"probing, {what}", rates)


def _median(context: Context, work: Callable[[], object]) -> float:
    return median([cpu_seconds_of(work) for _ in range(context.size(REPETITIONS, 1))])


def _line(result: Result, what: str, rates: dict[str, float]) -> tuple[Cell, ...]:
    result.runs.append({"what": what, "rates": rates})
    return (what, *rates.values(), *(rates[name] / rates[TREE] for name in PAPER))


EXPERIMENT: Final = Experiment(
    "btree",
    Description(
        purpose="the structures against a B-tree of a library, beside figure 11f",
        seed=SEED,
        shape="1M rows of about as many keys; batches of 128 to 32K rows; 1 to 16K matches a row",
        expected="as many matches; wib_tree faster than the B-tree at everything",
    ),
    run,
)
