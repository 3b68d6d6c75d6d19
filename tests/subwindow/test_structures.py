"""Every subwindow structure: one body of tests for what all promise, then what each promises about itself.

``test_oracle_*`` compares with a recomputation from scratch: all stored keys against all probes, in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernels.extendible_hash import mix_keys
from watersmeet.kernels.rap_table import adjust_splitters
from watersmeet.subwindow.bi_sort import BiSort
from watersmeet.subwindow.contract import Entries, Int64s, Pairs, Probes, Ranges, Subwindow, count_matches, pairs_of
from watersmeet.subwindow.hash import Hash
from watersmeet.subwindow.rap_table import RapTable
from watersmeet.subwindow.scan import Scan
from watersmeet.subwindow.wib_tree import WibTree

INT64 = np.iinfo(np.int64)
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


@pytest.fixture(params=STRUCTURES.values(), ids=list(STRUCTURES), scope="module")
def build(request: pytest.FixtureRequest) -> Build:
    structure: Build = request.param
    return structure


def entries_of(key: Int64s, first_row: int = 0) -> Entries:
    order = np.argsort(key, kind="stable")
    return Entries(key[order], (first_row + order).astype(np.int32))


def insert_all(subwindow: Subwindow, batches: list[Int64s]) -> Int64s:
    rows = 0
    for batch in batches:
        subwindow.insert(entries_of(batch, rows))
        rows += len(batch)
    return np.concatenate([np.empty(0, np.int64), *batches])


def found(subwindow: Subwindow, probes: Probes) -> list[tuple[int, int]]:
    matches = list(subwindow.probe(probes))
    pairs = pairs_of(matches)
    assert pairs.who.dtype == pairs.row.dtype == np.int32
    result = list(zip(pairs.who.tolist(), pairs.row.tolist(), strict=True))
    assert count_matches(matches) == len(result)
    return sorted(result)


def expected(key: Int64s, probes: Probes) -> list[tuple[int, int]]:
    who, row = np.nonzero((key >= probes.lo[:, None]) & (key <= probes.hi[:, None]))
    return sorted(zip(probes.who[who].tolist(), row.tolist(), strict=True))


def assert_holds(subwindow: Subwindow, key: Int64s) -> None:
    snapshot = subwindow.snapshot()
    assert snapshot.key.dtype == np.int64
    assert snapshot.row.dtype == np.int32
    np.testing.assert_array_equal(snapshot.key, np.sort(key))
    np.testing.assert_array_equal(np.sort(snapshot.row), np.arange(len(key)))
    np.testing.assert_array_equal(key[snapshot.row], snapshot.key)


def probes_around(key: Int64s, width: Int64s) -> Probes:
    """Return probes ``[key, key + width]``, as far as int64 goes; a negative width gives an empty range."""
    order = np.argsort(key, kind="stable")
    lo = key[order]
    hi = np.array([min(max(a + b, INT64.min), INT64.max) for a, b in zip(lo.tolist(), width.tolist(), strict=True)])
    hi = np.maximum.accumulate(hi.astype(np.int64)) if len(hi) else np.empty(0, np.int64)
    return Probes(lo, hi, (order + 7).astype(np.int32))


KEYS = st.one_of(
    st.integers(-4, 4),
    st.integers(-200, 200),
    st.integers(int(INT64.min), int(INT64.max)),
    st.sampled_from([int(INT64.min), int(INT64.min) + 1, int(INT64.max) - 1, int(INT64.max)]),
)
BATCHES = st.lists(st.lists(KEYS, max_size=40).map(lambda keys: np.array(keys, np.int64)), max_size=6)
WIDTHS = st.one_of(st.just(0), st.integers(-3, 3), st.sampled_from([100, 2**40, 2**63 - 1]))
PROBES = st.one_of(
    st.lists(st.tuples(KEYS, st.just(0)), max_size=30),  # equality
    st.lists(st.tuples(KEYS, WIDTHS), max_size=30),
).map(lambda drawn: probes_around(np.array([k for k, _ in drawn], np.int64), np.array([w for _, w in drawn], np.int64)))


# --- what all promise ------------------------------------------------------------------------------------------------


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


def _shapes() -> dict[str, Int64s]:
    random = np.random.default_rng(3)
    n = 3000
    return {
        "wide": random.integers(INT64.min, INT64.max, n, endpoint=True),
        "dense": random.integers(0, n, n),
        "few values": random.integers(-3, 3, n, endpoint=True),
        "one value": np.full(n, INT64.min),
        "increasing": np.arange(n, dtype=np.int64) * 1000,
        "decreasing": np.arange(n, dtype=np.int64)[::-1] - n,
        "a hot key among others": np.where(random.random(n) < 0.6, 50, random.integers(0, 100, n)),
        "rank-size": np.minimum(1e4 / random.random(n), 1e9).astype(np.int64),
    }


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


@pytest.mark.parametrize("key", _shapes().values(), ids=_shapes().keys())
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


# --- extendible hash -------------------------------------------------------------------------------------------------


def assert_hash_invariants(subwindow: Hash, theta: int) -> None:
    low = (1 << subwindow.global_depth) - 1
    patterns = set()
    for pattern, depth, key in subwindow.buckets():
        mask = (1 << depth) - 1
        assert pattern <= mask <= low
        assert ((mix_keys(key) & np.uint64(mask)) == np.uint64(pattern)).all()
        if len(key) > 2 * theta:  # overflow pages: only where no bit splits the rows apart, or bits have run out
            assert len(np.unique(key)) == 1 or depth == subwindow.deepest
        patterns.add((pattern, depth))
        entries = subwindow.directory[pattern :: 1 << depth]
        assert len(np.unique(entries)) == 1, "all directory entries with the bucket's low bits point to it"
    assert len(patterns) == len(np.unique(subwindow.directory))
    assert sum(2.0**-depth for _, depth in patterns) == 1.0, "the buckets cover all hashes, each once"


def assert_no_buddies_left_to_merge(subwindow: Hash, theta: int) -> None:
    buckets = {(pattern, depth): len(key) for pattern, depth, key in subwindow.buckets()}
    for (pattern, depth), rows in buckets.items():
        if depth and rows < theta:
            buddy = buckets.get((pattern ^ 1 << (depth - 1), depth))
            assert buddy is None or rows + buddy >= 2 * theta
    assert subwindow.global_depth == max(depth for _, depth in buckets), "the directory is as small as can be"


@pytest.mark.parametrize("theta", [2, 8, 16])
@pytest.mark.parametrize("distinct", [3, 100, 2**40])
def test_hash_keeps_its_buckets_between_theta_and_two_theta(theta: int, distinct: int) -> None:
    n = 5000
    subwindow = Hash(n, theta=theta)
    key = insert_all(subwindow, np.array_split(np.random.default_rng(6).integers(0, distinct, n), 9))
    assert_hash_invariants(subwindow, theta)
    subwindow.seal()
    assert_hash_invariants(subwindow, theta)
    assert_no_buddies_left_to_merge(subwindow, theta)
    assert_holds(subwindow, key)
    if distinct > n:
        sizes = np.array([len(k) for _, _, k in subwindow.buckets()])
        assert sizes.max() <= 2 * theta
        assert np.mean(sizes >= theta) > 0.8


def keys_with_low_bits(bits: int, pattern: int, count: int) -> Int64s:
    """Return keys whose hashes end in the ``bits`` bits of ``pattern``."""
    candidates = np.arange(10_000, dtype=np.int64)
    wanted: Int64s = candidates[(mix_keys(candidates) & np.uint64((1 << bits) - 1)) == np.uint64(pattern)]
    return wanted[:count]


def shape_of(subwindow: Hash) -> dict[tuple[int, int], int]:
    return {(pattern, depth): len(key) for pattern, depth, key in subwindow.buckets()}


def test_hash_splits_until_a_bit_tells_the_rows_apart() -> None:
    # The first eight hashes end in 0000 and the ninth in 1000: three splits in vain, and then one that parts them.
    subwindow = Hash(100, theta=4)
    key = insert_all(subwindow, [keys_with_low_bits(4, 0b0000, 8), keys_with_low_bits(4, 0b1000, 1)])
    shape = {(0b0000, 4): 8, (0b1000, 4): 1, (0b100, 3): 0, (0b10, 2): 0, (0b1, 1): 0}
    assert shape_of(subwindow) == shape
    subwindow.seal()  # 8 and 1 rows are not fewer than 2 * theta, and no other buddies have the same depth
    assert shape_of(subwindow) == shape
    assert_holds(subwindow, key)


def test_hash_merges_buddies_and_halves_its_directory_when_sealed() -> None:
    theta = 4
    predecessor = Hash(100, theta=theta)
    insert_all(predecessor, [keys_with_low_bits(3, pattern, 6) for pattern in range(8)])
    assert shape_of(predecessor) == {(pattern, 3): 6 for pattern in range(8)}

    subwindow = Hash(100, predecessor, theta=theta)
    assert shape_of(subwindow) == {(pattern, 3): 0 for pattern in range(8)}
    rows = {0b000: 5, 0b100: 5, 0b010: 3, 0b110: 4, 0b001: 1, 0b101: 2, 0b011: 0, 0b111: 3}
    key = insert_all(subwindow, [keys_with_low_bits(3, pattern, count) for pattern, count in rows.items()])
    points = probes_around(np.arange(300, dtype=np.int64), np.zeros(300, np.int64))
    assert found(subwindow, points) == expected(key, points)
    subwindow.seal()
    # 000 and 100 are full enough; 010 and 110 merge; so do the four odd ones, to 01 and 11, and these to 1.
    assert shape_of(subwindow) == {(0b000, 3): 5, (0b100, 3): 5, (0b10, 2): 7, (0b1, 1): 6}
    assert_hash_invariants(subwindow, theta)
    assert_no_buddies_left_to_merge(subwindow, theta)
    assert found(subwindow, points) == expected(key, points)

    nearly_empty = Hash(100, predecessor, theta=theta)
    key = insert_all(nearly_empty, [np.array([1, 2, 3])])
    nearly_empty.seal()
    assert nearly_empty.global_depth == 0
    assert shape_of(nearly_empty) == {(0, 0): 3}
    assert found(nearly_empty, points) == expected(key, points)


# --- RaP-Table -------------------------------------------------------------------------------------------------------


def test_rap_table_adjusts_splitters_as_in_figure_3() -> None:
    # N = 16, P = 4, so bal = 4, 8, 12; sum = 2, 5, 10, 16.
    #   bal_1 = 4  in (2, 5]:   partition 2, (4 - 2) / 3 of the way from 100 to 190
    #   bal_2 = 8  in (5, 10]:  partition 3, (8 - 5) / 5 of the way from 200 to 300
    #   bal_3 = 12 in (10, 16]: partition 4, (12 - 10) / 6 of the way from 310 to 400
    count, minimum, maximum = np.array([2, 3, 5, 6]), np.array([0, 100, 200, 310]), np.array([90, 190, 300, 400])
    assert adjust_splitters(count, minimum, maximum, 4).tolist() == [160, 260, 340]


def test_rap_table_adjusts_over_all_of_int64() -> None:
    one = np.array([1000])
    splitters = adjust_splitters(one, np.array([INT64.min]), np.array([INT64.max]), 8)
    assert np.allclose(splitters.astype(float), (np.arange(1, 8) / 8 - 0.5) * 2.0**64, atol=2048)
    assert (adjust_splitters(one, np.array([INT64.max]), np.array([INT64.max]), 8) == INT64.max).all()
    tight = adjust_splitters(one, np.array([INT64.max - 8]), np.array([INT64.max]), 8)
    assert tight.tolist() == [INT64.max - 7 + i for i in range(7)]


@given(batches=BATCHES, partitions=st.sampled_from([1, 2, 3, 16]))
def test_rap_table_splitters_never_decrease(batches: list[Int64s], partitions: int) -> None:
    capacity = sum(map(len, batches))
    table = RapTable(capacity, partitions=5)
    insert_all(table, batches)
    successor = RapTable(capacity, table, partitions=partitions)
    assert (np.diff(table.splitters.astype(object)) >= 0).all()
    assert (np.diff(successor.splitters.astype(object)) >= 0).all()
    keys = np.sort(insert_all(successor, batches))
    count, minimum, maximum = successor.histogram()
    assert count.sum() == capacity
    used = count > 0
    assert (minimum[used] <= maximum[used]).all()
    assert (maximum[used][:-1] < minimum[used][1:]).all()
    ends = np.cumsum(count[used])  # of the sorted keys, partition after partition
    assert maximum[used].tolist() == keys[ends - 1].tolist()
    assert minimum[used].tolist() == keys[ends - count[used]].tolist()


DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], Int64s]] = {
    "uniform": lambda random, n: random.integers(10**6, 3 * 10**6, n),
    "normal": lambda random, n: random.normal(2e9, 1e6, n).astype(np.int64),
    "multimodal": lambda random, n: (random.choice([1e8, 1e9, 3e9], n) + random.normal(0, 1e5, n)).astype(np.int64),
    "rank-size": lambda random, n: np.minimum(1000 * random.pareto(1.0, n), 2.0**32).astype(np.int64),
}


@pytest.mark.parametrize("draw", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS.keys())
def test_rap_table_converges_within_three_adjustments(draw: Callable[[np.random.Generator, int], Int64s]) -> None:
    # 256 rows per partition: chance alone leaves an error of about 0.07 between two samples of one distribution.
    random = np.random.default_rng(7)
    n, partitions = 1 << 16, 256
    even_32_bit = np.arange(1, partitions, dtype=np.int64) * (2**32 // partitions)
    table = RapTable(n, splitters=even_32_bit)
    table.insert(entries_of(draw(random, n)))
    assert table.normalised_mean_absolute_error() > 1.9
    for _ in range(3):
        table = RapTable(n, table, partitions=partitions)
        table.insert(entries_of(draw(random, n)))
    assert table.normalised_mean_absolute_error() < 0.12


def test_a_first_rap_table_recovers_from_a_first_batch_of_one_row() -> None:
    random = np.random.default_rng(8)
    table = RapTable(20_000, partitions=64)
    insert_all(table, [np.array([3]), *np.array_split(random.integers(0, 10**9, 19_999), 40)])
    assert table.normalised_mean_absolute_error() < 0.5


@pytest.mark.parametrize("capacity", [1, 2, 7, 64, 1000, 1023])
@pytest.mark.parametrize("partitions", [1, 2, 8, 37])
def test_llat_never_needs_more_than_two_entries_per_partition(capacity: int, partitions: int) -> None:
    # partition p takes the keys p; W is the width of an entry
    splitters = np.arange(partitions - 1, dtype=np.int64)
    width = -(-capacity * 5 // (partitions * 4))
    fills = {
        "all equal": np.zeros(capacity, np.int64),
        "all in the last": np.full(capacity, partitions),
        "one row more than fits, as often as can be": np.arange(capacity) // (width + 1),
        "one row each, the rest in the first": np.maximum(np.arange(capacity) - capacity + partitions, 0),
    }
    for key in fills.values():
        table = RapTable(capacity, splitters=splitters)
        insert_all(table, np.array_split(key.astype(np.int64), 3))
        assert table.entries_used <= 2 * partitions
        assert_holds(table, key)


# --- WiB+-Tree -------------------------------------------------------------------------------------------------------


def assert_tree_invariants(tree: WibTree, width: int) -> None:
    leaves = tree.leaves()
    bounds = [bound for bound, _ in leaves]
    assert bounds[-1] == INT64.max
    assert all(a < b for a, b in pairwise(bounds)), "no separator occurs twice"
    for below, (bound, key) in zip([None, *bounds], leaves, strict=False):
        assert (key <= bound).all()
        assert below is None or (key > below).all()
        assert len(key) <= width or len(np.unique(key)) == 1
    np.testing.assert_array_equal(tree._find(np.array(bounds)), tree._leaf_order())


@pytest.mark.parametrize("key", _shapes().values(), ids=_shapes().keys())
@pytest.mark.parametrize("width", [2, 5, 64])
def test_wib_tree_keeps_every_key_inside_its_leafs_bounds(key: Int64s, width: int) -> None:
    tree = WibTree(len(key), leaf_width=width)
    insert_all(tree, np.array_split(key, 13))
    assert_tree_invariants(tree, width)
    tree.seal()
    assert_tree_invariants(tree, width)


@pytest.mark.parametrize("step", [1, -1], ids=["increasing", "decreasing"])
def test_wib_tree_stays_full_and_flat_on_drifting_keys(step: int) -> None:
    n, width = 50_000, 16
    tree = WibTree(n, leaf_width=width)
    insert_all(tree, np.array_split(np.arange(n, dtype=np.int64) * step, 50))
    leaves = n / width
    assert tree.entries_used <= 1.1 * leaves
    assert tree.height <= 3
    if step > 0:
        assert tree.height == 2  # 64 * 64 leaves or fewer


def test_wib_tree_grows_to_several_levels_on_random_keys() -> None:
    n, width = 40_000, 4
    tree = WibTree(n, leaf_width=width)
    insert_all(tree, np.array_split(np.random.default_rng(9).integers(0, 2**60, n), 20))
    assert_tree_invariants(tree, width)
    assert tree.height == 3
    assert tree.entries_used < 2.2 * n / width


@pytest.mark.parametrize("batches", [1, 7, 64, 100])
def test_bi_sort_keeps_few_runs(batches: int) -> None:
    """A probe searches every run: of batches of one size there are as many as a logarithm says."""
    index = BiSort(1 << 12)
    insert_all(index, [np.arange(16) + 16 * number for number in range(batches)])
    wanted = Probes(np.array([INT64.min]), np.array([INT64.max]), np.zeros(1, np.int32))
    runs = list(index.probe(wanted))
    assert count_matches(runs) == 16 * batches
    assert len(runs) <= np.log2(batches) / 2 + 1
