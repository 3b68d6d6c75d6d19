"""Core ids: each falls where Spark's hash sends it, and together they fall evenly. No session is needed."""

from __future__ import annotations

import pytest

from watersmeet.spark.core_ids import core_ids, partition_of


@pytest.mark.parametrize(("key", "hashed"), [(0, 933211791), (1, -559580957)])
def test_partitions_are_those_of_sparks_hash(key: int, hashed: int) -> None:
    """``SELECT hash(CAST(0 AS INT))`` and so on."""
    for partitions in (1, 2, 7, 200, 2**31 - 1):
        assert partition_of(key, partitions) == hashed % partitions


@pytest.mark.parametrize(("cores", "partitions"), [(1, 1), (2, 2), (5, 2), (3, 8), (64, 10), (200, 200)])
def test_ids_fall_into_the_partitions_in_turn(cores: int, partitions: int) -> None:
    ids = core_ids(cores, partitions)
    assert len(set(ids)) == cores
    assert [partition_of(core, partitions) for core in ids] == [number % partitions for number in range(cores)]
