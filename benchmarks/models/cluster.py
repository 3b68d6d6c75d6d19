"""A model of a cluster: the routing table and the balancer of the join, driven by generated load.

What runs is the real thing: generations, groups, the balancer with its settings. What is modelled are rows, by the
thousand: per micro-batch and group a Poisson number of each stream, and of pairs the expected number. What a row, a
pair or a message costs is measured with the real engine (:mod:`benchmarks.models.costs`), so a figure is in the seconds
of this machine's cores; ratios are what counts.

A core is busy with what reaches it in a micro-batch: rows (decode, probe), rows that it stores, pairs. What it cannot
do within the micro-batch waits. The *production delay* of a pair (section VI-A of "Parallelizing Windowed Stream Joins
in a Shared-Nothing Cluster") is the time since the later of its rows came: it waits for the end of the distribution
epoch, then for the master, who serves the cores one after the other, then for what its core still has to do. With
*sub-groups* (section V-B) the master serves the cores of each in a slot of its own, and buffers less.

*Waiting or handing over.* When groups get other owners, ours leaves stored rows where they are: new rows look for them
there until they expire. With ``hands_over``, as in the paper, the former owners hand them over: rows are cut out of
what a core stores, sent, and stored anew, and both cores do nothing else meanwhile. That writing to and reading from
Spark's state store, and the network, take time too is left out, so the price is a lower bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from benchmarks.models.costs import Costs
from benchmarks.models.epoch import Epoch
from benchmarks.models.hand_over import handed_over
from benchmarks.models.keys import Keys, Load
from benchmarks.models.paper_balance import Paper, reorganised
from watersmeet.arrays import Float64s, Int64s
from watersmeet.balance.balancer import Decision, Settings, decide, forget
from watersmeet.balance.generation import Generation, RoutingTable, first_generation
from watersmeet.balance.loads import Held

__all__ = ["ROW_BYTES", "Cluster", "Step"]

ROW_BYTES: Final = 24


@dataclass(frozen=True)
class Step:
    """What happened in one micro-batch."""

    busy: Float64s
    """Seconds of work that came to each core."""
    pairs: Float64s
    rows_sent: float
    delay: float
    """Mean production delay of its pairs."""
    served: Float64s
    """Seconds until each core has been served in its slot."""
    waiting: Float64s
    """Seconds of work that each core still has to do at its end."""
    idle: Float64s
    """Seconds in which each core has nothing to do."""
    buffered: float
    """The most rows of both streams that the master buffers."""
    handed_over: float
    """Bytes of stored rows that cores hand over at its beginning."""
    communication: Float64s
    """Seconds that each core spent receiving."""
    generation: int
    live: int
    active: Int64s
    old_rows: float
    """Rows in the window that older generations stored."""
    held: Float64s
    """Bytes in each core's windows."""

    @property
    def spread(self) -> float:
        """Largest over mean work of the active cores."""
        some = self.busy[self.active]
        return float(some.max() / some.mean())


