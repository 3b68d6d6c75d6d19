"""Which cores store a row, and which cores it probes, while the routing table changes.

Under one generation a left row has *one home*: the core that owns the group of its bucket or, if the group is cut, one
of its owners in turn. A right row has *several homes*: all owners of all groups that its band touches, which are the
homes of all left rows that it can meet. (With hash routing the band is one key.) Let *n* be the newest generation and
*g* any live one:

- a left row is stored at its home under *n*, a right row at all its homes under *n*, once at each;
- a right row probes all left rows at all its homes under every live *g*, once at each core;
- a left row probes, for every live *g*, the right rows that were stored under *g* at its home under *g*.

**Every pair meets once.** Let *l* and *r* match, so *r*'s band touches *l*'s bucket.

- *l* came first, under *g*. It lies at one core, its home under *g*, which is one of *r*'s homes under *g*. There *r*
  probes once.
- *r* came first, under *g*. One copy of *r* lies at *l*'s home under *g*, and *l* probes rows of *g* at no other core.
  (That is why runs of right rows are never merged across generations: at a core where *l* probes rows of another
  generation there may be a copy of *r* for another bucket.)
- Both came in one micro-batch. Left rows probe before right rows are stored, and right rows probe after left rows are
  stored. So *l* does not find *r*, and *r* finds *l* as if it had come first, under *n*.

The proof looks at one generation at a time. So generations may differ in everything but the number of groups, also in
the width of buckets.

**Many streams.** A result has a row of the *centre*, placed like a left row, and rows of other streams, placed like
right ones. Every row is stored at all its homes under every live *g*, and a centre row knows under which of them its
home is here. A result is given where its centre row has its home under *m*, the oldest generation by which any of its
rows came, and nowhere else.

- Once: a centre row has one home under *m*.
- At all: its rows came while *m* was live, because one that came under *m* was in the window. So each is stored at all
  its homes under *m*; those of the other streams' rows are the homes of all centre rows that they can meet. There the
  row that comes last finds the others.

So former owners of a group store its new rows too, until the older ones have expired.

**Cost.** No stored row moves. A row whose group has one owner, the same in all live generations, goes to that core
alone. If a group is cut into *k* parts, its left rows go to one core each and its right rows to *k*. SplitJoin's rule
sends both to *k* cores, but stores right rows once instead of *k* times. It cannot be used with buckets: a right row
that comes to two owners of a cut group, to one for its own bucket and to the other for a neighbouring bucket, would be
found twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.balance.generation import Generation, RoutingTable
from watersmeet.balance.generation_sets import GenerationSets
from watersmeet.kernels.text import mix_hashes

__all__ = ["Buckets", "Route", "Span", "Turns", "place_left", "place_right"]

Cores = npt.NDArray[np.uint16]
Span = tuple[Int64s, Int64s]
"""The first and the last bucket of every row: one and the same array where each row has one bucket, as left rows do."""
Turns = Callable[[], Int64s]
"""Returns a number for every row, by which rows are spread evenly; it is the same if the task is run again."""

MOST_CORES: Final = 1 << 16
"""Core numbers have 16 bits, so that they are sorted in linear time."""
FEW_CORES: Final = 8
"""Up to this number of cores, comparing rows with each core is faster than sorting."""


@dataclass(frozen=True, slots=True)
class Route:
    """The rows of a batch that one core gets."""

    core: int
    rows: Int64s
    stored: Bools | None = None
    """Which of them have a home here under the newest generation (None: all). A core of a join of two streams stores
    these alone, one of many streams stores all."""
    probed: GenerationSets | None = None
    """The generations under which each left row has its home here (None: all)."""
    group: Int32s | None = None
    """If groups are counted, the group that each row counts for, or ``~group`` for a copy of a row (see
    :mod:`watersmeet.balance.loads`)."""
    judged: Bools | None = None
    """Which of them the core judges, in a join that gives rows that met nobody; None: all."""


class Buckets:
    """The buckets of some rows, and the groups of these: each found when first asked for, and once.

    Parameters
    ----------
    find
        Gives the buckets of a width, which is measured in widths of the band.
    """

    def __init__(self, find: Callable[[int], Span]) -> None:
        self._find = find
        self._spans: dict[int, Span] = {}
        self._groups: dict[int, Int64s] = {}

    def span(self, width: int) -> Span:
        """Return the first and the last bucket of every row."""
        if width not in self._spans:
            self._spans[width] = self._find(width)
        return self._spans[width]

    def groups(self, generation: Generation) -> Int64s:
        """Return the group of every row's first bucket."""
        width = generation.width
        if width not in self._groups:
            self._groups[width] = generation.group_of(self.span(width)[0])
        return self._groups[width]


