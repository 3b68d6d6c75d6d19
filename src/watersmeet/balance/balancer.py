"""Decides, at every reorganisation epoch, which core owns which group from now on: a pure function, no Spark.

After "Parallelizing Windowed Stream Joins in a Shared-Nothing Cluster", sections IV-C and V-A. The *occupancy* of a
core is the part of the epoch that it will be busy with the groups it owns. A core well above the mean is a *supplier*,
one below it a *consumer*, the others are *neutral*; suppliers yield groups to consumers. The *degree of declustering*
(number of active cores) grows when there are more than ``beta`` busy cores for every idle one, and shrinks when none
is busy.

Departures. The paper moves one group per supplier and epoch, as its rows have to be copied; here no row moves (see
:mod:`watersmeet.balance.placement`), so a supplier yields as many groups as bring it to the mean (``moves`` limits
it). The paper chooses a group at random; here it is the largest that fits. Occupancy is that of processors, not of a
buffer, and it is the one to be expected under the newest generation: what is observed still shows generations before,
for as long as a window. A group that is too much for one core is cut, into parts of half a core's share; the paper cuts
inside a core only.

A generation that changes nothing is not made. Each decision comes with its reason in words.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import ceil
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from watersmeet.balance.generation import BUCKET_WIDTHS, MOST_LIVE, Generation, RoutingTable
from watersmeet.balance.loads import Observation, Work, measure_work

__all__ = ["Decision", "Plan", "Settings", "decide", "forget"]

Floats = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]
Kind = Literal["cut", "mend", "move", "grow", "shrink", "narrow", "widen", "forget", "wait"]

LEAD: Final = 3
"""Micro-batches between deciding and taking effect: every task must have seen the file by then."""
PART: Final = 0.25
"""How much of a core's fair share a part of a cut group may be: less than all of it, so that parts can be moved too."""
LARGEST_PART: Final = 0.4
SMALLEST_PART: Final = 0.1
"""How far parts may grow or shrink before their group is cut anew."""
TURNS: Final = 2
"""How often a core may be a supplier within one epoch."""
FEW_GROUPS: Final = 4
"""Groups with rows per active core below which buckets are made narrower."""


