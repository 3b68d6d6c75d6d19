"""A generation of the routing table: which cores own which group of keys, from one micro-batch on.

Keys (or the buckets of a band) are hashed to *groups*, many more than there are cores (the indirection of
"Parallelizing Windowed Stream Joins in a Shared-Nothing Cluster", section IV-C), and a generation says which core owns
each group. A group with too much work for one core is *cut* and has several. Generations are immutable, numbered from
0, and take effect at a micro-batch that is decided beforehand. Generation 0 follows from the numbers of cores and
groups alone.

A generation also says which one before it is the oldest that may still have rows in a window. New rows look for
partners wherever the generations from that one on have stored rows (see :mod:`watersmeet.balance.placement`), so load
moves to another core although no stored row ever does.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from watersmeet.arrays import Bools, Int64s
from watersmeet.kernels.text import mix_hashes
from watersmeet.spec.errors import SnapshotError, explain_refusal

__all__ = ["BUCKET_WIDTHS", "MOST_LIVE", "Generation", "RoutingTable", "first_generation", "groups_for"]


FORMAT: Final = 2
GROUPS_PER_CORE: Final = 64
FEWEST_GROUPS: Final = 256
BUCKET_WIDTHS: Final = 4
"""Buckets in widths of the band, at first: wide ones send fewer right rows to two cores (here one in four), narrow ones
spread skewed values better."""
MOST_LIVE: Final = 32
"""Generations that new rows may have to look into; a row's own set of them travels as the bits of one number."""


@dataclass(frozen=True)
class Generation:
    """Which cores own each group, from micro-batch ``first`` on."""

    number: int
    first: int
    oldest: int
    """The oldest generation that may still have rows in a window, from ``first`` on."""
    owners: tuple[tuple[int, ...], ...]
    """The cores of each group; several where a group is cut."""
    active: tuple[int, ...]
    """The cores that get groups at all (the degree of declustering is their number)."""
    width: int = BUCKET_WIDTHS
    """Width of a bucket, in widths of the band."""
    reasons: tuple[str, ...] = ()
    """Why it was made, in words."""

    @property
    def groups(self) -> int:
        """Number of groups; the same in all generations of a join."""
        return len(self.owners)

    @cached_property
    def parts(self) -> Int64s:
        """Into how many parts each group is cut."""
        return np.fromiter(map(len, self.owners), np.int64, len(self.owners))

    @cached_property
    def offsets(self) -> Int64s:
        """Where the cores of each group begin in :attr:`cores`."""
        return np.concatenate([[0], np.cumsum(self.parts)[:-1]]).astype(np.int64)

    @cached_property
    def cores(self) -> Int64s:
        """The cores of all groups, one group after the other."""
        return np.fromiter((core for some in self.owners for core in some), np.int64)

    @cached_property
    def first_owner(self) -> npt.NDArray[np.uint16]:
        """The first core of each group, in a small type: it is looked up for every row."""
        return self.cores[self.offsets].astype(np.uint16)

    @cached_property
    def is_cut(self) -> bool:
        """Whether any group has more than one core."""
        return bool(self.parts.max(initial=1) > 1)

    def owned_by(self, core: int) -> Bools:
        """Tell which groups a core owns."""
        own = np.zeros(self.groups, bool)
        own[np.repeat(np.arange(self.groups), self.parts)[self.cores == core]] = True
        return own

    def group_of(self, bucket: Int64s) -> Int64s:
        """Return the group of each bucket (with hash routing: of each key)."""
        mixed = mix_hashes(np.zeros(len(bucket), np.int64), bucket)
        return np.asarray(mixed.view(np.uint64) % np.uint64(self.groups), np.int64)

    def to_json(self) -> str:
        """Return this generation as text."""
        return json.dumps({"format": FORMAT, **asdict(self)}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Generation:
        """Return the generation that :meth:`to_json` gave the text of."""
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
            explain_refusal(
                f"a generation of the routing table cannot be read: {text[:80]!r}",
                f"what watersmeet wrote, in format {FORMAT}",
                "restore the file, or begin with a new checkpoint location",
            )
        )


@dataclass(frozen=True)
class RoutingTable:
    """The generations that may have rows in a window, oldest first; new rows are stored by the last."""

    generations: tuple[Generation, ...]

    def __post_init__(self) -> None:
        numbers = [generation.number for generation in self.generations]
        assert numbers == list(range(self.newest.oldest, self.newest.number + 1)), "a generation is missing"
        assert len(numbers) <= MOST_LIVE, "a row's generations are bits of one number"
        assert len({generation.groups for generation in self.generations}) == 1, "groups are the same for ever"

    @property
    def newest(self) -> Generation:
        """The generation by which new rows are stored."""
        return self.generations[-1]

    @cached_property
    def cores(self) -> Int64s:
        """The cores that may have rows or get some: all others are left in peace."""
        return np.unique(np.concatenate([generation.cores for generation in self.generations]))

    @property
    def oldest(self) -> int:
        """Number of the oldest generation that is still looked into."""
        return self.newest.oldest


def groups_for(cores: int) -> int:
    """Return how many groups a join on so many cores has."""
    return max(FEWEST_GROUPS, GROUPS_PER_CORE * cores)


@cache
def first_generation(cores: int, groups: int | None = None) -> Generation:
    """Return generation 0: groups go to all cores in turn."""
    owners = tuple((group % cores,) for group in range(groups or groups_for(cores)))
    return Generation(number=0, first=0, oldest=0, owners=owners, active=tuple(range(cores)))
