"""What the paper's design decisions are worth: each taken out, everything else the same, in one run.

- *Unsorted leaves* (section III-C): a WiB+-Tree that keeps its leaves sorted has to move rows at every insertion.
- *The insertion buffer* (figure 12f): BI-Sort as in the paper, a main array and an unsorted buffer of a fixed size that
  is scanned. Ours has a few sorted arrays instead, which have no size to choose.
- *The rebounding search* (figure 6): a batch's partitions, searched for from where the row before was found, or each
  from the whole of the splitters.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final

import numpy as np

from benchmarks.experiment import Context, DisagreementError, Experiment, cpu_seconds_of, median
from benchmarks.report import Cell, Description, Result, Table
from benchmarks.structures import entries_of, fill, make, probes_of, time_insertions, warm_up
from watersmeet.arrays import Int32s, Int64s
from watersmeet.kernels.compile import kernel
from watersmeet.kernels.instructions import prefetch
from watersmeet.kernels.llat import Table as LlatTable
from watersmeet.kernels.rap_table import find_partitions
from watersmeet.kernels.wib_tree import AHEAD, ENTRIES, HEIGHT, NODES, _make_room
from watersmeet.subwindow.bi_sort import BiSort
from watersmeet.subwindow.contract import Entries, Matches, Probes, Subwindow, count_matches
from watersmeet.subwindow.scan import Scan
from watersmeet.subwindow.wib_tree import WibTree

__all__ = ["EXPERIMENT"]

SEED: Final = 87
ROWS: Final = 1 << 20
LEAVES: Final = (64, 128, 512, 2048)
LEAF_BATCH: Final = 1 << 12
BUFFERS: Final = (1 << 8, 1 << 10, 1 << 12, 1 << 14)
BATCHES: Final = (1 << 5, 1 << 8, 1 << 10, 1 << 12)
SPLITTERS: Final = (1 << 10, 1 << 16)
SEARCHED: Final = (1 << 7, 1 << 10, 1 << 13, 1 << 16, 1 << 19)
REPETITIONS: Final = 5
LIMIT_SECONDS: Final = 0.5
STEP: Final = 256


@kernel
def _insert_in_order(  # noqa: PLR0917 -- what insert_rows takes
    table: LlatTable,
    width: int,
    following: Int32s,
    upper: Int64s,
    separator: Int64s,
    child: Int32s,
    size: Int32s,
    state: Int64s,
    new_key: Int64s,
    new_row: Int32s,
    located: Int32s,
    i: int,
) -> int:
    """Do what ``insert_rows`` does, but move the larger rows of a leaf to let a row in."""
    key, row, start, fill_, next_entry, last = table
    sort_room = (
        np.empty(width, np.int64),
        np.empty(width, np.int32),
        np.empty(width, np.int64),
        np.empty(width, np.int32),
    )
    while i < len(new_key):
        if i + AHEAD < len(new_key):
            later = last[located[i + AHEAD]]
            prefetch(key, start[later] + fill_[later])
            prefetch(row, start[later] + fill_[later])
        leaf = located[i]
        k = new_key[i]
        while k > upper[leaf]:
            leaf = following[leaf]
        entry = last[leaf]
        if fill_[entry] == width or (next_entry[leaf] >= 0 and k != key[start[leaf]]):
            if state[ENTRIES] == len(fill_) or state[NODES] + state[HEIGHT] + 1 > len(size):
                return i
            _make_room(table, width, following, upper, separator, child, size, state, int(leaf), k, sort_room)
            continue
        begin = start[entry]
        at = begin + fill_[entry]
        while at > begin and key[at - 1] > k:
            key[at] = key[at - 1]
            row[at] = row[at - 1]
            at -= 1
        key[at] = k
        row[at] = new_row[i]
        fill_[entry] += 1
        i += 1
    return i


class _SortedLeaves(WibTree):
    """A WiB+-Tree whose leaves are sorted."""

    def insert(self, entries: Entries) -> None:
        """Store a sorted batch, each row at its place in its leaf."""
        located, done = self._find(entries.key), 0
        while True:
            inner = self._separator, self._child, self._children, self._state
            done = _insert_in_order(
                self._table,
                self._width,
                self._following,
                self._upper,
                *inner,
                entries.key,
                entries.row,
                located,
                done,
            )
            if done == len(entries):
                break
            self._grow()
        self._size += len(entries)


class _Buffered:
    """BI-Sort as in the paper: a main array, and a buffer that is scanned until it is full."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._main = BiSort(0)
        self._buffer = Scan(size)
        self._held = 0

    def insert(self, entries: Entries) -> None:
        """Put rows into the buffer; a batch that is larger goes into the main array at once (section III-E)."""
        if len(entries) < self._size:
            self._buffer.insert(entries)
            self._held += len(entries)
            if self._held < self._size:
                return
            entries = self._buffer.snapshot()
            self._buffer, self._held = Scan(self._size), 0
        self._main.insert(entries)
        self._main.seal()  # one array

    def probe(self, probes: Probes) -> Iterator[Matches]:
        """Search the main array and scan the buffer."""
        yield from self._main.probe(probes)
        yield from self._buffer.probe(probes)


@kernel
def _plain_search(splitters: Int64s, bound: Int64s) -> Int32s:
    """Return the partition of every bound by a binary search over all splitters."""
    partition = np.empty(len(bound), np.int32)
    for q in range(len(bound)):
        low = 0
        high = len(splitters)
        while low < high:
            middle = (low + high) >> 1
            if splitters[middle] < bound[q]:
                low = middle + 1
            else:
                high = middle
        partition[q] = low
    return partition


