"""Results in order: outer and inner (SplitJoin, definitions 1 and 2), and relaxed to a stated bound."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import watersmeet as wm
from topologies import PREDICATES, SCHEMA, TOPOLOGIES, WINDOWS, disturbed, expected, ids, join_of, small_windows, stream
from watersmeet.arrays import Int64s
from watersmeet.spec.sql import parse_predicate

Push = tuple[pa.Table | None, pa.Table | None]


def arrivals(pushes: list[Push], *, ordered_by_time: bool) -> tuple[dict[int, int], dict[int, int]]:
    """Return when each id arrived: push by push, left before right; in an ordered count window by time."""
    moments: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for push in pushes:
        rows = [
            (row["ts"] if ordered_by_time else 0, side, place, row["id"])
            for side, table in enumerate(push)
            if table is not None
            for place, row in enumerate(table.select(["id", "ts"]).to_pylist())
        ]
        for _, side, _, number in sorted(rows):
            moments[side][number] = len(moments[0]) + len(moments[1])
    return moments


@pytest.mark.parametrize("values", [2, 60], ids=["many matches", "few"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("order", ["outer", "inner"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_pairs_come_in_the_order_asked_for(topology: str, order: Any, window: str, values: int) -> None:
    on = PREDICATES["band"]
    for seed, cores in enumerate((1, 3, 8)):
        pushes = stream(seed, pushes=4, most_rows=20, values=values)
        join = join_of(on, WINDOWS[window], topology=topology, cores=cores, order=order, block_rows=5)
        with disturbed(seed):
            found = [pair for left, right in pushes for pair in ids(join.push(left=left, right=right))]
            found += ids(join.finish())
        assert sorted(found) == sorted(expected(on, WINDOWS[window], pushes).elements())
        left, right = arrivals(pushes, ordered_by_time="ordered" in window)
        moments = [sorted((left[a], right[b]), reverse=True) for a, b in found]  # the later row first
        assert [later for later, _ in moments] == sorted(later for later, _ in moments)
        if order == "inner":
            assert moments == sorted(moments)


@st.composite
def jumbled(draw: st.DrawFn) -> list[Push]:
    """Draw pushes whose times jump about, far more than the windows are long; some of the rows are late."""
    pushes, first = [], 0
    for number in range(draw(st.integers(1, 5))):
        tables = []
        for _ in range(2):
            times = draw(st.lists(st.integers(0, 30), max_size=25))
            columns = {
                "id": first + np.arange(len(times)),
                "ts": pa.array([1_000_000 * (time + 5 * number) for time in times], pa.timestamp("us")),
                "x": pa.array([time % 3 for time in times], pa.int64()),
                "k": pa.array([time % 2 for time in times], pa.int64()),
            }
            tables.append(pa.table(columns, schema=SCHEMA))
            first += len(times)
        pushes.append((tables[0], tables[1]))
    return pushes


@given(
    pushes=jumbled(),
    window=st.sampled_from(sorted(WINDOWS)),
    order=st.sampled_from(["outer", "inner"]),
    batch_rows=st.sampled_from([None, 1, 10, 40]),
    cores=st.integers(1, 3),
)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_oracle_order_holds_however_rows_are_cut_and_collected(
    topology: str, pushes: list[Push], window: str, order: Any, batch_rows: int | None, cores: int
) -> None:
    on = PREDICATES["band"]
    options = {"topology": topology, "cores": cores, "order": order, "block_rows": 5, "batch_rows": batch_rows}
    with small_windows(), join_of(on, WINDOWS[window], **options) as join:
        found = [pair for left, right in pushes for pair in ids(join.push(left=left, right=right))]
        found += ids(join.finish())
    assert Counter(found) == oracle.pairs(
        parse_predicate(on), WINDOWS[window], {"left": SCHEMA, "right": SCHEMA}, pushes
    )
    left, right = arrivals(pushes, ordered_by_time="ordered" in window)
    moments = [sorted((left[a], right[b]), reverse=True) for a, b in found]
    assert [later for later, _ in moments] == sorted(later for later, _ in moments)
    if order == "inner":
        assert moments == sorted(moments)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_order_holds_after_a_restart(topology: str) -> None:
    on, window, pushes = PREDICATES["band"], WINDOWS["time"], stream(3, most_rows=20)
    join = join_of(on, window, topology=topology, cores=3, order="inner")
    found = [pair for left, right in pushes[:3] for pair in ids(join.push(left=left, right=right))]
    join = wm.StreamJoin.restore(join.snapshot(), cores=2)
    found += [pair for left, right in pushes[3:] for pair in ids(join.push(left=left, right=right))]
    found += ids(join.finish())
    left, right = arrivals(pushes, ordered_by_time=False)
    moments = [sorted((left[a], right[b]), reverse=True) for a, b in found]
    assert moments == sorted(moments)
    assert sorted(found) == sorted(expected(on, window, pushes).elements())


# --- relaxed ----------------------------------------------------------------------------------------------------------


@cache
def tidy(seed: int, pushes: int = 6, most_rows: int = 60) -> list[Push]:
    """Return pushes whose rows all take part: none is late, and no value is null."""
    dice, given, first = np.random.default_rng(seed), [], 0
    for _ in range(pushes):
        tables = []
        for _ in range(2):
            count = int(dice.integers(0, most_rows + 1))
            tables.append(
                pa.table(
                    {
                        "id": first + np.arange(count),
                        "ts": pa.array(60_000 * (first + np.arange(count)), pa.timestamp("us")),
                        "x": dice.integers(0, 5, count),
                        "k": dice.integers(0, 2, count),
                    },
                    schema=SCHEMA,
                )
            )
            first += count
        given.append((tables[0], tables[1]))
    return given


def moments_of(found: list[tuple[int, int]], pushes: list[Push], window: str) -> tuple[Int64s, Int64s]:
    """Return when the later row of each pair arrived, and when the earlier one did among the rows of its stream."""
    left, right = arrivals(pushes, ordered_by_time="ordered" in window)
    own_left, own_right = own_arrivals(left), own_arrivals(right)
    later = [max(left[a], right[b]) for a, b in found]
    earlier = [own_left[a] if left[a] < right[b] else own_right[b] for a, b in found]
    return np.array(later, np.int64), np.array(earlier, np.int64)


def own_arrivals(arrived: dict[int, int]) -> dict[int, int]:
    """Return the same counted over the rows of one stream alone."""
    return {number: place for place, number in enumerate(sorted(arrived, key=arrived.__getitem__))}


def displaced(numbers: Int64s) -> int:
    """Return by how much a number comes too late at most."""
    return int((np.maximum.accumulate(numbers) - numbers).max(initial=0))


def displacements(later: Int64s, earlier: Int64s) -> tuple[int, int]:
    """Return by how much pairs come too late at most: in the order of their later rows, and those of one row."""
    within = [displaced(earlier[later == row]) for row in np.unique(later)]
    return displaced(later), max(within, default=0)


@given(
    seed=st.integers(0, 50),
    rows=st.sampled_from([1, 2, 4, 30, 1000]),
    comparisons=st.sampled_from([None, 1, 8, 32]),
    window=st.sampled_from(sorted(WINDOWS)),
    cores=st.integers(1, 5),
    block_rows=st.sampled_from([1, 7, 32]),
)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_oracle_relaxed_order_keeps_its_bound(
    topology: str, seed: int, rows: int, comparisons: int | None, window: str, cores: int, block_rows: int
) -> None:
    on, pushes = PREDICATES["band"], tidy(seed)
    order = wm.relaxed(rows=rows, comparisons=comparisons)
    fanout = {"fanout": 2} if topology == "splitjoin" else {}
    with join_of(
        on, WINDOWS[window], topology=topology, cores=cores, order=order, block_rows=block_rows, **fanout
    ) as join:
        found = [pair for left, right in pushes for pair in ids(join.push(left=left, right=right))]
        found += ids(join.finish())
    assert Counter(found) == expected(on, WINDOWS[window], pushes)
    outer, inner = displacements(*moments_of(found, pushes, window))
    assert outer < rows
    assert comparisons is None or inner < comparisons


@pytest.mark.parametrize("cores", [2, 4, 8])
def test_with_fewer_stars_results_do_get_out_of_order(cores: int) -> None:
    on, window, pushes = PREDICATES["band"], WINDOWS["time"], tidy(7)
    for order in (wm.relaxed(rows=16), wm.relaxed(comparisons=32)):
        join = join_of(on, window, topology="splitjoin", cores=cores, order=order, structure="bi_sort")
        found = [pair for left, right in pushes for pair in ids(join.push(left=left, right=right))]
        join.close()
        outer, inner = displacements(*moments_of(found, pushes, "time"))
        assert (outer if order.comparisons is None else inner) > 0


def test_a_relaxed_order_is_checked_and_reads_well() -> None:
    for wrong in ({"rows": 0}, {"rows": True}, {"rows": 1.5}, {"comparisons": 0}, {"comparisons": "1"}):
        with pytest.raises(wm.SpecificationError, match="at least 1"):
            wm.relaxed(**wrong)
    assert str(wm.relaxed(rows=1000, comparisons=50)) == (
        "pairs in the order in which their later rows arrived, to within 1,000 rows; "
        "those of one row to within 50 of the others"
    )


def test_a_relaxed_order_and_a_fanout_are_kept_in_snapshots() -> None:
    on, window, pushes = PREDICATES["band"], WINDOWS["time"], tidy(3)
    options = {"topology": "splitjoin", "cores": 5, "order": wm.relaxed(rows=7, comparisons=3), "fanout": 2}
    join = join_of(on, window, **options)
    found = [pair for left, right in pushes[:3] for pair in ids(join.push(left=left, right=right))]
    saved = join.snapshot()
    join.close()
    for topology in ("splitjoin", "kang"):
        with wm.StreamJoin.restore(saved, topology=topology) as restored:  # type: ignore[arg-type] # both are
            again = [pair for left, right in pushes[3:] for pair in ids(restored.push(left=left, right=right))]
            assert restored._options["order"] == {"rows": 7, "comparisons": 3}
            assert restored._options.get("fanout") == (2 if topology == "splitjoin" else None)
        assert Counter(found + again) == expected(on, window, pushes)
        outer, inner = displacements(*moments_of(again, pushes, "time"))
        assert outer < 7
        assert inner < 3


@pytest.mark.parametrize("fanout", [0, 1, 2.5, True])
def test_a_fanout_that_makes_no_tree_is_refused(fanout: Any) -> None:
    with pytest.raises(wm.SpecificationError, match="fanout"):
        join_of(PREDICATES["band"], WINDOWS["time"], topology="splitjoin", fanout=fanout)


@pytest.mark.parametrize("topology", [topology for topology in TOPOLOGIES if topology != "splitjoin"])
def test_a_topology_without_trees_refuses_a_fanout(topology: str) -> None:
    with pytest.raises(wm.SpecificationError, match=r"splitjoin.*alone hands messages on in trees"):
        join_of(PREDICATES["band"], WINDOWS["time"], topology=topology, fanout=4)


# --- how far it is complete -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["outer", wm.relaxed(rows=10), "inner"], ids=str)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_oracle_what_is_complete_has_been_released(topology: str, order: Any) -> None:
    on, window, pushes = PREDICATES["band"], WINDOWS["time"], tidy(5, pushes=8)
    truth = expected(on, window, pushes)
    left, right = arrivals(pushes, ordered_by_time=False)
    counted = {"left": own_arrivals(left), "right": own_arrivals(right)}
    options = {"topology": topology, "cores": 3, "order": order, "block_rows": 5}
    with disturbed(1), join_of(on, window, **options) as join:
        found: Counter[tuple[int, int]] = Counter()
        before = (0, 0)
        for tables in [*pushes, (None, None), (None, None)]:
            join.submit(left=tables[0], right=tables[1])
            complete = join.complete
            found.update(ids(join.poll()))
            assert complete >= before
            before = complete
            for pair, count in truth.items():
                side = "left" if left[pair[0]] > right[pair[1]] else "right"
                own = pair[0] if side == "left" else pair[1]
                if counted[side][own] < getattr(complete, side):
                    assert found[pair] == count, "a row that is complete has met all before it"
        found.update(ids(join.push()))
        if topology == "handshake":
            assert (0, 0) < join.complete < (len(left), len(right)), "some rows are still on their way to others"
            found.update(ids(join.finish()))
        assert join.complete == (len(left), len(right))
        assert found == truth
    with join_of(on, window) as join, pytest.raises(wm.SpecificationError, match="order=None"):
        _ = join.complete
