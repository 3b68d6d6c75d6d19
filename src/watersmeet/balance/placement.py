"""Where rows are stored and where they look for partners, while the routing table changes.

Under one generation a left row has *one place*: a core that owns the group of its bucket; if the group is cut, one of
its cores, in turn. A right row is wanted at *all cores* of all groups that its band touches, the places of all left
rows it can meet. (With hash routing the band is one key.) Then, with the newest generation *n* and any live *g*:

- a left row is stored at its place under *n*, a right row at all its cores under *n*, once at each;
- a right row probes all left rows at all its cores under any live *g*, once at each;
- a left row probes the right rows that were stored under *g* at its place under *g*, for every live *g*.

**Every pair meets once.** Let *l* and *r* match, so *r*'s band touches *l*'s bucket.
*l* came first, under *g*: it lies at one core, its place under *g*, which is one of *r*'s cores under *g*; *r* probes
there once. *r* came first, under *g*: at *l*'s place under *g* lies one copy of *r*, and nowhere else does *l* probe
rows of *g*. (That is why runs of right rows are never mixed across generations: at a core where *l* looks for rows of
another generation there may lie a copy of *r* that is meant for another bucket.) Both came in one micro-batch: left
rows probe before right rows are stored, and right rows probe after left rows are, so *l* does not find *r*, and *r*
finds *l* as if it had come before, under *n*. The proof takes one generation at a time, so generations may differ in
everything but the number of groups, in the width of buckets too.

**Cost.** No stored row moves. A row whose group has one core, the same in all live generations, goes to that core
alone. Cutting a group in *k* parts sends its left rows to one core each and its right rows to *k*: fewer copies than
SplitJoin's rule, where both sides probe on all *k*; in return the right rows are also stored *k* times. (SplitJoin's
rule would store them once, but with buckets a row found at two of a cut group's cores, at one for its own bucket and at
the other for a neighbour's, would be found twice.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.balance.generation import Generation, RoutingTable
from watersmeet.kernels.text import mix_hashes

__all__ = ["Buckets", "Route", "Span", "Turns", "place_left", "place_right"]

Cores = npt.NDArray[np.uint16]
Span = tuple[Int64s, Int64s]
"""The first and the last bucket of every row: one and the same array where each row has one bucket, as left rows do."""
Turns = Callable[[], Int64s]
"""Gives a number for every row, the same if its task is run again: by it rows are shared out evenly."""

MOST_CORES: Final = 1 << 16
"""Core numbers have 16 bits, which are sorted in linear time."""
FEW_CORES: Final = 8
"""Up to so many, looking for each of them is faster than sorting."""


@dataclass(frozen=True, slots=True)
class Route:
    """The rows of a batch that one core gets."""

    core: int
    rows: Int64s
    stored: Bools | None = None
    """Which of them it keeps (None: all)."""
    probed: Int64s | None = None
    """The generations whose right rows each left row looks into here: bit *i* is the *i*-th live one (None: all)."""
    group: Int32s | None = None
    """The group that each row counts for, where groups are counted; ``~group`` where it is a copy for that group's sake
    (see :mod:`watersmeet.balance.loads`)."""


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
        if generation.number not in self._groups:
            self._groups[generation.number] = generation.group_of(self.span(generation.width)[0])
        return self._groups[generation.number]


def place_left(table: RoutingTable, buckets: Buckets, turns: Turns) -> list[Route]:
    """Return where left rows go; ``turns`` say to which part of a cut group."""
    places = [_places(generation, buckets.groups(generation), turns) for generation in table.generations]
    home = places[-1]
    moved = np.zeros(len(home), bool)
    for place in places[:-1]:
        moved |= place != home
    if not moved.any():
        return [Route(core, rows) for core, rows in _by_core(home)]
    everywhere = (1 << len(places)) - 1
    stay, move = np.flatnonzero(~moved), np.flatnonzero(moved)
    row = np.concatenate([stay, *[move] * len(places)])
    core = np.concatenate([home[stay], *(place[move] for place in places)])
    bits = np.repeat([everywhere, *(1 << at for at in range(len(places)))], [len(stay), *[len(move)] * len(places)])
    # A moved row may have the same core under several generations: its bits there are put together.
    order = np.lexsort((row, core))
    row, core, bits = row[order], core[order], bits[order]
    begins = np.flatnonzero(np.concatenate([[True], (row[1:] != row[:-1]) | (core[1:] != core[:-1])]))
    row, core, bits = row[begins], core[begins], np.bitwise_or.reduceat(bits, begins)
    stored = (bits >> (len(places) - 1)).astype(bool)
    return [Route(number, row[some], stored[some], bits[some]) for number, some in _by_core(core)]


def place_right(table: RoutingTable, buckets: Buckets) -> list[Route]:
    """Return where right rows go."""
    newest = table.newest
    home = newest.first_owner[buckets.groups(newest)]
    single = np.ones(len(home), bool)  # rows that go to one core, the same under all live generations
    for generation in table.generations:
        low, high = buckets.span(generation.width)
        if high is not low:
            single &= low == high
        if generation is not newest or generation.is_cut:
            group = buckets.groups(generation)
            single &= (generation.parts[group] == 1) & (generation.first_owner[group] == home)
    if single.all():
        return [Route(core, rows) for core, rows in _by_core(home)]
    some = np.flatnonzero(~single)
    wanted = [_copies(generation, buckets.span(generation.width), some) for generation in table.generations]
    if len(wanted) == 1:
        copies, kept = wanted[0], None
    else:
        copies = np.unique(np.concatenate(wanted))
        kept = np.isin(copies, wanted[-1], assume_unique=True)
    alone = np.flatnonzero(single)
    row = np.concatenate([alone, copies // MOST_CORES])
    core = np.concatenate([home[alone], (copies % MOST_CORES).astype(np.uint16)])
    stored = None if kept is None else np.concatenate([np.ones(len(alone), bool), kept])
    return [Route(number, row[which], None if stored is None else stored[which]) for number, which in _by_core(core)]


def _places(generation: Generation, group: Int64s, turns: Turns) -> Cores:
    """Return the one core of each left row under a generation, by its group."""
    if not generation.is_cut:
        return generation.first_owner[group]
    # Mixed, as a stream may repeat itself with the same period as the parts.
    turn = mix_hashes(np.zeros(len(group), np.int64), turns())
    at = generation.offsets[group] + (turn & np.iinfo(np.int64).max) % generation.parts[group]
    return generation.cores[at].astype(np.uint16)


def _copies(generation: Generation, buckets: Span, rows: Int64s) -> Int64s:
    """Return a number for every row and core that wants it under a generation, each once."""
    low, high = buckets[0][rows], buckets[1][rows]
    last = int((high - low).max(initial=0))
    if generation.is_cut:
        return np.unique(np.concatenate([_cut_copies(generation, low, high, rows, step) for step in range(last + 1)]))
    found: list[Int64s] = []
    cores: list[Cores] = []
    for step in range(last + 1):
        # Rows whose band does not reach so far have their last bucket once more, whose core they have already.
        core = generation.first_owner[generation.group_of(np.minimum(low + step, high))]
        fresh = np.ones(len(rows), bool)
        for earlier in cores:
            fresh &= core != earlier
        cores.append(core)
        found.append(rows[fresh] * MOST_CORES + core[fresh])
    return np.concatenate(found)


def _cut_copies(generation: Generation, low: Int64s, high: Int64s, rows: Int64s, step: int) -> Int64s:
    """Return the same for one bucket of each row, whose group may be cut."""
    reached = np.flatnonzero(high - low >= step)
    group = generation.group_of(low[reached] + step)
    count = generation.parts[group]
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    core = generation.cores[np.repeat(generation.offsets[group], count) + within]
    return np.asarray(np.repeat(rows[reached], count) * MOST_CORES + core, np.int64)


def _by_core(core: Cores) -> Iterator[tuple[int, Int64s]]:
    """Yield each core that occurs, and where it does."""
    sizes = np.bincount(core)
    numbers = np.flatnonzero(sizes).tolist()
    if len(numbers) <= FEW_CORES:
        yield from ((number, np.flatnonzero(core == number)) for number in numbers)
        return
    order = np.argsort(core, kind="stable")
    ends = np.cumsum(sizes)
    for number in numbers:
        yield number, order[ends[number] - sizes[number] : ends[number]]
