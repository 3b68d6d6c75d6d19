"""How many adjustments RaP-Table's splitters need to cut a distribution evenly, and how the tree takes growing keys.

As in PanJoin's figure 10f the first table is cut evenly over the range of a 32-bit integer. Each further table takes
new keys of the same distribution and the splitters that Algorithm 1 computes from the table before it.

Error: the mean over partitions of ``|rows - N/P|``, over ``N/P``. Even with the best splitters it is not 0: rows fall
into partitions at random, and the splitters come from a sample of N rows. Together: ``sqrt(4 / (pi N/P))``. Rows of
one value share a partition, so with few values the error is larger still. The *best* error is therefore measured: a
table whose splitters are the quantiles of N other keys.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from benchmarks.data import KEY_RANGE, draw_keys
from benchmarks.experiment import Context, Experiment
from benchmarks.report import Cell, Description, Figure, Goal, Panel, Result, Series, Table, short_number
from benchmarks.structures import fill, make, time_insertions, warm_up
from watersmeet.subwindow.contract import Entries
from watersmeet.subwindow.rap_table import RapTable

__all__ = ["EXPERIMENT"]

SEED: Final = 30
ADJUSTMENTS: Final = 5
WITHIN: Final = 1.25
HOPELESS: Final = 1.5
PAPER_ADJUSTMENTS: Final = 3
SHAPES: Final = ((1 << 20, 1 << 10), (1 << 20, 1 << 14), (8 << 20, 1 << 16), (1 << 20, 1 << 6))
"""N_Sub and P: the paper's, and last one with few partitions."""
DISTRIBUTIONS: Final = ("uniform", "normal", "multimodal", "rank_size", "rank_size_narrow", "increasing")
WORST_SHAPES: Final = ((1 << 20, 1 << 6), (1 << 20, 1 << 10), (1 << 20, 1 << 14))
TREE_ROWS: Final = 2 << 20
TREE_BATCH: Final = 1 << 12
REPETITIONS: Final = 5


