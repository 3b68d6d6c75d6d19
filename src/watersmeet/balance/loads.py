"""What cores did during a reorganisation epoch, and what each group costs.

A core reports the number of its rows and pairs, how long it was busy, and the ``HEAVIEST`` groups, those with the most
work. It reports the sum of its other groups, which is taken to be spread evenly over them. From that follow:

- *unit costs*: seconds per row and per pair. They are fitted to all cores, so they are those of this join on these
  machines.
- *speed* of a core: the factor by which it takes longer, because its machine is slower or shared with others.
- *work* of a group: what its rows and pairs cost. If it is cut into ``k`` parts, a part has ``1/k`` of the left rows
  and of the pairs, but all right rows (see :mod:`watersmeet.balance.placement`).
- *bytes* of a group: what a core's state will hold for it. A core reports the bytes that it has stored by the newest
  generation, and they are divided among its groups by their rows. Rows of older generations lie with the groups'
  earlier owners. So the sum is scaled to all bytes in the window, which is what the cores hold one window later.

A group's rows are counted by its owners, which store them, so a row that also probes elsewhere counts once. A right row
is a *copy* on a core that stores it only because its band touches a neighbouring bucket. ``replication`` is the average
number of times that a right row is stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from watersmeet.arrays import Float64s, Int32s, Int64s
from watersmeet.balance.generation import Generation

__all__ = [
    "FADING",
    "HEAVIEST",
    "CoreLoad",
    "GroupCounter",
    "GroupLoad",
    "GroupReport",
    "Held",
    "LoadMeter",
    "Observation",
    "UnitCosts",
    "Work",
    "added",
    "fit_costs",
    "measure_work",
]


HEAVIEST: Final = 32
FADING: Final = 0.7
"""The weight of a micro-batch relative to the next one: if load has just changed, the last ones count most."""
SLOWEST: Final = 8.0
"""Speeds beyond this factor are noise."""
MANY_CORES: Final = 8
PAIR_OF_ROW: Final = 0.2
UNLIKE: Final = 0.3
"""A core whose speed differs by more than this is slow or fast, and costs are fitted without it. Less is noise."""


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """What a core did for one group: the rows that it stored, and the pairs that it found."""

    group: int
    left: float
    right: float
    pairs: float


@dataclass(frozen=True, slots=True)
class GroupReport:
    """What a core did, by group."""

    heaviest: tuple[GroupLoad, ...]
    rest: GroupLoad
    """The sum of all other groups; ``group`` is the number of those that had rows."""
    copies: float = 0.0
    """Right rows that it stored only because their bands touch a neighbouring bucket."""

    @classmethod
    def parse(cls, text: str) -> GroupReport:
        """Return the report that :meth:`GroupCounter.report` wrote."""
        *heaviest, rest, copies = json.loads(text)
        return cls(tuple(GroupLoad(*line) for line in heaviest), GroupLoad(*rest), copies)


class GroupCounter:
    """Counts the rows and pairs of every group on one core, and reports the heaviest groups."""

    def __init__(self) -> None:
        self._counts = np.zeros((3, 0), np.int64)
        self._copies = 0

    def add(self, what: Literal["left", "right", "pairs"], group: Int32s) -> None:
        """Count a stored row, or a pair, for every group in ``group``; ``~group`` is a copy of a row."""
        is_copy = group < 0
        if what == "right":
            self._copies += int(np.count_nonzero(is_copy))
        more = np.bincount(np.where(is_copy, ~group, group))
        short = len(more) - self._counts.shape[1]
        if short > 0:
            self._counts = np.pad(self._counts, ((0, 0), (0, short)))
        self._counts[("left", "right", "pairs").index(what), : len(more)] += more

    def report(self) -> str:
        """Return the heaviest groups, then the number and the sum of all others, then the copies."""
        order = np.argsort(-self._counts.sum(0), kind="stable")
        order = order[: np.count_nonzero(self._counts.any(0))]
        heaviest, rest = order[:HEAVIEST], order[HEAVIEST:]
        lines = [[int(group), *self._counts[:, group].tolist()] for group in heaviest]
        others = [len(rest), *self._counts[:, rest].sum(1).tolist()]
        return json.dumps([*lines, others, self._copies], separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes of a core's state: all of them, and for each side those stored by the newest generation."""

    whole: float = 0.0
    left: float = 0.0
    right: float = 0.0


@dataclass(frozen=True, slots=True)
class CoreLoad:
    """What one core did during an epoch, and the bytes that it holds at the end."""

    core: int
    rows: float
    """Rows that reached it, also those that only probe."""
    pairs: float
    busy: float
    """Seconds."""
    held: Held
    groups: GroupReport


