"""Decides at every reorganisation epoch which core owns which group from then on. It is a pure function.

It follows "Parallelizing Windowed Stream Joins in a Shared-Nothing Cluster", sections IV-C and V-A. A core's
*occupancy* is the fraction of the epoch in which it will be busy with its groups. A core well above the mean is a
*supplier*, one below it is a *consumer*, all others are *neutral*. Suppliers yield groups to consumers. The *degree of
declustering* (the number of active cores) grows when there are more than ``beta`` busy cores for every idle one, and
shrinks when all are idle.

*Memory* is a second reason to yield a group; the paper leaves it to be added. A core is a supplier, even with little
work, if it will hold more than ``core_bytes``, or without that limit more than ``uneven`` times the mean. Its groups
with the most bytes go first, to cores that have room for the bytes and the work. No group ever goes to a core without
room for its bytes, so a group that moved for one reason does not move back for the other. With a limit, bytes count for
the degree of declustering as work does.

*Buckets* of a band become narrower while a few of them have most of the rows, so that groups can be spread. They become
wider while right rows are stored too often and there are enough groups.

Departures. The paper moves one group per supplier and epoch, because its rows must be copied. Here no row moves (see
:mod:`watersmeet.balance.placement`), so a supplier yields groups until it is near the mean, at most ``moves`` of them.
The paper chooses a group at random; here it is the largest that fits. The paper's occupancy is that of a buffer; here
it is that of processors. Work and bytes are those expected under the newest generation, because observations still show
earlier generations for as long as a window. A group with too much work for one core is cut into parts of about a
quarter of a core's share; the paper cuts inside a core only. The paper leaves a core out as soon as there is no
supplier, even if all are half busy. Here all must be idle, and so many are left out that the others come to
``wanted``, far enough from both thresholds that the next epoch does not reverse it.

A generation that changes nothing is not made. Each decision has its reason in words; where a limit of bytes cannot be
kept, words are all there is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import ceil
from typing import Final, Literal

import numpy as np

from watersmeet.balance.assignment import Assignment, Limits
from watersmeet.balance.generation import Generation, RoutingTable
from watersmeet.balance.loads import Observation, Work, measure_work

__all__ = ["Decision", "Plan", "Settings", "decide", "forget"]

Kind = Literal["cut", "mend", "move", "grow", "shrink", "narrow", "widen", "forget", "wait", "full"]

LEAD: Final = 3
"""Micro-batches from a decision until it takes effect: by then every task must have seen the file."""
PART: Final = 0.25
"""A part of a cut group, as a fraction of a core's fair share: small enough that parts can be moved too."""
LARGEST_PART: Final = 0.4
SMALLEST_PART: Final = 0.1
"""A group is cut anew when its parts become larger or smaller than these fractions."""
TURNS: Final = 2
"""How often a core may be a supplier within one epoch."""
FEW_GROUPS: Final = 4
"""Buckets become narrower if there are fewer groups per active core, counted as groups with equally many rows."""
PLENTY: Final = 3
"""Buckets become wider only if there are more groups than this many times ``FEW_GROUPS``: it may halve their number."""
WIDEST: Final = 16
MANY_COPIES: Final = 1.3
"""Buckets become wider if right rows are stored more often than this on average: it takes a window until that pays."""
RELIEF: Final = 0.9
"""A core that holds too much yields groups until it holds this fraction of what it may."""
LEAST_EVEN: Final = 1.25
"""A core may always hold this many times the mean: a lower limit could not be kept."""
LARGE: Final = 0.5
SMALL: Final = 0.25
"""Fractions of what a core may hold: a group with more bytes than ``LARGE`` is cut, one whose parts have fewer than
``SMALL`` may be mended."""


