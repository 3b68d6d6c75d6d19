"""Decides, at every reorganisation epoch, which core owns which group from now on: a pure function, no Spark.

After "Parallelizing Windowed Stream Joins in a Shared-Nothing Cluster", sections IV-C and V-A. The *occupancy* of a
core is the part of the epoch that it will be busy with the groups it owns. A core well above the mean is a *supplier*,
one below it a *consumer*, the others are *neutral*; suppliers yield groups to consumers. The *degree of declustering*
(number of active cores) grows when there are more than ``beta`` busy cores for every idle one, and shrinks when all
are idle.

*Memory* is the second reason to yield, which the paper leaves to be added: a core that will hold more bytes than it
may, or without such a limit ``uneven`` times the mean, is a supplier however little it has to do. Its groups go by
their bytes, to cores that have room for them and for the work. And no group goes where there is no room for its bytes,
so what is moved for one reason is not moved back for the other. With a limit, bytes count for the degree of
declustering as work does.

*Buckets* of a band become narrower while a few of them have most of the rows, so that groups can be spread, and wider
where right rows are stored too often and groups are plenty.

Departures. The paper moves one group per supplier and epoch, as its rows have to be copied; here no row moves (see
:mod:`watersmeet.balance.placement`), so a supplier yields as many groups as bring it to the mean (``moves`` limits
it). The paper chooses a group at random; here it is the largest that fits. Occupancy is that of processors, not of a
buffer, and it is the one to be expected under the newest generation: what is observed still shows generations before,
for as long as a window. So are the bytes. A group that is too much for one core is cut, into parts of half a core's
share; the paper cuts inside a core only. The paper leaves a core out as soon as none is a supplier, even though all are
half busy; here all have to be idle, and as many are left out as bring the others to ``wanted``: far enough from both
thresholds that the next epoch does not take it back.

A generation that changes nothing is not made. Each decision comes with its reason in words.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import ceil
from typing import Final, Literal, NamedTuple

import numpy as np

from watersmeet.arrays import Float64s
from watersmeet.balance.generation import MOST_LIVE, Generation, RoutingTable
from watersmeet.balance.loads import Observation, Work, measure_work

__all__ = ["Decision", "Plan", "Settings", "decide", "forget"]

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
"""Groups per active core, all with the same number of rows, below which buckets are made narrower."""
PLENTY: Final = 3
"""How many times that number of groups there must be for wider buckets, which may halve it."""
WIDEST: Final = 16
MANY_COPIES: Final = 1.3
"""Right rows stored for each that came, above which buckets are made wider: it takes a window until that pays."""
RELIEF: Final = 0.9
"""Part of the bytes that it may hold to which a core is brought that holds more."""
LEAST_EVEN: Final = 1.25
"""A limit below so many times the mean cannot be kept, or only just: then this is what a core may hold."""
LARGE: Final = 0.5
SMALL: Final = 0.25
"""Parts of what a core may hold: a group with more than the first is cut for its bytes, with less than the second is
not kept cut for them."""


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
    core_bytes: int | None = None
    """Bytes that a core may hold (None: ``uneven`` times the mean)."""
    uneven: float = 1.5
    """Without ``core_bytes``, a core is a supplier from this many times the mean of all bytes."""
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
        draft.choose_width(observation.replication)
    if settings.decluster:
        draft.choose_active(cores)
    if draft.width == newest.width:  # groups of other buckets are other groups: what they cost shows in the next epoch
        if settings.cut:
            draft.cut_groups()
        draft.move_groups()
        draft.move_bytes()
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
        reasons=tuple(decision.reason for decision in draft.decisions),
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
    reason = f"no rows are left of the generations before {oldest}"
    first = micro_batch + LEAD
    generation = replace(newest, number=newest.number + 1, first=first, oldest=oldest, reasons=(reason,))
    return Plan(generation, (Decision("forget", reason),))


class _Bounds(NamedTuple):
    """What a core may have that takes a group."""

    work: float
    bytes: float


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
        self._bytes = work.bytes_of_cores(newest)
        self._owned: list[set[int]] = [set() for _ in self._loads]
        for group, owners in enumerate(newest.owners):
            for core in owners:
                self._owned[core].add(group)

    def choose_width(self, replication: float) -> None:
        """Make buckets narrower while too few have most rows; wider when there are plenty, but many copies of rows."""
        rows = self._work.left + self._work.right
        if not rows.any():
            return
        # A group that will be cut counts by its parts: narrower buckets would not help a single hot value.
        rows = np.minimum(rows, PART * rows.sum() / len(self.active))
        spread = float(rows.sum() ** 2 / (rows**2).sum())
        few = FEW_GROUPS * len(self.active)
        groups = f"rows lie as in {spread:.0f} even groups, for {len(self.active)} cores"
        if spread < few and self.width > 1:
            self.width //= 2
            self._decide("narrow", f"{groups}: buckets of {self.width} instead of {2 * self.width} bands")
        elif replication > MANY_COPIES and spread > PLENTY * few and self.width < WIDEST:
            self.width *= 2
            often = f"right rows are stored {replication:.2f} times, and {groups}"
            self._decide("widen", f"{often}: buckets of {self.width} instead of {self.width // 2} bands")

    def choose_active(self, cores: int) -> None:
        """Adjust the degree of declustering (section V-A), to work and, where they are limited, to bytes."""
        settings = self._settings
        busy_part = self._loads[self.active] / self._seconds
        full_part = self._bytes[self.active] / (settings.core_bytes or np.inf)
        occupancy = np.maximum(busy_part, full_part)
        total = float(max(busy_part.sum(), full_part.sum()))
        busy, idle = int((occupancy > settings.busy).sum()), int((occupancy < settings.idle).sum())
        wanted = min(cores, max(1, ceil(total / settings.wanted)))
        if busy > settings.beta * idle and wanted > len(self.active):
            more = [core for core in range(cores) if core not in set(self.active)][: wanted - len(self.active)]
            self.active = sorted([*self.active, *more])
            self._decide("grow", f"{busy} core(s) busy or full, {idle} idle: {len(self.active)} from now on")
        elif idle == len(self.active) and wanted < len(self.active):
            keep = np.argsort(self._work.speed[self.active], kind="stable")[:wanted]
            self.active = sorted(np.array(self.active)[keep].tolist())
            self._leave_inactive()
            self._decide("shrink", f"no core is busy or full for more than {settings.idle:.0%}: {wanted} from now on")

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
        whole, shares = self._whole_groups()
        # Small parts are easy to move, as long as there are cores without one to move them to.
        most = np.clip(shares / LARGEST_PART, len(self.active) // 2, len(self.active))
        wanted = np.minimum(np.ceil(np.clip(shares / PART, 1, most)), self._work.most_parts()).astype(np.int64)
        too_large = np.where(parts == 1, shares > 1, shares > LARGEST_PART * parts) & (4 * wanted > 5 * parts)
        is_small = self._work.left_bytes / wanted + self._work.right_bytes <= SMALL * self._most_bytes
        too_small = (shares <= SMALLEST_PART * parts) & (wanted < parts) & is_small
        changed = np.flatnonzero(too_large | too_small)
        for group in changed[np.argsort(-whole[changed], kind="stable")].tolist():
            before, after = int(parts[group]), int(wanted[group])
            self._recut(group, after)
            share = f"group {group} is {shares[group]:.2f} times a core's fair share"
            self._decide("cut" if after > before else "mend", f"{share}: {after} part(s) instead of {before}")

    def _whole_groups(self) -> tuple[Float64s, Float64s]:
        """Return the work of each group, were it not cut, and how many times a core's fair share that is."""
        whole = self._work.of_parts(np.ones(len(self.owners), np.int64))
        return whole, whole * len(self.active) / whole.sum()

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
        _, shares = self._whole_groups()
        yielded = 0
        # First what leaves nobody above the mean by much, then whatever makes things better.
        for modest, group in product((True, False), largest_first):
            if self._loads[supplier] <= mean + little or yielded == self._settings.moves:
                break
            if supplier in self.owners[group]:
                most = mean + 2 * little if modest else float(self._loads[supplier]) - 2 * little
                worth_cutting = shares[group] > SMALLEST_PART * (len(self.owners[group]) + 1)  # or it would be mended
                may_cut = self._settings.cut and not modest and bool(worth_cutting)
                owners = self._better_owners(group, supplier, most, may_cut=may_cut)
                if owners is not None:
                    self._own(group, owners)
                    yielded += 1
        return yielded

    def _better_owners(self, group: int, supplier: int, most: float, *, may_cut: bool) -> tuple[int, ...] | None:
        """Return owners that relieve a supplier of a group, or of half of it, and load nobody beyond ``most``."""
        owners = self._handed_over(group, supplier, _Bounds(most, RELIEF * self._most_bytes), may_cut=may_cut)
        speed = self._work.speed
        others = [core for core in self.owners[group] if core != supplier]
        if owners is None and others and speed[supplier] > 1:
            # None has room, but together they may hardly feel what is too much here.
            more = self._work.of_part(group, len(others)) - self._work.of_part(group, len(others) + 1)
            if (more * speed[others]).max() <= self._settings.tolerance * self._loads[self.active].mean():
                return tuple(others)
        return owners

    def _handed_over(
        self, group: int, supplier: int, bounds: _Bounds, *, may_cut: bool, by_bytes: bool = False
    ) -> tuple[int, ...] | None:
        """Return a group's owners with another core in the supplier's place, or beside it; None where none has room.

        The other one is the core with the least work, or with the least bytes.
        """
        owners = self.owners[group]
        possible = np.array([core for core in self.active if core not in owners], np.int64)
        others = tuple(core for core in owners if core != supplier)
        for kept, parts in [(others, len(owners)), (owners, len(owners) + 1)][: 2 if may_cut else 1]:
            work = self._loads[possible] + self._work.of_part(group, parts) * self._work.speed[possible]
            held = self._bytes[possible] + self._work.bytes_of_part(group, parts)
            fits = (work <= bounds.work) & (held <= bounds.bytes)
            if fits.any():
                return *kept, int(possible[fits][(held if by_bytes else work)[fits].argmin()])
        return None

    @property
    def _most_bytes(self) -> float:
        """What a core may hold."""
        mean = float(self._bytes[self.active].mean())
        limit = self._settings.core_bytes
        return self._settings.uneven * mean if limit is None else max(limit, LEAST_EVEN * mean)

    def move_bytes(self) -> None:
        """Let cores that hold too much yield groups to cores that have room, the fullest first."""
        for supplier in sorted(self.active, key=lambda core: -float(self._bytes[core])):
            before, most = float(self._bytes[supplier]), self._most_bytes
            yielded = self._yield_bytes(supplier, RELIEF * most) if before > most else 0
            if yielded:
                reason = f"core {supplier} is to hold {before:.3g} bytes and may hold {most:.3g}"
                self._decide("move", f"{reason}: it yields {yielded} group(s), and holds {self._bytes[supplier]:.3g}")

    def _yield_bytes(self, supplier: int, enough: float) -> int:
        """Move groups away from a core that holds too much, those with the most bytes first; return how many.

        Nobody is to have much more work for it, as others' groups with fewer bytes can come in exchange; unless there
        is a limit that cannot be kept otherwise.
        """
        held = {group: self._work.bytes_of_part(group, len(self.owners[group])) for group in self._owned[supplier]}
        largest_first = sorted((group for group in held if held[group] > 0), key=lambda group: (-held[group], group))
        balanced = float(self._loads[self.active].mean()) * (1 + 2 * self._settings.tolerance)
        yielded = 0
        for most, group in product((balanced, np.inf) if self._settings.core_bytes else (balanced,), largest_first):
            if self._bytes[supplier] <= enough or yielded == self._settings.moves:
                break
            if supplier in self.owners[group]:
                # Each part holds all right rows: only what are left rows for the most part becomes less.
                cuttable = held[group] > LARGE * enough and self._work.left_bytes[group] > self._work.right_bytes[group]
                may_cut = self._settings.cut and bool(cuttable)
                bounds = _Bounds(most, enough)
                owners = self._handed_over(group, supplier, bounds, may_cut=may_cut, by_bytes=True)
                if owners is not None:
                    self._own(group, owners)
                    yielded += 1
        return yielded

    def _own(self, group: int, owners: tuple[int, ...]) -> None:
        """Give a group to other cores."""
        for some, sign in ((self.owners[group], -1), (owners, 1)):
            part, held = sign * self._work.of_part(group, len(some)), sign * self._work.bytes_of_part(group, len(some))
            for core in some:
                self._loads[core] += part * self._work.speed[core]
                self._bytes[core] += held
        for core in self.owners[group]:
            self._owned[core].discard(group)
        for core in owners:
            self._owned[core].add(group)
        self.owners[group] = owners

    def _decide(self, kind: Kind, reason: str) -> None:
        self.decisions.append(Decision(kind, reason))