@dataclass(frozen=True, slots=True)
class Observation:
    """What all cores did during an epoch."""

    micro_batch: int
    """The last micro-batch of the epoch."""
    seconds: float
    """How long a core could have worked in the epoch."""
    oldest: int
    """The oldest generation that any core has stored rows of."""
    cores: tuple[CoreLoad, ...]

    @property
    def replication(self) -> float:
        """The average number of times that a right row is stored; the parts of a cut group count as one."""
        reports = [core.groups for core in self.cores]
        stored = sum(group.right for report in reports for group in (*report.heaviest, report.rest))
        copies = sum(report.copies for report in reports)
        return stored / (stored - copies) if copies < stored else 1.0


def added(loads: Iterable[CoreLoad]) -> list[CoreLoad]:
    """Add up what cores with the same number did, for joins that share a routing table."""
    sums: dict[int, CoreLoad] = {}
    for load in loads:
        before = sums.get(load.core)
        sums[load.core] = load if before is None else _added(before, load)
    return list(sums.values())


def _added(one: CoreLoad, other: CoreLoad) -> CoreLoad:
    heaviest = {group.group: group for group in one.groups.heaviest}
    for group in other.groups.heaviest:
        heaviest[group.group] = _sum_of(group.group, heaviest.get(group.group), group)
    rests = one.groups.rest, other.groups.rest
    return CoreLoad(
        one.core,
        one.rows + other.rows,
        one.pairs + other.pairs,
        one.busy + other.busy,
        Held(*(getattr(one.held, name) + getattr(other.held, name) for name in ("whole", "left", "right"))),
        GroupReport(
            tuple(heaviest.values()),
            _sum_of(sum(rest.group for rest in rests), *rests),
            one.groups.copies + other.groups.copies,
        ),
    )


def _sum_of(group: int, *loads: GroupLoad | None) -> GroupLoad:
    known = [load for load in loads if load is not None]
    return GroupLoad(
        group,
        sum(load.left for load in known),
        sum(load.right for load in known),
        sum(load.pairs for load in known),
    )


class LoadMeter:
    """Adds up the loads of micro-batches; the last ones count most."""

    def __init__(self) -> None:
        self._micro_batch = -1
        self._seconds = 0.0
        self._cores: dict[int, CoreLoad] = {}

    def add(self, micro_batch: int, seconds: float, loads: list[CoreLoad]) -> None:
        """Add the loads of a micro-batch; cores could have worked for ``seconds``."""
        self._micro_batch = micro_batch
        self._seconds = FADING * self._seconds + seconds
        self._cores = {load.core: _faded(self._cores.get(load.core), load) for load in loads}

    def observation(self, oldest: int) -> Observation:
        """Return the sum; ``oldest`` is the oldest generation that any core has rows of."""
        return Observation(self._micro_batch, self._seconds, oldest, tuple(self._cores.values()))


def _faded(before: CoreLoad | None, load: CoreLoad) -> CoreLoad:
    """Return a core's load plus the faded load before it, by group for the groups that are heavy now."""
    if before is None:
        return load
    old = {group.group: group for group in before.groups.heaviest}
    return CoreLoad(
        load.core,
        FADING * before.rows + load.rows,
        FADING * before.pairs + load.pairs,
        FADING * before.busy + load.busy,
        load.held,
        GroupReport(
            tuple(_sum(old.pop(group.group, None), group) for group in load.groups.heaviest),
            _sum(before.groups.rest, load.groups.rest, *old.values()),
            FADING * before.groups.copies + load.groups.copies,
        ),
    )


