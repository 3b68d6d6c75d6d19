"""Generations of the routing table: who owns what, and what is read back from text."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from watersmeet.balance.generation import Generation, RoutingTable, first_generation, groups_for

OWNERS = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True).map(tuple), min_size=1, max_size=9)


def generation_of(owners: list[tuple[int, ...]]) -> Generation:
    return Generation(3, 17, 1, tuple(owners), (0, 1, 2, 3, 4), 2, ("a group was too hot",))


@given(owners=OWNERS)
def test_oracle_owners_are_looked_up_in_arrays(owners: list[tuple[int, ...]]) -> None:
    generation = generation_of(owners)
    assert generation.groups == len(owners)
    assert generation.parts.tolist() == [len(some) for some in owners]
    assert generation.first_owner.tolist() == [some[0] for some in owners]
    assert generation.is_cut == any(len(some) > 1 for some in owners)
    for group, begin in enumerate(generation.offsets.tolist()):
        assert tuple(generation.cores[begin : begin + len(owners[group])].tolist()) == owners[group]
    for core in range(6):
        assert generation.owned_by(core).tolist() == [core in some for some in owners]


@given(owners=OWNERS)
def test_what_is_written_reads_back(owners: list[tuple[int, ...]]) -> None:
    generation = generation_of(owners)
    assert Generation.from_json(generation.to_json()) == generation


@pytest.mark.parametrize(
    "change",
    [
        {"format": 1},
        {"owners": [[]]},
        {"owners": [[9]]},
        {"owners": 5},
        {"active": None},
        {"reasons": [5]},
        {"first": "x"},
        {"new": 1},
    ],
    ids=str,
)
def test_what_was_not_written_is_refused(change: dict[str, object]) -> None:
    text = json.dumps(json.loads(generation_of([(0,)]).to_json()) | change)
    with pytest.raises(wm.SnapshotError, match="cannot be read"):
        Generation.from_json(text)


@pytest.mark.parametrize("text", ["", "[]", "5", "{}", '{"format": 2'])
def test_what_is_no_generation_is_refused(text: str) -> None:
    with pytest.raises(wm.SnapshotError, match="cannot be read"):
        Generation.from_json(text)


@pytest.mark.parametrize("cores", [1, 3, 16, 100])
def test_the_first_generation_gives_groups_to_all_cores_in_turn(cores: int) -> None:
    first = first_generation(cores)
    assert first.groups == groups_for(cores) >= cores
    counts = Counter(first.cores.tolist())
    assert set(counts) == set(range(cores))
    assert max(counts.values()) - min(counts.values()) <= 1
    assert not first.is_cut


def test_keys_are_spread_over_all_groups_and_stay_there() -> None:
    first = first_generation(4)
    groups = first.group_of(np.arange(100_000))
    assert np.bincount(groups, minlength=first.groups).min() > 200
    assert first.group_of(np.array([0, 1, 2, -1, 2**63 - 1])).tolist() == [0, 229, 138, 123, 189], (
        "checkpoints rely on it"
    )


def test_a_table_has_every_generation_that_may_have_rows() -> None:
    first = first_generation(2)
    second = replace(first, number=1, first=4, owners=((5,),) * first.groups, active=(5,))
    table = RoutingTable((first, second))
    assert table.newest is second
    assert table.oldest == 0
    assert table.cores.tolist() == [0, 1, 5]
    for wrong in ((second,), (second, first), (first, replace(second, owners=((5,),)))):
        with pytest.raises(AssertionError):
            RoutingTable(wrong)


def test_steady_groups_are_those_whose_owners_no_live_generation_changes() -> None:
    first = first_generation(4, 5)
    cut = replace(first, number=1, owners=((0,), (1, 2), (2,), (3,), (1, 0)))
    turned = replace(cut, number=2, owners=((0,), (2, 1), (2,), (3,), (1, 0)))
    wide = replace(cut, number=3, owners=((3,), *cut.owners[1:]), width=9)
    table = RoutingTable((first, cut, turned, wide))
    assert [(last.number, steady.tolist()) for last, steady in table.steady] == [
        (3, [True] * 5),
        (2, [True, False, True, True, False]),
    ]
