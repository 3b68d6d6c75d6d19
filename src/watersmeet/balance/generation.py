"""A generation of the routing table: the cores that own each group of keys, from one micro-batch on.

Keys (or the buckets of a band) are hashed to *groups*. There are many more groups than cores (the indirection of
"Parallelizing Windowed Stream Joins in a Shared-Nothing Cluster", section IV-C), and a generation assigns each group to
a core, its owner. A group with too much work for one core is *cut* and has several owners. Generations are immutable,
numbered from 0, and take effect at a micro-batch that is decided in advance. Generation 0 follows from the numbers of
cores and groups alone.

A generation also names the oldest generation that may still have rows in a window. New rows probe wherever the
generations since that one have stored rows (see :mod:`watersmeet.balance.placement`). So load moves to another core,
although stored rows never move.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from watersmeet.arrays import Bools, Int64s
from watersmeet.kernels.text import mix_hashes
from watersmeet.spec.errors import SnapshotError

__all__ = ["BUCKET_WIDTHS", "Generation", "RoutingTable", "first_generation", "groups_for"]


FORMAT: Final = 2
GROUPS_PER_CORE: Final = 64
FEWEST_GROUPS: Final = 256
BUCKET_WIDTHS: Final = 4
"""First width of a bucket, in widths of the band. With wide buckets fewer right rows go to two cores (here one in
four); narrow ones spread skewed values better."""


@dataclass(frozen=True)
class Generation:
    """Which cores own each group, from micro-batch ``first`` on."""

    number: int
    first: int
    oldest: int
    """The oldest generation that may still have rows in a window, from ``first`` on."""
    owners: tuple[tuple[int, ...], ...]
    """The owners of each group: several if the group is cut."""
    active: tuple[int, ...]
    """The cores that may own groups; their number is the degree of declustering."""
    width: int = BUCKET_WIDTHS
    """Width of a bucket, in widths of the band."""
    reasons: tuple[str, ...] = ()
    """The reasons for it, in words."""

    @property
    def groups(self) -> int:
        """The number of groups, which is the same in all generations of a join."""
        return len(self.owners)

    @cached_property
    def parts(self) -> Int64s:
        """The number of parts of each group."""
        return np.fromiter(map(len, self.owners), np.int64, len(self.owners))

    @cached_property
    def offsets(self) -> Int64s:
        """The position in :attr:`cores` at which the owners of each group begin."""
        return np.concatenate([[0], np.cumsum(self.parts)[:-1]]).astype(np.int64)

    @cached_property
    def cores(self) -> Int64s:
        """The owners of all groups, one group after the other."""
        return np.fromiter((core for some in self.owners for core in some), np.int64)

    @cached_property
    def first_owner(self) -> npt.NDArray[np.uint16]:
        """The first owner of each group, in a small type, because it is looked up for every row."""
        return self.cores[self.offsets].astype(np.uint16)

    @cached_property
    def is_cut(self) -> bool:
        """Whether any group has more than one owner."""
        return bool(self.parts.max(initial=1) > 1)

    def owned_by(self, core: int) -> Bools:
        """Tell which groups a core owns."""
        own = np.zeros(self.groups, bool)
        own[np.repeat(np.arange(self.groups), self.parts)[self.cores == core]] = True
        return own

    def agrees_with(self, other: Generation) -> Bools:
        """Tell which groups have the same owners in another generation, in the same order."""
        same = (self.parts == other.parts) & (self.first_owner == other.first_owner)
        for group in np.flatnonzero(same & (self.parts > 1)).tolist():
            same[group] = self.owners[group] == other.owners[group]
        return np.asarray(same)

    def group_of(self, bucket: Int64s) -> Int64s:
        """Return the group of each bucket, or with hash routing of each key."""
        mixed = mix_hashes(np.zeros(len(bucket), np.int64), bucket)
        return np.asarray(mixed.view(np.uint64) % np.uint64(self.groups), np.int64)

    def to_json(self) -> str:
        """Return this generation as text."""
        return json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Generation:
        """Return the generation whose text :meth:`to_json` returned."""
        try:
            content: dict[str, Any] = json.loads(text)
            owners = tuple(tuple(map(int, some)) for some in content.pop("owners"))
            active = tuple(map(int, content.pop("active")))
            reasons = tuple(content.pop("reasons"))
            numbers = {name: int(value) for name, value in content.items()}
            has_owners = set(active).issuperset(core for some in owners for core in some) and all(owners)
            if numbers.pop("format") == FORMAT and has_owners and all(isinstance(reason, str) for reason in reasons):
                return cls(owners=owners, active=active, reasons=reasons, **numbers)
        except (ValueError, TypeError, KeyError, AttributeError):
            pass  # refused below, like another format
        raise SnapshotError(
            f"a generation of the routing table cannot be read: {text[:80]!r}",
            f"what watersmeet wrote, in format {FORMAT}",
            "restore the file, or begin with a new checkpoint location",
        )


@dataclass(frozen=True)
class RoutingTable:
    """The generations that may have rows in a window, oldest first. New rows are stored by the last one."""

    generations: tuple[Generation, ...]

    def __post_init__(self) -> None:
        numbers = [generation.number for generation in self.generations]
        assert numbers == list(range(self.newest.oldest, self.newest.number + 1)), "a generation is missing"
        assert len({generation.groups for generation in self.generations}) == 1, "groups are the same for ever"

    @property
    def newest(self) -> Generation:
        """The generation by which new rows are stored."""
        return self.generations[-1]

    @cached_property
    def cores(self) -> Int64s:
        """The cores that have rows or may get some. All other cores get no envelopes."""
        return np.unique(np.concatenate([generation.cores for generation in self.generations]))

    @cached_property
    def widths(self) -> dict[int, list[Generation]]:
        """The generations by the width of their buckets, newest first."""
        found: dict[int, list[Generation]] = {}
        for generation in reversed(self.generations):
            found.setdefault(generation.width, []).append(generation)
        return found

    @cached_property
    def steady(self) -> tuple[tuple[Generation, Bools], ...]:
        """For each width of buckets the last generation that has it, and the groups whose owners all of them agree on.

        So what rows of such groups cost does not depend on how many generations are live.
        """
        return tuple(
            (last, np.logical_and.reduce([last.agrees_with(each) for each in (last, *others)]))
            for last, *others in self.widths.values()
        )

    @cached_property
    def owners(self) -> tuple[Generation, ...]:
        """For each width of buckets a generation by which a group has all owners that any live one gives it."""
        return tuple(_merged(generations) for generations in self.widths.values())

    @property
    def oldest(self) -> int:
        """The number of the oldest generation whose rows are still probed."""
        return self.newest.oldest


def _merged(generations: list[Generation]) -> Generation:
    """Return a generation by which each group has all owners that any of these gives it; the first is the newest."""
    newest, *others = generations
    owners = list(newest.owners)
    for other in others:
        for group in np.flatnonzero(~newest.agrees_with(other)).tolist():
            owners[group] = tuple(dict.fromkeys((*owners[group], *other.owners[group])))
    return replace(newest, owners=tuple(owners)) if others else newest


def groups_for(cores: int) -> int:
    """Return the number of groups of a join on ``cores`` cores."""
    return max(FEWEST_GROUPS, GROUPS_PER_CORE * cores)


@cache
def first_generation(cores: int, groups: int | None = None) -> Generation:
    """Return generation 0: groups go to all cores in turn."""
    owners = tuple((group % cores,) for group in range(groups or groups_for(cores)))
    return Generation(number=0, first=0, oldest=0, owners=owners, active=tuple(range(cores)))