@dataclass(frozen=True, slots=True)
class Settings:
    """When the balancer acts."""

    tolerance: float = 0.1
    """A core is a supplier from this much above the mean."""
    idle: float = 0.2
    """Occupancy below which a core counts as idle, for the degree of declustering (the paper's consumer threshold)."""
    busy: float = 0.7
    """Occupancy above which a core counts as busy (the paper's supplier threshold)."""
    wanted: float = 0.45
    """Mean occupancy to which the degree of declustering is set when it changes."""
    beta: float = 0.5
    """The degree grows when there are more than ``beta`` busy cores for every idle one."""
    moves: int | None = None
    """Groups that a supplier may yield in one epoch (None: as many as it takes)."""
    cut: bool = True
    """Whether groups may be cut."""
    decluster: bool = True
    """Whether the number of active cores may change."""
    has_buckets: bool = False
    """Whether groups are made of buckets, whose width can change."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One thing that is changed, and why."""

    kind: Kind
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The next generation (None: the present one stays), and what led to it."""

    generation: Generation | None
    decisions: tuple[Decision, ...]


def decide(table: RoutingTable, observation: Observation, cores: int, settings: Settings) -> Plan:
    """Return the generation to follow ``table.newest`` on at most ``cores`` cores, with the reasons for it."""
    newest = table.newest
    if observation.micro_batch < newest.first:
        return Plan(None, (Decision("wait", f"generation {newest.number} is not in effect yet"),))
    if newest.number + 1 - observation.oldest >= MOST_LIVE:
        reason = f"rows of {MOST_LIVE - 1} generations are still in the window"
        return Plan(None, (Decision("wait", reason),))
    work = measure_work(observation, newest, cores)
    if not work.of_parts(newest.parts).any():
        return Plan(None, ())
    draft = _Draft(newest, work, observation.seconds, settings)
    if settings.has_buckets:
        draft.choose_width(sum(len(core.heaviest) + core.rest.group for core in observation.cores))
    if settings.decluster:
        draft.choose_active(cores)
    if settings.cut:
        draft.cut_groups()
    draft.move_groups()
    if not draft.decisions:
        return Plan(None, ())
    generation = replace(
        newest,
        number=newest.number + 1,
        first=observation.micro_batch + LEAD,
        oldest=observation.oldest,
        owners=tuple(draft.owners),
        active=tuple(draft.active),
        width=draft.width,
    )
    return Plan(generation, tuple(draft.decisions))


def forget(table: RoutingTable, micro_batch: int, oldest: int) -> Plan:
    """Stop looking where no rows are left: once all rows are where they belong, at any micro-batch.

    ``oldest`` is the oldest generation that any core had rows of after ``micro_batch``.
    """
    newest = table.newest
    others = [old for old in table.generations if (old.owners, old.width) != (newest.owners, newest.width)]
    if micro_batch < newest.first or not others or others[-1].number >= oldest:
        return Plan(None, ())
    generation = replace(newest, number=newest.number + 1, first=micro_batch + LEAD, oldest=oldest)
    return Plan(generation, (Decision("forget", f"no rows are left of the generations before {oldest}"),))


class _Draft:
    """The next generation, while it is being made."""

    def __init__(self, newest: Generation, work: Work, seconds: float, settings: Settings) -> None:
        self.owners = list(newest.owners)
        self.active = list(newest.active)
        self.width = newest.width
        self.decisions: list[Decision] = []
        self._work = work
        self._settings = settings
        self._seconds = max(seconds, 1e-9)
        self._loads = work.of_cores(newest)
        self._owned: list[set[int]] = [set() for _ in self._loads]
        for group, owners in enumerate(newest.owners):
            for core in owners:
                self._owned[core].add(group)

    def choose_width(self, occupied: int) -> None:
        """Make buckets narrower while too few have rows, and wider again when there are plenty."""
        few = FEW_GROUPS * len(self.active)
        width = self.width
        if occupied < few and width > 1:
            width //= 2
            self._decide("narrow", f"only {occupied} groups have rows, for {len(self.active)} cores: width {width}")
        elif occupied > 2 * few * (BUCKET_WIDTHS // width) and width < BUCKET_WIDTHS:
            width *= 2
            self._decide("widen", f"{occupied} groups have rows, enough for {len(self.active)} cores: width {width}")
        self.width = width

    def choose_active(self, cores: int) -> None:
        """Adjust the degree of declustering (section V-A)."""
        settings = self._settings
        occupancy = self._loads[self.active] / self._seconds
        total = float(occupancy.sum())
        busy, idle = int((occupancy > settings.busy).sum()), int((occupancy < settings.idle).sum())
        wanted = min(cores, max(1, ceil(total / settings.wanted)))
        if busy > settings.beta * idle and wanted > len(self.active):
            more = [core for core in range(cores) if core not in set(self.active)][: wanted - len(self.active)]
            self.active = sorted([*self.active, *more])
            self._decide("grow", f"{busy} cores are busy and {idle} idle: {len(self.active)} cores from now on")
        elif idle == len(self.active) and wanted < len(self.active):
            keep = np.argsort(self._work.speed[self.active], kind="stable")[:wanted]
            self.active = sorted(np.array(self.active)[keep].tolist())
            self._leave_inactive()
            self._decide("shrink", f"no core is busy for more than {settings.idle:.0%}: {wanted} cores from now on")

    def _leave_inactive(self) -> None:
        """Give the groups of cores that are no longer active to those that are, in turn; mend those cut too finely."""
        stay = set(self.active)
        turn = 0
        for group, owners in enumerate(self.owners):
            if not stay.issuperset(owners):
                kept = [core for core in owners if core in stay]
                if not kept:
                    kept = [self.active[turn % len(self.active)]]
                    turn += 1
                self._own(group, tuple(kept))

    def cut_groups(self) -> None:
        """Cut groups that are more than a core's fair share; mend those that need no cut any longer."""
        parts = np.fromiter(map(len, self.owners), np.int64)
        whole = self._work.of_parts(np.ones_like(parts))
        shares = whole * len(self.active) / whole.sum()
        # Small parts are easy to move, as long as there are cores without one to move them to.
        most = np.clip(shares / LARGEST_PART, len(self.active) // 2, len(self.active))
        wanted = np.minimum(np.ceil(np.clip(shares / PART, 1, most)), self._work.most_parts()).astype(np.int64)
        too_large = np.where(parts == 1, shares > 1, shares > LARGEST_PART * parts) & (4 * wanted > 5 * parts)
        too_small = (shares <= SMALLEST_PART * parts) & (wanted < parts)
        changed = np.flatnonzero(too_large | too_small)
        for group in changed[np.argsort(-whole[changed], kind="stable")].tolist():
            before, after = int(parts[group]), int(wanted[group])
            self._recut(group, after)
            share = f"group {group} is {shares[group]:.2f} times a core's fair share"
            self._decide("cut" if after > before else "mend", f"{share}: {after} part(s) instead of {before}")

    def _recut(self, group: int, parts: int) -> None:
        """Give a group ``parts`` owners: those it has, and the least loaded others."""
        owners = list(self.owners[group])
        part = self._work.of_part(group, parts)

        def load_with_part(core: int) -> float:
            return float(self._loads[core] + part * self._work.speed[core])

        if parts > len(owners):
            owners += sorted(set(self.active).difference(owners), key=load_with_part)[: parts - len(owners)]
        else:
            owners = sorted(owners, key=load_with_part)[:parts]
        self._own(group, tuple(owners))

    def move_groups(self) -> None:
        """Let suppliers yield groups to consumers, the most loaded first.

        A consumer may have to yield smaller groups in turn, to make room for one that fits nowhere else.
        """
        turns = dict.fromkeys(self.active, 0)
        while True:
            mean = float(self._loads[self.active].mean())
            waiting = [core for core in self.active if turns[core] < TURNS]
            supplier = max(waiting, key=lambda core: float(self._loads[core]), default=None)
            if supplier is None or self._loads[supplier] <= mean * (1 + self._settings.tolerance):
                return
            turns[supplier] += 1 if self._settings.moves is None else TURNS
            before = float(self._loads[supplier])
            yielded = self._yield_groups(supplier, mean)
            if yielded:
                reason = f"core {supplier} at {before / mean:.2f} times the mean yields {yielded} group(s)"
                self._decide("move", f"{reason}: {self._loads[supplier] / mean:.2f} times")

    def _yield_groups(self, supplier: int, mean: float) -> int:
        """Move groups away from one supplier, the largest first, until it is near the mean; return how many."""
        work = {group: self._work.of_part(group, len(self.owners[group])) for group in self._owned[supplier]}
        largest_first = sorted((group for group in work if work[group] > 0), key=lambda group: (-work[group], group))
        little = mean * self._settings.tolerance / 4
        yielded = 0
        # First what leaves nobody above the mean by much, then whatever makes things better.
        for modest, group in product((True, False), largest_first):
            if self._loads[supplier] <= mean + little or yielded == self._settings.moves:
                break
            if supplier in self.owners[group]:
                most = mean + 2 * little if modest else float(self._loads[supplier]) - 2 * little
                owners = self._better_owners(group, supplier, most, may_cut=self._settings.cut and not modest)
                if owners is not None:
                    self._own(group, owners)
                    yielded += 1
        return yielded

    def _better_owners(self, group: int, supplier: int, most: float, *, may_cut: bool) -> tuple[int, ...] | None:
        """Return owners that relieve a supplier of a group, or of half of it, and load nobody beyond ``most``."""
        owners, loads, speed = self.owners[group], self._loads, self._work.speed
        others = tuple(core for core in owners if core != supplier)
        possible = np.array([core for core in self.active if core not in owners], np.int64)
        choices = [(others, len(owners)), (owners, len(owners) + 1)] if may_cut else [(others, len(owners))]
        for kept, parts in choices:
            after = loads[possible] + self._work.of_part(group, parts) * speed[possible]
            if after.min(initial=np.inf) <= most:
                return *kept, int(possible[after.argmin()])
        if others and speed[supplier] > 1:  # none has room, but together they may hardly feel what is too much here
            more = (self._work.of_part(group, len(others)) - self._work.of_part(group, len(owners))) * speed[
                list(others)
            ]
            if more.max() <= self._settings.tolerance * loads[self.active].mean():
                return others
        return None

    def _own(self, group: int, owners: tuple[int, ...]) -> None:
        """Give a group to other cores."""
        for some, sign in ((self.owners[group], -1), (owners, 1)):
            part = sign * self._work.of_part(group, len(some))
            for core in some:
                self._loads[core] += part * self._work.speed[core]
        for core in self.owners[group]:
            self._owned[core].discard(group)
        for core in owners:
            self._owned[core].add(group)
        self.owners[group] = owners

    def _decide(self, kind: Kind, reason: str) -> None:
        self.decisions.append(Decision(kind, reason))