def place_left(table: RoutingTable, buckets: Buckets, turns: Turns) -> list[Route]:
    """Return the cores that left rows go to; ``turns`` choose among the owners of a cut group."""
    once = cache(turns)
    home = _homes(table.newest, buckets.groups(table.newest), once)
    moved = np.zeros(len(home), bool)
    for generation, steady in table.steady:
        group = buckets.groups(generation)
        moved |= ~steady[group]
        if generation is not table.newest:
            moved |= _homes(generation, group, once) != home
    if not moved.any():
        return [Route(core, rows) for core, rows in _by_core(home)]
    stay, move = np.flatnonzero(~moved), np.flatnonzero(moved)
    row, core, sets = _moved(table, buckets, once, move)
    rows, cores = np.concatenate([stay, row]), np.concatenate([home[stay], core])
    stored = np.concatenate([np.ones(len(stay), bool), sets.have(0)])
    probed = GenerationSets.joined([None, sets], [len(stay), len(row)])
    assert probed is not None, "rows have moved"
    routes = []
    for number, some in _by_core(cores):
        own = probed.keep(some)
        routes.append(Route(number, rows[some], stored[some], None if own.are_all.all() else own))
    return routes


def _moved(table: RoutingTable, buckets: Buckets, turns: Turns, rows: Int64s) -> tuple[Int64s, Cores, GenerationSets]:
    """Return each row with each core that is its home under any live generation, and under which generations."""
    homes = []
    for generation in table.generations:
        group = buckets.groups(generation)[rows]
        homes.append(_homes(generation, group, lambda: turns()[rows]))
    code = np.concatenate(homes) + np.tile(rows, len(homes)) * MOST_CORES
    back = np.repeat(np.arange(len(homes))[::-1], len(rows))
    found, at = np.unique(code, return_inverse=True)
    return found // MOST_CORES, (found % MOST_CORES).astype(np.uint16), GenerationSets.of(back, at, len(found))


def place_right(table: RoutingTable, buckets: Buckets) -> list[Route]:
    """Return the cores that right rows go to."""
    newest = table.newest
    home = newest.first_owner[buckets.groups(newest)]
    single = np.ones(len(home), bool)  # rows with one home, the same under all live generations
    for generation, steady in table.steady:
        low, high = buckets.span(generation.width)
        if high is not low:
            single &= low == high
        group = buckets.groups(generation)
        single &= steady[group] & (generation.parts[group] == 1) & (generation.first_owner[group] == home)
    if single.all():
        return [Route(core, rows) for core, rows in _by_core(home)]
    some = np.flatnonzero(~single)
    wanted = [_copies(owners, buckets.span(owners.width), some) for owners in table.owners]
    if len(table.generations) == 1:
        copies, kept = wanted[0], None
    else:
        copies = np.unique(np.concatenate(wanted))
        kept = np.isin(copies, _copies(newest, buckets.span(newest.width), some), assume_unique=True)
    alone = np.flatnonzero(single)
    row = np.concatenate([alone, copies // MOST_CORES])
    core = np.concatenate([home[alone], (copies % MOST_CORES).astype(np.uint16)])
    stored = None if kept is None else np.concatenate([np.ones(len(alone), bool), kept])
    return [Route(number, row[which], None if stored is None else stored[which]) for number, which in _by_core(core)]


def _homes(generation: Generation, group: Int64s, turns: Turns) -> Cores:
    """Return the home of each left row under a generation, by its group."""
    if not generation.is_cut:
        return generation.first_owner[group]
    # Hashed, because a stream may repeat itself with a period equal to the number of parts.
    turn = mix_hashes(np.zeros(len(group), np.int64), turns())
    at = generation.offsets[group] + (turn & np.iinfo(np.int64).max) % generation.parts[group]
    return generation.cores[at].astype(np.uint16)


def _copies(generation: Generation, buckets: Span, rows: Int64s) -> Int64s:
    """Return a number for every row and each of its homes under a generation."""
    low, high = buckets[0][rows], buckets[1][rows]
    last = int((high - low).max(initial=0))
    if generation.is_cut:
        return np.unique(np.concatenate([_cut_copies(generation, low, high, rows, step) for step in range(last + 1)]))
    found: list[Int64s] = []
    cores: list[Cores] = []
    for step in range(last + 1):
        # A row whose band does not reach this bucket gets its last bucket again, and that core is dropped below.
        core = generation.first_owner[generation.group_of(np.minimum(low + step, high))]
        fresh = np.ones(len(rows), bool)
        for earlier in cores:
            fresh &= core != earlier
        cores.append(core)
        found.append(rows[fresh] * MOST_CORES + core[fresh])
    return np.concatenate(found)


def _cut_copies(generation: Generation, low: Int64s, high: Int64s, rows: Int64s, step: int) -> Int64s:
    """Return what :func:`_copies` does for one bucket of each row, whose group may be cut."""
    reached = np.flatnonzero(high - low >= step)
    group = generation.group_of(low[reached] + step)
    count = generation.parts[group]
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    core = generation.cores[np.repeat(generation.offsets[group], count) + within]
    return np.asarray(np.repeat(rows[reached], count) * MOST_CORES + core, np.int64)


def _by_core(core: Cores) -> Iterator[tuple[int, Int64s]]:
    """Yield each core that occurs, and the positions at which it does."""
    sizes = np.bincount(core)
    numbers = np.flatnonzero(sizes).tolist()
    if len(numbers) <= FEW_CORES:
        yield from ((number, np.flatnonzero(core == number)) for number in numbers)
        return
    order = np.argsort(core, kind="stable")
    ends = np.cumsum(sizes)
    for number in numbers:
        yield number, order[ends[number] - sizes[number] : ends[number]]