@dataclass(frozen=True, slots=True)
class Settings:
    """When the balancer acts."""

    tolerance: float = 0.1
    """A core is a supplier if its work is more than this fraction above the mean."""
    idle: float = 0.2
    """Occupancy below which a core counts as idle, for the degree of declustering (the paper's consumer threshold)."""
    busy: float = 0.7
    """Occupancy above which a core counts as busy (the paper's supplier threshold)."""
    wanted: float = 0.45
    """Mean occupancy to which the degree of declustering is set when it changes."""
    beta: float = 0.5
    """The degree grows when there are more than ``beta`` busy cores for every idle one."""
    core_bytes: int | None = None
    """Bytes that a core may hold. None: ``uneven`` times the mean."""
    uneven: float = 1.5
    """Without ``core_bytes``, a core is a supplier if it holds more than this many times the mean."""
    moves: int | None = None
    """Groups that a supplier may yield in one epoch. None: any number."""
    cut: bool = True
    """Whether groups may be cut."""
    decluster: bool = True
    """Whether the number of active cores may change."""
    has_buckets: bool = False
    """Whether groups are made of buckets, whose width can change."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A change, and the reason for it."""

    kind: Kind
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The next generation (None: the newest one stays), and the decisions that led to it."""

    generation: Generation | None
    decisions: tuple[Decision, ...]


def decide(table: RoutingTable, observation: Observation, cores: int, settings: Settings) -> Plan:
    """Return the generation that follows ``table.newest`` on at most ``cores`` cores, with the reasons for it."""
    newest = table.newest
    if observation.micro_batch < newest.first:
        return Plan(None, (Decision("wait", f"generation {newest.number} is not in effect yet"),))
    work = measure_work(observation, newest, cores)
    if not work.of_parts(newest.parts).any():
        return Plan(None, ())
    draft = _Draft(newest, work, observation.seconds, settings)
    if settings.has_buckets:
        draft.choose_width(observation.replication)
    if settings.decluster:
        draft.choose_active(cores)
    if draft.width == newest.width:  # buckets of another width make other groups: the next epoch shows their cost
        if settings.cut:
            draft.cut_groups()
        draft.move_groups()
        draft.move_bytes()
        draft.report_full()
    if all(decision.kind == "full" for decision in draft.decisions):
        return Plan(None, tuple(draft.decisions))
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
    """Return a generation by which rows no longer probe where earlier generations have no rows left.

    It needs no epoch, and is made once all rows are stored where the newest generation stores them. ``oldest`` is the
    oldest generation that any core had rows of after ``micro_batch``.
    """
    newest = table.newest
    others = [old for old in table.generations if (old.owners, old.width) != (newest.owners, newest.width)]
    if micro_batch < newest.first or not others or others[-1].number >= oldest:
        return Plan(None, ())
    reason = f"no rows are left of the generations before {oldest}"
    first = micro_batch + LEAD
    generation = replace(newest, number=newest.number + 1, first=first, oldest=oldest, reasons=(reason,))
    return Plan(generation, (Decision("forget", reason),))


class _Draft(Assignment):
    """The next generation while it is made: an assignment, and the decisions that have led to it."""

    def __init__(self, newest: Generation, work: Work, seconds: float, settings: Settings) -> None:
        super().__init__(newest, work)
        self.width = newest.width
        self.decisions: list[Decision] = []
        self._settings = settings
        self._seconds = max(seconds, 1e-9)

    def choose_width(self, replication: float) -> None:
        """Make buckets narrower if few have most of the rows; wider if there are many, and many copies of rows."""
        rows = self.work.left + self.work.right
        if not rows.any():
            return
        # A group that will be cut counts as its parts: narrower buckets would not help a single hot value.
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
        """Adjust the degree of declustering (section V-A) to the work, and to the bytes if they are limited."""
        settings = self._settings
        busy_part = self.loads[self.active] / self._seconds
        full_part = self.held[self.active] / (settings.core_bytes or np.inf)
        occupancy = np.maximum(busy_part, full_part)
        total = float(max(busy_part.sum(), full_part.sum()))
        busy, idle = int((occupancy > settings.busy).sum()), int((occupancy < settings.idle).sum())
        wanted = min(cores, max(1, ceil(total / settings.wanted)))
        if busy > settings.beta * idle and wanted > len(self.active):
            more = [core for core in range(cores) if core not in set(self.active)][: wanted - len(self.active)]
            self.active = sorted([*self.active, *more])
            self._decide("grow", f"{busy} core(s) busy or full, {idle} idle: {len(self.active)} from now on")
        elif idle == len(self.active) and wanted < len(self.active):
            keep = np.argsort(self.work.speed[self.active], kind="stable")[:wanted]
            fewer = len(self.active) - wanted
            self.active = sorted(np.array(self.active)[keep].tolist())
            self._leave_inactive()
            reason = f"no core is busy or full for more than {settings.idle:.0%}: {wanted} from now on"
            self._decide("shrink", f"{reason}, and {fewer} message(s) fewer from every task")

    def _leave_inactive(self) -> None:
        """Take groups from cores that are no longer active: a cut group keeps its other owners, others go in turn."""
        stay = set(self.active)
        turn = 0
        for group, owners in enumerate(self.owners):
            if not stay.issuperset(owners):
                kept = [core for core in owners if core in stay]
                if not kept:
                    kept = [self.active[turn % len(self.active)]]
                    turn += 1
                self.give(group, tuple(kept))

    def cut_groups(self) -> None:
        """Cut groups that are more than a core's fair share; mend cut groups that have become small."""
        parts = np.fromiter(map(len, self.owners), np.int64)
        whole, shares = self.whole_groups()
        # Small parts are easy to move, as long as there are cores that have none of the group.
        most = np.clip(shares / LARGEST_PART, len(self.active) // 2, len(self.active))
        wanted = np.minimum(np.ceil(np.clip(shares / PART, 1, most)), self.work.most_parts()).astype(np.int64)
        too_large = np.where(parts == 1, shares > 1, shares > LARGEST_PART * parts) & (4 * wanted > 5 * parts)
        is_small = self.work.left_bytes / wanted + self.work.right_bytes <= SMALL * self._most_bytes
        too_small = (shares <= SMALLEST_PART * parts) & (wanted < parts) & is_small
        changed = np.flatnonzero(too_large | too_small)
        for group in changed[np.argsort(-whole[changed], kind="stable")].tolist():
            before, after = int(parts[group]), int(wanted[group])
            self.recut(group, after)
            share = f"group {group} is {shares[group]:.2f} times a core's fair share"
            self._decide("cut" if after > before else "mend", f"{share}: {after} part(s) instead of {before}")

    def move_groups(self) -> None:
        """Let suppliers yield groups to consumers; the supplier with the most work goes first.

        A consumer that has taken a group may have to yield smaller ones.
        """
        turns = dict.fromkeys(self.active, 0)
        while True:
            mean = float(self.loads[self.active].mean())
            waiting = [core for core in self.active if turns[core] < TURNS]
            supplier = max(waiting, key=lambda core: float(self.loads[core]), default=None)
            if supplier is None or self.loads[supplier] <= mean * (1 + self._settings.tolerance):
                return
            turns[supplier] += 1 if self._settings.moves is None else TURNS
            before = float(self.loads[supplier])
            yielded = self._yield_groups(supplier, mean)
            if yielded:
                reason = f"core {supplier} at {before / mean:.2f} times the mean yields {yielded} group(s)"
                self._decide("move", f"{reason}: {self.loads[supplier] / mean:.2f} times")

    def _yield_groups(self, supplier: int, mean: float) -> int:
        """Move groups away from one supplier, the largest first, until it is near the mean; return how many."""
        work = {group: self.work.of_part(group, len(self.owners[group])) for group in self.owned[supplier]}
        largest_first = sorted((group for group in work if work[group] > 0), key=lambda group: (-work[group], group))
        little = mean * self._settings.tolerance / 4
        _, shares = self.whole_groups()
        yielded = 0
        # First groups that bring no core far above the mean, then any that improve the balance.
        for modest, group in product((True, False), largest_first):
            if self.loads[supplier] <= mean + little or yielded == self._settings.moves:
                break
            if supplier in self.owners[group]:
                most = mean + 2 * little if modest else float(self.loads[supplier]) - 2 * little
                worth_cutting = shares[group] > SMALLEST_PART * (len(self.owners[group]) + 1)  # or it would be mended
                may_cut = self._settings.cut and not modest and bool(worth_cutting)
                owners = self._better_owners(group, supplier, most, may_cut=may_cut)
                if owners is not None:
                    self.give(group, owners)
                    yielded += 1
        return yielded

    def _better_owners(self, group: int, supplier: int, most: float, *, may_cut: bool) -> tuple[int, ...] | None:
        """Return owners for a group that relieve its supplier and give no core more work than ``most``."""
        owners = self.replace_owner(group, supplier, Limits(most, RELIEF * self._most_bytes), may_cut=may_cut)
        speed = self.work.speed
        others = [core for core in self.owners[group] if core != supplier]
        if owners is None and others and speed[supplier] > 1:
            # No core has room for all of it, but the other owners together may have.
            more = self.work.of_part(group, len(others)) - self.work.of_part(group, len(others) + 1)
            if (more * speed[others]).max() <= self._settings.tolerance * self.loads[self.active].mean():
                return tuple(others)
        return owners

    @property
    def _most_bytes(self) -> float:
        """The bytes that a core may hold."""
        mean = float(self.held[self.active].mean())
        limit = self._settings.core_bytes
        return self._settings.uneven * mean if limit is None else max(limit, LEAST_EVEN * mean)

    def move_bytes(self) -> None:
        """Let cores that hold too much yield groups to cores that have room; the fullest core goes first."""
        for supplier in sorted(self.active, key=lambda core: -float(self.held[core])):
            before, most = float(self.held[supplier]), self._most_bytes
            yielded = self._yield_bytes(supplier, RELIEF * most) if before > most else 0
            if yielded:
                reason = f"core {supplier} is to hold {before:.3g} bytes and may hold {most:.3g}"
                self._decide("move", f"{reason}: it yields {yielded} group(s), and holds {self.held[supplier]:.3g}")

    def report_full(self) -> None:
        """Say which cores will hold more than the limit nevertheless, and what helps."""
        limit = self._settings.core_bytes
        if limit is None:
            return
        full = [core for core in self.active if self.held[core] > limit]
        if full:
            names, most = ", ".join(map(str, full)), float(self.held[full].max())
            reason = f"core(s) {names} will hold up to {most:.3g} bytes and may hold {limit:.3g}, and no core has room"
            mean = float(self.held[self.active].mean())
            self._decide("full", f"{reason}: cores hold {mean:.3g} on average; more cores or a higher limit would help")

    def _yield_bytes(self, supplier: int, enough: float) -> int:
        """Move groups away from a core that holds too much, those with the most bytes first; return how many.

        No core gets much more work than the mean, because a group with fewer bytes may do as well. With a limit, groups
        move without regard to work if the limit cannot be kept otherwise.
        """
        held = {group: self.work.bytes_of_part(group, len(self.owners[group])) for group in self.owned[supplier]}
        largest_first = sorted((group for group in held if held[group] > 0), key=lambda group: (-held[group], group))
        balanced = float(self.loads[self.active].mean()) * (1 + 2 * self._settings.tolerance)
        yielded = 0
        for most, group in product((balanced, np.inf) if self._settings.core_bytes else (balanced,), largest_first):
            if self.held[supplier] <= enough or yielded == self._settings.moves:
                break
            if supplier in self.owners[group]:
                # Each part holds all right rows, so cutting helps only where most bytes are those of left rows.
                cuttable = held[group] > LARGE * enough and self.work.left_bytes[group] > self.work.right_bytes[group]
                may_cut = self._settings.cut and bool(cuttable)
                limits = Limits(most, enough)
                owners = self.replace_owner(group, supplier, limits, may_cut=may_cut, by_bytes=True)
                if owners is not None:
                    self.give(group, owners)
                    yielded += 1
        return yielded

    def _decide(self, kind: Kind, reason: str) -> None:
        self.decisions.append(Decision(kind, reason))