@dataclass
class Cluster:
    """Cores with a routing table and, with ``settings``, a balancer."""

    cores: int
    costs: Costs
    window: int
    """In micro-batches."""
    seconds: float = 1.0
    """Length of a micro-batch, the distribution epoch."""
    epoch: int = 5
    """Micro-batches in a reorganisation epoch."""
    settings: Settings | Paper | None = None
    """Those of our balancer, or of the paper's; None: the first generation stays."""
    hands_over: bool = False
    """Whether stored rows are handed over to the groups' new owners."""
    sub_groups: int = 1
    """Sub-groups of cores, each served in a slot of its own."""
    indexed: bool = True
    """Whether rows are found by extendible hashing inside a core (fine tuning), or compared with all of their group."""
    active: int | None = None
    """Active cores at the beginning; all when not given."""
    senders: int = 1
    """Tasks that route, each of which sends every core a message."""
    seed: int = 0
    decisions: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        first = first_generation(self.cores, self.settings.groups if isinstance(self.settings, Paper) else None)
        if self.active is not None:
            owners = tuple((group % self.active,) for group in range(first.groups))
            first = Generation(0, 0, 0, owners, tuple(range(self.active)))
        self.generations = [first]
        self.slow = np.ones(self.cores)
        self._held: deque[tuple[int, int, Keys, Float64s, Float64s]] = deque()
        self._stored: dict[tuple[int, Keys], tuple[Float64s, Float64s]] = {}
        self._meeting: dict[tuple[Keys, Keys], Float64s] = {}
        self._waiting = np.zeros(self.cores)
        self._batch = 0
        self._random = np.random.default_rng(self.seed)
        self._entries: tuple[int, _Entries] | None = None
        self._epoch = Epoch(self.cores, first.groups)
        self._backlogs: list[Float64s] = []
        self._held_by = first

    @property
    def table(self) -> RoutingTable:
        """The routing table of the next micro-batch."""
        newest = max(generation.number for generation in self.generations if generation.first <= self._batch)
        return RoutingTable(tuple(self.generations[self.generations[newest].oldest : newest + 1]))

    def lose_executor(self, core: int) -> None:
        """Let a core's work be done by the machine of its neighbour, which then has twice as much to do."""
        self.slow[[core, (core + 1) % self.cores]] = 2.0

    def step(self, load: Load) -> Step:
        """Run one micro-batch."""
        table = self.table
        newest = table.newest
        groups = newest.groups
        if self._entries is None or self._entries[0] != newest.number:
            self._entries = newest.number, _Entries.of(table, self.cores)
        entries = self._entries[1]
        expected = load.rate * self.seconds * load.keys.share
        left, right = (self._random.poisson(expected).astype(float) for _ in range(2))
        moved = self._hand_over(table) if self.hands_over else 0.0
        pairs, of_group = np.zeros(self.cores), np.zeros(groups)
        self._hold(newest.number, load.keys, np.zeros(groups), right)  # right rows are stored before left ones probe
        for generation, keys, stored_left, stored_right in self._live(table):
            found = self._meet(load.keys, keys) * (left * stored_right + right * stored_left)
            of_group += found
            pairs += _over_owners(generation, found, self.cores)
        copies = entries.per_core(left, right)
        stored = np.bincount(newest.cores, np.repeat(left / newest.parts + right, newest.parts), self.cores)
        busy = self.costs.probe * copies + self.costs.store * stored + self.costs.pair * pairs
        if not self.indexed:
            busy += self.costs.comparison * self._comparisons(table, left, right)
        communication = self.senders * self.costs.message + self.costs.sent * copies
        communication[np.setdiff1d(np.arange(self.cores), table.cores)] = 0.0
        busy = (busy + communication) * self.slow
        idle = np.maximum(0.0, self.seconds - self._waiting - busy)
        served = self._served(communication)
        delay = self._delay(busy, served, pairs)
        self._hold(newest.number, load.keys, left, np.zeros(groups))
        self._expire()
        self._epoch.add((copies, pairs, busy), (left, right, of_group), self.seconds)
        self._backlogs.append(self._waiting * copies / np.maximum(busy, 1e-12))
        oldest = self._held[0][1]
        result = Step(
            busy,
            pairs,
            float(copies.sum()),
            delay,
            served,
            self._waiting,
            idle,
            self._buffered(copies),
            ROW_BYTES * moved,
            communication,
            newest.number,
            len(table.generations),
            np.array(newest.active),
            sum(
                float(rows.sum())
                for (number, _), held in self._stored.items()
                if number != newest.number
                for rows in held
            ),
            self._held_bytes(table)[0],
        )
        self._batch += 1
        self._reorganise(table, oldest, load)
        return result

    def _hand_over(self, table: RoutingTable) -> float:
        """Let former owners hand over what they have stored, when a generation takes effect; return the rows moved."""
        newest = table.newest
        if newest.number == self._held_by.number:
            return 0.0
        left, right = (sum(some, np.zeros(newest.groups)) for some in zip(*self._stored.values(), strict=True))
        given, taken = handed_over(self._held_by, newest, left, right, self.cores)
        looked_through = np.where(given > 0, self._held_bytes(table)[0] / ROW_BYTES, 0.0)
        cost = self.costs.sent * (given + taken) + self.costs.store * taken + self.costs.extract * looked_through
        self._waiting = self._waiting + cost * self.slow
        self._held_by = newest
        self._held = deque((at, newest.number, *rows) for at, _, *rows in self._held)  # type: ignore[misc]
        self._stored = {}
        for _, number, keys, *rows in self._held:
            held = self._stored.get((number, keys), (0.0, 0.0))
            self._stored[number, keys] = (held[0] + rows[0], held[1] + rows[1])
        return float(taken.sum())

    def _buffered(self, copies: Float64s) -> float:
        """Return the most rows that wait at the master: just before a slot, that sub-group has those of an epoch."""
        rows = np.bincount(np.arange(self.cores) % self.sub_groups, copies, self.sub_groups)
        since = (np.arange(self.sub_groups)[:, None] - np.arange(self.sub_groups)) % self.sub_groups
        return float((rows * np.where(since == 0, 1.0, since / self.sub_groups)).sum(1).max())

    def _held_bytes(self, table: RoutingTable) -> Float64s:
        """Return the bytes in each core's windows: all, then the left and right ones of the newest generation."""
        held = np.zeros((3, self.cores))
        for generation, _, left, right in self._live(table):
            parts = generation.parts
            both = [np.bincount(generation.cores, np.repeat(some, parts), self.cores) for some in (left / parts, right)]
            held[0] += ROW_BYTES * sum(both)
            if generation is table.newest:
                held[1:] += ROW_BYTES * np.stack(both)
        return held

    def _comparisons(self, table: RoutingTable, left: Float64s, right: Float64s) -> Float64s:
        """Return with how many stored rows the new ones are compared on each core."""
        compared = np.zeros(self.cores)
        for generation, _, stored_left, stored_right in self._live(table):
            compared += _over_owners(generation, left * stored_right + right * stored_left, self.cores)
        return compared

    def _live(self, table: RoutingTable) -> Iterator[tuple[Generation, Keys, Float64s, Float64s]]:
        """Yield what the window holds, by generation and by the keys' distribution: left and right rows per group."""
        for (number, keys), (left, right) in self._stored.items():
            yield table.generations[number - table.oldest], keys, left, right

    def _meet(self, new: Keys, stored: Keys) -> Float64s:
        if (new, stored) not in self._meeting:
            self._meeting[new, stored] = new.meet(stored)
        return self._meeting[new, stored]

    def _served(self, communication: Float64s) -> Float64s:
        """Return when each core has been served: after those that come before it in its sub-group."""
        served = np.zeros(self.cores)
        for group in range(self.sub_groups):
            served[group :: self.sub_groups] = np.cumsum(communication[group :: self.sub_groups]) / self.senders
        return served

    def _delay(self, busy: Float64s, served: Float64s, pairs: Float64s) -> float:
        delay = self.seconds / 2 + served + self._waiting + busy / 2
        self._waiting = np.maximum(0.0, self._waiting + busy - self.seconds)
        return float(delay @ pairs / max(pairs.sum(), 1e-12))

    def _hold(self, number: int, keys: Keys, left: Float64s, right: Float64s) -> None:
        """Keep rows in the window."""
        self._held.append((self._batch, number, keys, left, right))
        held = self._stored.setdefault((number, keys), (np.zeros_like(left), np.zeros_like(right)))
        self._stored[number, keys] = (held[0] + left, held[1] + right)

    def _expire(self) -> None:
        """Let go of what leaves the window."""
        while self._held[0][0] <= self._batch - self.window:
            _, number, keys, left, right = self._held.popleft()
            held = self._stored[number, keys]
            self._stored[number, keys] = (held[0] - left, held[1] - right)
        live = {(number, keys) for _, number, keys, _, _ in self._held}
        self._stored = {key: held for key, held in self._stored.items() if key in live}

    def _reorganise(self, table: RoutingTable, oldest: int, load: Load) -> None:
        """Ask the balancer, at the end of an epoch and whenever something may be forgotten."""
        if self.settings is None or len(self.generations) > table.newest.number + 1:
            return
        ends = self._batch % self.epoch == 0
        if isinstance(self.settings, Paper):
            if ends:
                share = 2 * load.rate / self.cores
                occupancy = np.mean(self._backlogs, axis=0) / (self.settings.buffer_seconds * share)
                self._add(reorganised(table.newest, occupancy, self._batch, self.settings, self._random))
                self._backlogs.clear()
            return
        plan = forget(table, self._batch - 1, oldest)
        if ends:
            held = [Held(*some) for some in self._held_bytes(table).T.tolist()]
            observation = self._epoch.observation(self._batch - 1, oldest, table.newest, held)
            decided = decide(table, observation, self.cores, self.settings)
            plan = decided if decided.generation is not None else plan
            self._backlogs.clear()
        self.decisions += plan.decisions
        self._add(plan.generation)

    def _add(self, generation: Generation | None) -> None:
        """Add a generation; if rows are handed over, no row is left in an older one's places."""
        if generation is not None:
            oldest = generation.number if self.hands_over else generation.oldest
            self.generations.append(replace(generation, oldest=oldest))


