"""A model of a cluster: the routing table and the balancer of the join, driven by generated load.

What runs is the real thing: generations, groups, the balancer with its settings. What is modelled are rows, by the
thousand: per micro-batch and group a Poisson number of each stream, and of pairs the expected number. What a row, a
pair or a message costs is measured with the real engine (:mod:`benchmarks.models.costs`), so a figure is in the seconds
of this machine's cores; ratios are what counts.

Keys follow the b-model: of every interval of the key's range one half has the fraction ``b`` of its rows, at every
scale. Two rows of a group meet with the probability that follows from the keys that hash to it.

A core is busy with what reaches it in a micro-batch: rows (decode, probe), rows that it stores, pairs. What it cannot
do within the micro-batch waits. The *production delay* of a pair (section VI-A of "Parallelizing Windowed Stream Joins
in a Shared-Nothing Cluster") is the time since the later of its rows came: it waits for the end of the distribution
epoch, then for the master, who serves the cores one after the other, then for what its core still has to do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from benchmarks.models.costs import Costs
from watersmeet.arrays import Float64s, Int64s
from watersmeet.balance.balancer import Decision, Settings, decide, forget
from watersmeet.balance.generation import Generation, RoutingTable, first_generation
from watersmeet.balance.loads import FADING, HEAVIEST, CoreLoad, GroupLoad, GroupReport, Held, Observation

__all__ = ["ROW_BYTES", "Cluster", "Keys", "Load", "Step", "b_model"]

ROW_BYTES: Final = 24


def b_model(b: float, levels: int) -> Float64s:
    """Return the probabilities of ``2 ** levels`` keys: one half of every interval has ``b`` of its rows."""
    keys = np.ones(1)
    for _ in range(levels):
        keys = np.concatenate([keys * b, keys * (1 - b)])
    return keys


@dataclass(frozen=True, eq=False)
class Keys:
    """How rows spread over groups, and how likely two rows of one group meet."""

    share: Float64s
    meeting: Float64s
    probabilities: Float64s
    """Of every key; empty where keys are too many to tell one from another."""
    group: Int64s

    @classmethod
    def of(cls, probabilities: Float64s, generation: Generation) -> Keys:
        """Hash keys, which are numbered from 0, to groups."""
        return cls._hashed(probabilities, generation.group_of(np.arange(len(probabilities))), generation.groups)

    @classmethod
    def uniform(cls, keys: float, generation: Generation, seed: int) -> Keys:
        """Spread any number of keys that all are equally likely; how many a group gets is random."""
        count = np.maximum(1, np.random.default_rng(seed).poisson(keys / generation.groups, generation.groups))
        return cls(count / count.sum(), 1 / count, np.empty(0), np.empty(0, np.int64))

    @classmethod
    def _hashed(cls, probabilities: Float64s, group: Int64s, groups: int) -> Keys:
        share = np.asarray(np.bincount(group, probabilities, groups), float)
        both = np.bincount(group, probabilities**2, groups)
        return cls(share, np.divide(both, share**2, out=np.zeros(groups), where=share > 0), probabilities, group)

    def drifted(self, places: int) -> Keys:
        """Return the same probabilities for other keys, so many places away."""
        return self._hashed(np.roll(self.probabilities, places), self.group, len(self.share))

    def meet(self, others: Keys) -> Float64s:
        """Return for every group how likely a row of these keys meets one of others."""
        if others is self:
            return self.meeting
        both = np.bincount(self.group, self.probabilities * others.probabilities, len(self.share))
        all_pairs = self.share * others.share
        return np.divide(both, all_pairs, out=np.zeros(len(self.share)), where=all_pairs > 0)


@dataclass(frozen=True)
class Load:
    """Rows of each stream per second, and how they are spread."""

    rate: float
    keys: Keys


@dataclass(frozen=True)
class Step:
    """What happened in one micro-batch."""

    busy: Float64s
    """Seconds of work that came to each core."""
    pairs: Float64s
    rows_sent: float
    delay: float
    """Mean production delay of its pairs."""
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
    settings: Settings | None = None
    indexed: bool = True
    """Whether rows are found by extendible hashing inside a core (fine tuning), or compared with all of their group."""
    active: int | None = None
    """Active cores at the beginning; all when not given."""
    senders: int = 1
    """Tasks that route, each of which sends every core a message."""
    seed: int = 0
    decisions: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        first = first_generation(self.cores)
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
        self._epoch = _Epoch(self.cores, first.groups)

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
        delay = self._delay(busy, communication, pairs)
        self._hold(newest.number, load.keys, left, np.zeros(groups))
        self._expire()
        self._epoch.add((copies, pairs, busy), (left, right, of_group), self.seconds)
        oldest = self._held[0][1]
        result = Step(
            busy,
            pairs,
            float(copies.sum()),
            delay,
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
        self._reorganise(table, oldest)
        return result

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

    def _delay(self, busy: Float64s, communication: Float64s, pairs: Float64s) -> float:
        served = np.cumsum(communication) / self.senders
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

    def _reorganise(self, table: RoutingTable, oldest: int) -> None:
        """Ask the balancer, at the end of an epoch and whenever something may be forgotten."""
        if self.settings is None or len(self.generations) > table.newest.number + 1:
            return
        plan = forget(table, self._batch - 1, oldest)
        if self._batch % self.epoch == 0:
            held = [Held(*some) for some in self._held_bytes(table).T.tolist()]
            observation = self._epoch.observation(self._batch - 1, oldest, table.newest, held)
            decided = decide(table, observation, self.cores, self.settings)
            plan = decided if decided.generation is not None else plan
        self.decisions += plan.decisions
        if plan.generation is not None:
            self.generations.append(plan.generation)


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


class _Epoch:
    """Sums over the micro-batches of a reorganisation epoch."""

    def __init__(self, cores: int, groups: int) -> None:
        self._of_cores = np.zeros((3, cores))
        self._of_groups = np.zeros((3, groups))
        self._seconds = 0.0

    def add(self, of_cores: tuple[Float64s, ...], of_groups: tuple[Float64s, ...], seconds: float) -> None:
        """Add a micro-batch: rows, pairs and seconds of every core; left rows, right rows and pairs of every group."""
        self._of_cores = FADING * self._of_cores + np.stack(of_cores)
        self._of_groups = FADING * self._of_groups + np.stack(of_groups)
        self._seconds = FADING * self._seconds + seconds

    def observation(self, micro_batch: int, oldest: int, newest: Generation, held: list[Held]) -> Observation:
        """Return what the cores would report: a few groups by name, the rest in one sum."""
        group = np.repeat(np.arange(newest.groups), newest.parts)
        parts = newest.parts[group]
        load = np.stack(
            [self._of_groups[0][group] / parts, self._of_groups[1][group], self._of_groups[2][group] / parts]
        )
        order = np.lexsort((-load.sum(0), newest.cores))
        ends = np.cumsum(np.bincount(newest.cores, minlength=self._of_cores.shape[1]))
        cores = []
        for core, end in enumerate(ends.tolist()):
            own = order[0 if core == 0 else ends[core - 1] : end]
            named = tuple(GroupLoad(int(group[at]), *load[:, at].tolist()) for at in own[:HEAVIEST])
            rest = GroupLoad(len(own[HEAVIEST:]), *load[:, own[HEAVIEST:]].sum(1).tolist())
            rows, pairs, busy = self._of_cores[:, core].tolist()
            cores.append(CoreLoad(core, rows, pairs, busy, held[core], GroupReport(named, rest)))
        return Observation(micro_batch, self._seconds, oldest, tuple(cores))
