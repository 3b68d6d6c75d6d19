"""Core ids that Spark's own hash spreads evenly over the shuffle partitions.

Spark sends the rows of key *k* to partition ``pmod(murmur3(k, 42), partitions)``. Ids 0, 1, 2, … may fall into few
partitions (0 and 1 fall into the same of two), so ids are chosen that fall into the partitions in turn.
"""

from __future__ import annotations

from itertools import count
from typing import Final

__all__ = ["KEEPER", "core_ids", "partition_of"]

KEEPER: Final = -1
"""A core that never gets rows, with the same id in every join. Its manifest shows that a checkpoint is another join's,
even if all cores of that join have other ids."""
SEED: Final = 42
MASK: Final = 0xFFFFFFFF


def core_ids(cores: int, partitions: int) -> tuple[int, ...]:
    """Return ``cores`` ids; the first ``partitions`` of them fall into different partitions, and so on."""
    wanted = [core % partitions for core in range(cores)]
    ids: dict[int, list[int]] = {partition: [] for partition in set(wanted)}
    missing = cores
    for candidate in count():
        partition = partition_of(candidate, partitions)
        if partition in ids and len(ids[partition]) < wanted.count(partition):
            ids[partition].append(candidate)
            missing -= 1
            if missing == 0:
                break
    return tuple(ids[partition].pop(0) for partition in wanted)


def partition_of(key: int, partitions: int) -> int:
    """Return the shuffle partition of an int key: Spark's Murmur3 (32 bits, seed 42) of four bytes, pmod partitions."""
    h = _mixed(SEED ^ _scrambled(key & MASK)) ^ 4
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & MASK
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & MASK
    h ^= h >> 16
    return (h - (1 << 32) if h >> 31 else h) % partitions


def _scrambled(k: int) -> int:
    return (_rotated((k * 0xCC9E2D51) & MASK, 15) * 0x1B873593) & MASK


def _mixed(h: int) -> int:
    return (_rotated(h, 13) * 5 + 0xE6546B64) & MASK


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & MASK