def _sum(before: GroupLoad | None, now: GroupLoad, *others: GroupLoad) -> GroupLoad:
    faded = [group for group in (before, *others) if group is not None]
    return GroupLoad(
        now.group,
        now.left + FADING * sum(group.left for group in faded),
        now.right + FADING * sum(group.right for group in faded),
        now.pairs + FADING * sum(group.pairs for group in faded),
    )


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Seconds per row and per pair, and the fixed seconds of a core."""

    row: float
    pair: float
    fixed: float = 0.0


@dataclass(frozen=True)
class Work:
    """The rows, pairs and bytes of each group, what they cost, and how fast cores are."""

    left: Float64s
    right: Float64s
    pairs: Float64s
    left_bytes: Float64s
    right_bytes: Float64s
    costs: UnitCosts
    speed: Float64s
    """For each core the seconds that it needs for what takes other cores one second."""

    def of_parts(self, parts: Int64s) -> Float64s:
        """Return the work in seconds of one part of every group, if the groups are cut into ``parts``."""
        rows = self.left / parts + self.right
        return np.asarray(self.costs.row * rows + self.costs.pair * self.pairs / parts, float)

    def of_part(self, group: int, parts: int) -> float:
        """Return the work of one part of a group that is cut into ``parts``."""
        rows = self.left[group] / parts + self.right[group]
        return float(self.costs.row * rows + self.costs.pair * self.pairs[group] / parts)

    def bytes_of_part(self, group: int, parts: int) -> float:
        """Return the bytes of one part of a group that is cut into ``parts``."""
        return float(self.left_bytes[group] / parts + self.right_bytes[group])

    def bytes_of_cores(self, generation: Generation) -> Float64s:
        """Return the bytes that each core will hold once all rows are stored by ``generation``."""
        held = np.repeat(self.left_bytes / generation.parts + self.right_bytes, generation.parts)
        return np.asarray(np.bincount(generation.cores, held, len(self.speed)), float)

    def most_parts(self) -> Float64s:
        """Return the number of parts up to which cutting each group helps: until all parts do mostly the same work."""
        shared = self.costs.row * self.left + self.costs.pair * self.pairs
        repeated = self.costs.row * self.right
        ratio = np.divide(shared, repeated, out=np.full(len(shared), np.inf), where=repeated > 0)
        return np.asarray(1 + np.floor(ratio), float)

    def of_cores(self, generation: Generation) -> Float64s:
        """Return how long in seconds each core is busy with the groups that ``generation`` gives it."""
        work = np.repeat(self.of_parts(generation.parts), generation.parts)
        own = np.bincount(generation.cores, work, len(self.speed))
        return np.asarray((self.costs.fixed + own) * self.speed, float)


def fit_costs(cores: tuple[CoreLoad, ...]) -> UnitCosts:
    """Return the costs that explain the cores' times best (least squares, none negative).

    With few cores the costs of rows and pairs cannot be told apart; then a pair costs ``PAIR_OF_ROW`` of a row.
    """
    rows, pairs, busy = (np.array([getattr(core, name) for core in cores], float) for name in ("rows", "pairs", "busy"))
    if rows.sum() == 0:
        return UnitCosts(0.0, 0.0)
    if len(cores) >= MANY_CORES:
        for terms in ((rows, pairs, np.ones_like(rows)), (rows, pairs)):
            (*found,) = np.linalg.lstsq(np.stack(terms, 1), busy)[0].tolist()
            if min(found) >= 0:
                return UnitCosts(*found)
    weight = rows + PAIR_OF_ROW * pairs
    slope, fixed = np.linalg.lstsq(np.stack([weight, np.ones_like(weight)], 1), busy)[0].tolist()
    if slope <= 0 or fixed < 0:  # the times do not grow with the work, or faster than it
        slope, fixed = float(busy.sum() / weight.sum()), 0.0
    return UnitCosts(slope, PAIR_OF_ROW * slope, fixed)


def measure_work(observation: Observation, generation: Generation, cores: int) -> Work:
    """Return what each group costs, from the reports of ``cores`` cores while ``generation`` was the newest."""
    load = np.zeros((5, generation.groups))
    for core in observation.cores:
        owned = np.flatnonzero(generation.owned_by(core.core))
        named = np.array([group.group for group in core.groups.heaviest], np.int64)
        own = [(group.left, group.right, group.pairs) for group in core.groups.heaviest]
        others = np.setdiff1d(owned, named)
        rest = core.groups.rest
        each = np.array([[rest.left], [rest.right], [rest.pairs]]) / max(1, len(others))
        rows = np.hstack([np.array(own).reshape(-1, 3).T, np.repeat(each, len(others), 1)])
        held = np.stack([core.held.left * _shares(rows[0]), core.held.right * _shares(rows[1])])
        load[:, np.concatenate([named, others])] += np.vstack([rows, held])
    newest = sum(core.held.left + core.held.right for core in observation.cores)
    load[3:] *= sum(core.held.whole for core in observation.cores) / newest if newest else 0.0
    load[[1, 4]] /= generation.parts  # each part has them all
    costs = fit_costs(observation.cores)
    speed = _speed(observation.cores, costs, cores)
    alike = tuple(core for core in observation.cores if abs(speed[core.core] / np.median(speed) - 1) <= UNLIKE)
    if alike:  # of two cores, both may be unlike their mean
        costs = fit_costs(alike)  # without cores that are slow for other reasons
    left, right, pairs, left_bytes, right_bytes = load
    return Work(left, right, pairs, left_bytes, right_bytes, costs, _speed(observation.cores, costs, cores))


def _shares(rows: Float64s) -> Float64s:
    """Return each group's fraction of a core's bytes: by its rows, or equal fractions if there are no rows."""
    total = rows.sum()
    return rows / total if total > 0 else np.full(len(rows), 1 / max(1, len(rows)))


def _speed(loads: tuple[CoreLoad, ...], costs: UnitCosts, cores: int) -> Float64s:
    """Return the factor by which each core takes longer than ``costs`` predict."""
    speed = np.ones(cores)
    for load in loads:
        expected = costs.fixed + costs.row * load.rows + costs.pair * load.pairs
        if expected > 0 and abs(load.busy / expected - 1) > UNLIKE:
            speed[load.core] = np.clip(load.busy / expected, 1 / SLOWEST, SLOWEST)
    return speed