def _over_owners(generation: Generation, load: Float64s, cores: int) -> Float64s:
    """Return each core's part of the groups' load, which a group's owners share evenly."""
    return np.asarray(np.bincount(generation.cores, np.repeat(load / generation.parts, generation.parts), cores), float)


@dataclass(frozen=True)
class _Entries:
    """To which cores rows of each group go: every pair of group and core once, with the part of the left rows."""

    group: Int64s
    core: Int64s
    left: Float64s
    cores: int

    @classmethod
    def of(cls, table: RoutingTable, cores: int) -> _Entries:
        codes, parts = [], []
        for generation in table.generations:
            group = np.repeat(np.arange(generation.groups), generation.parts)
            codes.append(group * cores + generation.cores)
            parts.append(1.0 / np.repeat(generation.parts, generation.parts))
        distinct, where = np.unique(np.concatenate(codes), return_inverse=True)
        left = np.zeros(len(distinct))
        np.maximum.at(left, where, np.concatenate(parts))
        return cls(distinct // cores, distinct % cores, left, cores)

    def per_core(self, left: Float64s, right: Float64s) -> Float64s:
        """Return how many rows reach each core."""
        rows = left[self.group] * self.left + right[self.group]
        return np.asarray(np.bincount(self.core, rows, self.cores), float)