def run(context: Context) -> Result:
    """Measure the errors, then the tree."""
    warm_up()
    result = Result()
    panels = []
    for full_rows, full_partitions in SHAPES:
        rows, partitions = context.size(full_rows), max(16, context.size(full_partitions, full_partitions // 16))
        errors: dict[str, list[float]] = {}
        best: dict[str, float] = {}
        for distribution in DISTRIBUTIONS:
            context.progress.step(f"{distribution}, {short_number(rows)} rows, P = {short_number(partitions)}")
            errors[distribution] = _errors(distribution, rows, partitions)
            best[distribution] = _best_error(distribution, rows, partitions)
            result.runs.append(
                {
                    "keys": distribution,
                    "rows": rows,
                    "P": partitions,
                    "errors": errors[distribution],
                    "best": best[distribution],
                }
            )
        result.tables.append(_table(rows, partitions, errors, best))
        panels.append(
            Panel(
                f"N_Sub = {short_number(rows)}, P = {short_number(partitions)}",
                "adjustments",
                "normalised mean absolute error",
                [Series(name, [float(n) for n in range(len(line))], line) for name, line in errors.items()],
                x_log=False,
            )
        )
        result.notes.append(
            f"P = {short_number(partitions)}, N = {short_number(rows)}: after {PAPER_ADJUSTMENTS} adjustments,"
            f" increasing keys apart, {_all_but_late(errors)} converged; noise apart, {_all_but_late(errors, best)}"
        )
    result.figures.append(Figure("splitters", "RaP-Table: error per adjustment (beside figure 10f)", panels))
    result.notes += [
        f"converged: from here on the error stays within {WITHIN} times the error at the last adjustment",
        f"noise apart: an error within {WITHIN} times the best one counts as converged too",
    ]
    result.tables.append(_worst_case(context, result))
    _tree(context, result)
    return result


def _errors(distribution: str, rows: int, partitions: int) -> list[float]:
    """Return the error of the even cut, then after each adjustment."""
    splitters = KEY_RANGE * np.arange(1, partitions) // partitions
    table: RapTable | None = None
    errors = []
    for number in range(ADJUSTMENTS + 1):
        predecessor = table
        table = RapTable(rows, predecessor, partitions, splitters if predecessor is None else None)
        keys = np.sort(draw_keys(distribution, rows, seed=SEED, first=number * rows))
        table.insert(Entries(keys, np.arange(rows, dtype=np.int32)))
        errors.append(table.normalised_mean_absolute_error())
    return errors


def _worst_case(context: Context, result: Result) -> Table:
    """Adjust to the paper's worst case (figure 4): the same keys each time, nearly all of them below any new splitter.

    The largest key is ``s``, the next ``s / P``, then ``s / P^2`` and so forth: evenly cut, the first partition's range
    shrinks by a factor P an adjustment, and all others stay nearly empty until it is as narrow as most keys lie.
    """
    lines: list[tuple[Cell, ...]] = []
    for full_rows, partitions in WORST_SHAPES:
        rows = context.size(full_rows)
        keys = np.random.default_rng(SEED).integers(0, 2 * partitions, rows)
        far, largest = 0, KEY_RANGE - 1
        while largest > 2 * partitions:
            keys[far] = largest
            far, largest = far + 1, largest // partitions
        keys.sort()
        table = RapTable(rows, None, partitions, np.full(partitions - 1, KEY_RANGE))
        bound = math.ceil(math.log(KEY_RANGE, partitions))
        errors = []
        for _ in range(bound + PAPER_ADJUSTMENTS + 1):
            table.insert(Entries(keys, np.arange(rows, dtype=np.int32)))
            errors.append(table.normalised_mean_absolute_error())
            table = RapTable(rows, table, partitions)
        ended = next((number for number, error in enumerate(errors) if error < HOPELESS), len(errors))
        result.runs.append({"worst_case": partitions, "rows": rows, "errors": errors})
        result.goals.append(Goal(f"worst case, P = {partitions:,}: adjustments", ended, bound, at_least=False))
        lines.append((partitions, rows, errors[0], ended, bound, errors[bound], errors[-1]))
    return Table(
        "the worst case of figure 4, always the same keys",
        ("P", "rows", "error at first", "ended after", "the paper's bound", "error then", f"{PAPER_ADJUSTMENTS} later"),
        lines,
        "ended: after so many adjustments the rows no longer lie in one partition",
    )


def _best_error(distribution: str, rows: int, partitions: int) -> float:
    """Return the error of a table cut at the quantiles of other keys of the same distribution."""
    if distribution == "increasing":
        return math.nan  # earlier keys say nothing about later ones
    known = np.sort(draw_keys(distribution, rows, seed=SEED + 1))
    table = RapTable(rows, None, partitions, known[rows * np.arange(1, partitions) // partitions])
    table.insert(Entries(np.sort(draw_keys(distribution, rows, seed=SEED + 2)), np.arange(rows, dtype=np.int32)))
    return table.normalised_mean_absolute_error()


def _all_but_late(errors: dict[str, list[float]], best: dict[str, float] | None = None) -> str:
    """Say which distributions took more adjustments than the paper's, if any."""
    late = [
        name
        for name, line in errors.items()
        if name != "increasing" and _converged(line, 0.0 if best is None else best[name]) > PAPER_ADJUSTMENTS
    ]
    return f"all but {', '.join(late)}" if late else "all"


def _converged(errors: list[float], best: float = 0.0) -> int:
    """Return the first adjustment from which on all errors are within reach of the last, or of the best."""
    reach = WITHIN * max(errors[-1], best)
    far = [number for number, error in enumerate(errors) if error > reach]
    return far[-1] + 1 if far else 0


def _table(rows: int, partitions: int, errors: dict[str, list[float]], best: dict[str, float]) -> Table:
    noise = math.sqrt(4 / (math.pi * rows / partitions))
    lines: list[tuple[Cell, ...]] = []
    for name, line in errors.items():
        if line[-1] > HOPELESS:
            lines.append((name, *line, None, None, "never: error stays near 2", "never"))
        else:
            after = str(_converged(line)), str(_converged(line, best[name]))
            lines.append((name, *line, best[name], line[-1] / best[name], *after))
    return Table(
        f"error per adjustment, N_Sub = {rows:,}, P = {partitions:,}; sampling noise alone: {noise:.3g}",
        (
            "keys",
            *(str(number) for number in range(ADJUSTMENTS + 1)),
            "best",
            "last/best",
            "converged after",
            "noise apart",
        ),
        lines,
        "0 is even, close to 2 is all rows in few partitions",
    )


def _tree(context: Context, result: Result) -> None:
    """Measure the tree's insertion on uniform and on growing keys."""
    rows = context.size(TREE_ROWS, TREE_ROWS // 16)
    lines: list[tuple[Cell, ...]] = []
    reference = 0.0
    for distribution in ("uniform", "increasing"):
        context.progress.step(f"wib_tree, {distribution}")
        keys = draw_keys(distribution, rows, seed=SEED)
        tree = fill(make("wib_tree", rows), keys[: rows // 2], seal=False)
        figures = time_insertions(tree, keys[rows // 2 :], TREE_BATCH, repetitions=REPETITIONS, limit=2.0)
        result.runs += [{"wib_tree": distribution, "rows": taken, "seconds": seconds} for taken, seconds in figures]
        rate = sum(taken for taken, _ in figures) / sum(seconds for _, seconds in figures)
        reference = reference or rate
        lines.append((distribution, rate, rate / reference))
    result.tables.append(
        Table(
            f"wib_tree insertion, second half of {rows:,} rows, batches of {TREE_BATCH:,}",
            ("keys", "rows/s", "ratio to uniform"),
            lines,
        )
    )


EXPERIMENT: Final = Experiment(
    "splitters",
    Description(
        purpose="how soon RaP-Table's splitters cut evenly (figure 10f); WiB+-Tree insertion when keys keep growing",
        seed=SEED,
        shape="N_Sub = 1M and 8M, P = 1K, 16K, 64K as in the paper, and P = 64; splitters first even over 32 bits; "
        "rank_size: 99 % of keys in the lowest 1 % of 32 bits; rank_size_narrow: in the lowest 0.01 %",
        expected="convergence within 3 adjustments for all but increasing keys, in the worst case within log_P 2^32;"
        " no pairs, nothing is probed",
    ),
    run,
)
