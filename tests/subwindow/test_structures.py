"""What every subwindow structure promises, in one body of tests; what each promises about itself has a file of its own.

``test_oracle_*`` compares with a recomputation from scratch: all stored keys against all probes, in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest
from hypothesis import given

from drawn_keys import INT64, shapes
from structures import BATCHES, PROBES, assert_holds, entries_of, expected, found, insert_all, probes_around
from watersmeet.arrays import Int64s
from watersmeet.spec.options import StructureName
from watersmeet.subwindow import choose
from watersmeet.subwindow.bi_sort import BiSort
from watersmeet.subwindow.contract import Pairs, Probes, Ranges, Subwindow
from watersmeet.subwindow.hash import Hash
from watersmeet.subwindow.rap_table import RapTable
from watersmeet.subwindow.scan import Scan
from watersmeet.subwindow.wib_tree import WibTree

Build = Callable[..., Subwindow]

# The small variants split, chain and run out of entries with a few rows already.
STRUCTURES: dict[str, Build] = {
    "scan": Scan,
    "hash": Hash,
    "hash-small": lambda capacity, predecessor=None: Hash(capacity, predecessor, theta=2),
    "rap_table": RapTable,
    "rap_table-small": lambda capacity, predecessor=None: RapTable(capacity, predecessor, partitions=8),
    "wib_tree": WibTree,
    "wib_tree-small": lambda capacity, predecessor=None: WibTree(capacity, predecessor, leaf_width=4),
    "bi_sort": BiSort,
}


def test_every_structure_is_tested_here() -> None:
    assert {name.partition("-")[0] for name in STRUCTURES} == set(get_args(StructureName)) == set(choose.STRUCTURES)


@pytest.fixture(params=STRUCTURES.values(), ids=list(STRUCTURES), scope="module")
def build(request: pytest.FixtureRequest) -> Build:
    structure: Build = request.param
    return structure


@given(batches=BATCHES, probes=PROBES)
def test_oracle_drawn(build: Build, batches: list[Int64s], probes: Probes) -> None:
    capacity = sum(map(len, batches))
    subwindow = build(capacity)
    key = insert_all(subwindow, batches)
    wanted = expected(key, probes)
    assert found(subwindow, probes) == wanted
    assert_holds(subwindow, key)

    successor = build(capacity, subwindow)  # made before its predecessor is sealed, and from its histograms
    insert_all(successor, batches[::-1])
    assert len(found(successor, probes)) == len(wanted)

    subwindow.seal()
    assert found(subwindow, probes) == wanted
    assert_holds(subwindow, key)

    rebuilt = build(capacity, subwindow)
    rebuilt.insert(subwindow.snapshot())
    assert found(rebuilt, probes) == wanted


@given(batches=BATCHES, probes=PROBES)
def test_oracle_pairs_come_in_portions(build: Build, batches: list[Int64s], probes: Probes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("watersmeet.subwindow.contract.PAIRS_AT_ONCE", 3)
        subwindow = build(sum(map(len, batches)))
        stored = insert_all(subwindow, batches)
        assert found(subwindow, probes) == expected(stored, probes)
        for pairs in subwindow.probe(probes):
            one_probe = isinstance(pairs, Pairs) and len(set(pairs.who.tolist())) == 1
            assert pairs.count <= 3 or one_probe or isinstance(pairs, Ranges)


@pytest.mark.parametrize("key", shapes().values(), ids=shapes().keys())
def test_oracle_probed_between_batches(build: Build, key: Int64s) -> None:
    random = np.random.default_rng(4)
    subwindow = build(len(key))
    asked = np.concatenate([random.choice(key, 40), random.integers(key.min(), key.max(), 20, endpoint=True)])
    span = (int(key.max()) - int(key.min())) // 50
    points = probes_around(asked, np.zeros(60, np.int64))
    ranges = probes_around(asked, random.choice([-1, 0, 1, span], 60))
    done = 0
    for size in (1, 0, 7, 500, 1, 1200, len(key)):
        subwindow.insert(entries_of(key[done : done + size], done))
        done = min(done + size, len(key))
        assert found(subwindow, points) == expected(key[:done], points)
        assert found(subwindow, ranges) == expected(key[:done], ranges)
    assert_holds(subwindow, key)
    subwindow.seal()
    assert found(subwindow, points) == expected(key, points)
    assert found(subwindow, ranges) == expected(key, ranges)


def test_empty_batches_and_an_empty_subwindow(build: Build) -> None:
    nothing = np.empty(0, np.int64)
    no_probes = Probes(nothing, nothing, nothing.astype(np.int32))
    everything = Probes(np.array([INT64.min]), np.array([INT64.max]), np.zeros(1, np.int32))
    subwindow = build(10)
    for _ in range(2):
        subwindow.insert(entries_of(nothing))
        assert found(subwindow, no_probes) == []
        assert found(subwindow, everything) == []
        assert len(subwindow.snapshot()) == 0
    subwindow.insert(entries_of(np.array([5])))
    assert found(subwindow, no_probes) == []
    assert found(subwindow, everything) == [(0, 0)]
    empty = build(10)
    empty.seal()
    assert found(empty, everything) == []
    assert len(build(10, empty).snapshot()) == 0


def test_memory_is_counted_and_a_sealed_subwindow_has_no_slack(build: Build) -> None:
    n = 20_000
    subwindow = build(n)
    insert_all(subwindow, np.array_split(np.random.default_rng(5).integers(0, 2**50, n), 7))
    before = subwindow.nbytes
    subwindow.seal()
    assert 12 * n <= subwindow.nbytes <= before