def run(context: Context) -> Result:
    """Take out one decision after the other."""
    warm_up()
    result = Result()
    result.tables = [_leaves(context, result), _buffers(context, result), _searches(context, result)]
    return result


def _leaves(context: Context, result: Result) -> Table:
    """Insert the second half of a tree's rows, leaves sorted and not."""
    rows = context.size(ROWS)
    keys = np.random.default_rng(SEED).integers(0, STEP * rows, rows)
    probes = probes_of(keys[:LEAF_BATCH], STEP)
    lines: list[tuple[Cell, ...]] = []
    for width in LEAVES:
        rates, found = [], []
        for kind in (WibTree, _SortedLeaves):
            context.progress.step(f"{kind.__name__}, leaves of {width}")
            tree = kind(rows, leaf_width=width)
            fill(tree, keys[: rows // 2], seal=False)
            figures = time_insertions(tree, keys[rows // 2 :], LEAF_BATCH, repetitions=1, limit=LIMIT_SECONDS)
            rates.append(sum(taken for taken, _ in figures) / sum(seconds for _, seconds in figures))
            whole = fill(kind(rows, leaf_width=width), keys, seal=False)
            found.append(count_matches(whole.probe(probes)))
        _agree(f"leaves of {width}", found)
        result.runs.append({"leaf_width": width, "rates": rates, "matches": found[0]})
        lines.append((width, *rates, rates[0] / rates[1]))
    return Table(
        f"wib_tree, {rows:,} rows, insertion in batches of {LEAF_BATCH:,}: rows/s",
        ("rows of a leaf", "unsorted leaves", "sorted leaves", "unsorted is faster by"),
        lines,
        "the paper: 3 to 5 times",
    )


def _buffers(context: Context, result: Result) -> Table:
    """Probe with a batch and insert it, into a half-full subwindow."""
    rows = context.size(ROWS)
    keys = np.random.default_rng(SEED + 1).integers(0, STEP * rows, rows)
    filled: dict[str, Subwindow | _Buffered] = {f"buffer {size:,}": _Buffered(size) for size in BUFFERS}
    filled["ours"] = make("bi_sort", rows)
    for structure in filled.values():
        for entries in entries_of(keys[: rows // 2], max(BUFFERS) * 2):
            structure.insert(entries)
    lines: list[tuple[Cell, ...]] = []
    for batch in BATCHES:
        rates, found = {}, []
        count = max(1, min(context.size(2 * max(BUFFERS)), rows // 2) // batch)
        new = list(entries_of(keys[rows // 2 : rows // 2 + count * batch], batch, rows // 2))
        probes = [probes_of(entries.key, STEP) for entries in new]
        for name, structure in filled.items():
            context.progress.step(f"{name}, batches of {batch:,}")
            taken = copy.deepcopy(structure)
            matches: list[int] = []

            def work(taken: Subwindow | _Buffered = taken, matches: list[int] = matches) -> None:
                for entries, some in zip(new, probes, strict=True):  # noqa: B023 -- called at once
                    matches.append(count_matches(taken.probe(some)))
                    taken.insert(entries)

            rates[name] = count * batch / cpu_seconds_of(work)
            found.append(sum(matches))
        _agree(f"buffers, batches of {batch}", found)
        result.runs.append({"batch": batch, "rates": rates, "matches": found[0]})
        lines.append((batch, *rates.values()))
    return Table(
        f"bi_sort, half of {rows:,} rows: probing and inserting, rows/s",
        ("batch", *filled),
        lines,
        "a buffer: as in the paper, unsorted and scanned, merged into one main array when it is full",
    )


def _searches(context: Context, result: Result) -> Table:
    """Find the partitions of sorted batches."""
    rng = np.random.default_rng(SEED + 2)
    lines: list[tuple[Cell, ...]] = []
    for count in SPLITTERS:
        splitters = np.sort(rng.integers(0, 1 << 32, count - 1))
        for batch in SEARCHED:
            context.progress.step(f"{count:,} partitions, batches of {batch:,}")
            bounds = [np.sort(rng.integers(0, 1 << 32, batch)) for _ in range(max(1, context.size(1 << 19) // batch))]
            rates = []
            for search in (find_partitions, _plain_search):
                search(splitters, bounds[0])
                seconds = [
                    cpu_seconds_of(lambda: [search(splitters, bound) for bound in bounds])  # noqa: B023 -- called at once
                    for _ in range(REPETITIONS)
                ]
                rates.append(len(bounds) * batch / median(seconds))
            _agree(
                f"{count} partitions",
                [int(search(splitters, bounds[0]).sum()) for search in (find_partitions, _plain_search)],
            )
            result.runs.append({"partitions": count, "batch": batch, "rates": rates})
            lines.append((count, batch, *rates, rates[0] / rates[1]))
    return Table(
        "finding the partitions of a sorted batch: rows/s",
        ("partitions", "batch", "rebounding search", "binary search", "rebounding is faster by"),
        lines,
    )


def _agree(what: str, found: list[int]) -> None:
    if len(set(found)) > 1:
        raise DisagreementError(f"{what}: {found}")


EXPERIMENT: Final = Experiment(
    "ablations",
    Description(
        purpose="what unsorted leaves, the insertion buffer and the rebounding search are worth",
        seed=SEED,
        shape="1M uniform keys; leaves of 64 to 2,048 rows; buffers of 256 to 16K rows; 1K and 64K partitions",
        expected="equal answers; unsorted leaves, no buffer, and the rebounding search in large batches win",
    ),
    run,
)
