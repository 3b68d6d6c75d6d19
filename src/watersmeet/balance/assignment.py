"""The owners of all groups while a generation is made, and the work and bytes that each core then has.

Owners change through :meth:`Assignment.give` only, which keeps the work and bytes of all cores up to date.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from watersmeet.arrays import Float64s
from watersmeet.balance.generation import Generation
from watersmeet.balance.loads import Work

__all__ = ["Assignment", "Limits"]


class Limits(NamedTuple):
    """The most work and bytes that a core may have after it has taken a group."""

    work: float
    bytes: float


class Assignment:
    """The owners of each group, which are those of a generation at first.

    ``loads`` is the work of each core in seconds, ``held`` its bytes, ``owned`` the groups that it owns.
    """

    def __init__(self, generation: Generation, work: Work) -> None:
        self.owners = list(generation.owners)
        self.active = list(generation.active)
        self.work = work
        self.loads = work.of_cores(generation)
        self.held = work.bytes_of_cores(generation)
        self.owned: list[set[int]] = [set() for _ in self.loads]
        for group, owners in enumerate(generation.owners):
            for core in owners:
                self.owned[core].add(group)

    def give(self, group: int, owners: tuple[int, ...]) -> None:
        """Give a group to these owners instead of those that it has."""
        for some, sign in ((self.owners[group], -1), (owners, 1)):
            part, held = sign * self.work.of_part(group, len(some)), sign * self.work.bytes_of_part(group, len(some))
            for core in some:
                self.loads[core] += part * self.work.speed[core]
                self.held[core] += held
        for core in self.owners[group]:
            self.owned[core].discard(group)
        for core in owners:
            self.owned[core].add(group)
        self.owners[group] = owners

    def whole_groups(self) -> tuple[Float64s, Float64s]:
        """Return the work of each group as if it were not cut, and that work in fair shares of a core."""
        whole = self.work.of_parts(np.ones(len(self.owners), np.int64))
        return whole, whole * len(self.active) / whole.sum()

    def recut(self, group: int, parts: int) -> None:
        """Cut a group into ``parts``: keep its least loaded owners, or add the least loaded other cores."""
        owners = list(self.owners[group])
        part = self.work.of_part(group, parts)

        def load_with_part(core: int) -> float:
            return float(self.loads[core] + part * self.work.speed[core])

        if parts > len(owners):
            owners += sorted(set(self.active).difference(owners), key=load_with_part)[: parts - len(owners)]
        else:
            owners = sorted(owners, key=load_with_part)[:parts]
        self.give(group, tuple(owners))

    def replace_owner(
        self, group: int, supplier: int, limits: Limits, *, may_cut: bool, by_bytes: bool = False
    ) -> tuple[int, ...] | None:
        """Return a group's owners with another core instead of the supplier, or with ``may_cut`` beside it.

        The other core is the one with the least work, or the least bytes. Return None if no core has room.
        """
        owners = self.owners[group]
        possible = np.array([core for core in self.active if core not in owners], np.int64)
        others = tuple(core for core in owners if core != supplier)
        for kept, parts in [(others, len(owners)), (owners, len(owners) + 1)][: 2 if may_cut else 1]:
            work = self.loads[possible] + self.work.of_part(group, parts) * self.work.speed[possible]
            held = self.held[possible] + self.work.bytes_of_part(group, parts)
            fits = (work <= limits.work) & (held <= limits.bytes)
            if fits.any():
                return *kept, int(possible[fits][(held if by_bytes else work)[fits].argmin()])
        return None
