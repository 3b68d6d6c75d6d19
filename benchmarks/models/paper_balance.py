"""The balancer of "Parallelizing Windowed Stream Joins in a Shared-Nothing Cluster", sections IV-C and V-A.

It is that of the paper to the letter. A core's *occupancy* is the mean fraction of its buffer that is full at the end
of a distribution epoch. Above ``supplier`` a core is a supplier, below ``consumer`` a consumer. Each supplier yields
one group, chosen at random, to a consumer of its own. The degree of declustering grows when there are more than
``beta`` suppliers for every consumer. When there is no supplier it shrinks: the core with the least work is left out,
and its groups go to the others in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from watersmeet.arrays import Float64s
from watersmeet.balance.generation import Generation

__all__ = ["Paper", "reorganised"]


@dataclass(frozen=True, slots=True)
class Paper:
    """The paper's parameters, with its values (table I)."""

    supplier: float = 0.5
    consumer: float = 0.01
    groups: int = 60
    buffer_seconds: float = 22.0
    """Rows that a buffer has room for, as seconds of a core's even share. The paper's are 1 MB of rows of 64 bytes, for
    4 cores and 1,500 rows a second and stream."""
    beta: float = 0.5
    decluster: bool = False
    """Whether the number of active cores may change."""


def reorganised(
    newest: Generation, occupancy: Float64s, first: int, settings: Paper, random: np.random.Generator
) -> Generation | None:
    """Return the next generation, in effect at once, or None if nothing changes."""
    active = list(newest.active)
    suppliers = [core for core in active if occupancy[core] > settings.supplier]
    consumers = [core for core in active if occupancy[core] < settings.consumer]
    owners = list(newest.owners)
    for supplier, consumer in zip(suppliers, consumers, strict=False):  # one scan over the list of nodes
        owned = [group for group, some in enumerate(owners) if some == (supplier,)]
        if owned:
            owners[int(random.choice(owned))] = (consumer,)
    if settings.decluster:
        active = _declustered(active, owners, (len(suppliers), len(consumers)), occupancy, settings)
    if (tuple(owners), tuple(active)) == (newest.owners, newest.active):
        return None
    return replace(newest, number=newest.number + 1, first=first, owners=tuple(owners), active=tuple(active))


def _declustered(
    active: list[int], owners: list[tuple[int, ...]], counts: tuple[int, int], occupancy: Float64s, settings: Paper
) -> list[int]:
    """Return the active cores from now on; groups of one that is left out go to the others in turn."""
    suppliers, consumers = counts
    others = sorted(set(range(len(occupancy))).difference(active))
    if suppliers > settings.beta * consumers and others:
        return sorted([*active, others[0]])
    if not suppliers and len(active) > 1:
        least = min(active, key=lambda core: (occupancy[core], sum(core in some for some in owners)))
        stay = [core for core in active if core != least]
        orphans = [group for group, some in enumerate(owners) if some == (least,)]
        for turn, group in enumerate(orphans):
            owners[group] = (stay[turn % len(stay)],)
        return stay
    return active
