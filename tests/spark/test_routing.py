"""Every pair that satisfies the predicate meets on exactly one core, whatever the values: no Spark needed."""

from __future__ import annotations

from fractions import Fraction
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from strategies import DOMAINS
from watersmeet.balance.generation import RoutingTable, first_generation
from watersmeet.spark.core_ids import core_ids, partition_of
from watersmeet.spark.multiway.routing import MULTI_ROUTINGS, MultiRoutingName
from watersmeet.spark.routing.buckets import HERE, find_buckets, reach_of
from watersmeet.spark.routing.choose import ROUTINGS, RoutingName, choose_routing
from watersmeet.spec.kinds import How, watched
from watersmeet.spec.predicates import band, equal, less
from watersmeet.spec.sql import parse_predicate
from watersmeet.window.plan import JoinPlan, plan_join

EXTREMES = [-(2**63), -(2**63) + 1, -1, 0, 1, 7, 2**62, 2**63 - 1]
INTEGERS = st.lists(st.one_of(st.integers(-60, 60), st.sampled_from(EXTREMES)), min_size=1, max_size=12)
UNSIGNED = st.lists(
    st.one_of(st.integers(0, 60), st.integers(2**63 - 20, 2**63 + 20), st.integers(2**64 - 20, 2**64 - 1)),
    min_size=1,
    max_size=12,
)
FLOATS = st.lists(st.one_of(st.integers(-60, 60).map(float), st.floats()), min_size=1, max_size=12)
WINDOW = wm.count_window(10)


def _plan(kind: pa.DataType, predicate: wm.Predicate) -> JoinPlan:
    schema = pa.schema([("k", kind)])
    return plan_join(schema, schema, predicate, WINDOW, "auto")


def _meetings(plan: JoinPlan, routing: str, cores: int, left: list[float], right: list[float]) -> np.ndarray:
    """Count on how many cores each left row meets each right row, both new: where the right row is stored."""
    spread = choose_routing(routing, plan, cores)  # type: ignore[arg-type]
    table = RoutingTable((first_generation(cores),))
    kind = plan.schemas["left"].field(0).type
    met = np.zeros((len(left), len(right)), int)
    rows = {side: pa.record_batch({"k": pa.array(values, kind)}) for side, values in (("left", left), ("right", right))}
    lefts = {route.core: route.rows for route in spread.route("left", rows["left"], 5, table)}
    for route in spread.route("right", rows["right"], 3, table):
        stored = route.rows if route.stored is None else route.rows[route.stored]
        if route.core in lefts:
            met[np.ix_(lefts[route.core], stored)] += 1
    return met


@given(left=INTEGERS, right=INTEGERS, cores=st.integers(1, 7), width=st.sampled_from([0, 1, 10, 2**40]))
def test_oracle_bucketed_integers_meet_once(left: list[int], right: list[int], cores: int, width: int) -> None:
    met = _meetings(_plan(pa.int64(), band("k", "k", width)), "bucket", cores, left, right)
    near = np.array([[abs(x - y) <= width for y in right] for x in left])
    assert (met <= 1).all()
    assert (met[near] == 1).all()


@given(left=FLOATS, right=FLOATS, cores=st.integers(1, 7), width=st.sampled_from([0.5, 10.0, 1e-3, 1e15]))
def test_oracle_bucketed_floats_meet_once(left: list[float], right: list[float], cores: int, width: float) -> None:
    met = _meetings(_plan(pa.float64(), band("k", "k", width)), "bucket", cores, left, right)
    assert (met <= 1).all()
    for i, x in enumerate(left):
        for j, y in enumerate(right):
            both_nan = np.isnan(x) and np.isnan(y)
            if both_nan or (y - width <= x <= y + width):
                assert met[i, j] == 1, (x, y)


@given(left=FLOATS, right=FLOATS, cores=st.integers(1, 7))
def test_oracle_hashed_equals_meet_once(left: list[float], right: list[float], cores: int) -> None:
    met = _meetings(_plan(pa.float64(), equal("k")), "hash", cores, left, right)
    assert (met <= 1).all()
    for i, x in enumerate(left):
        for j, y in enumerate(right):
            if x == y or (np.isnan(x) and np.isnan(y)):
                assert met[i, j] == 1, (x, y)


@given(left=UNSIGNED, right=UNSIGNED, cores=st.integers(1, 7), width=st.sampled_from([0, 1, 10, 2**40]))
def test_oracle_unsigned_integers_meet_once(left: list[int], right: list[int], cores: int, width: int) -> None:
    for routing in ("bucket", "hash") if width == 0 else ("bucket",):
        met = _meetings(_plan(pa.uint64(), band("k", "k", width)), routing, cores, left, right)
        assert (met <= 1).all()
        assert (met[np.array([[abs(x - y) <= width for y in right] for x in left])] == 1).all()


@given(data=st.data(), kind=st.sampled_from(["int64", "uint64", "decimal(38,10)", "float64", "string", "dictionary"]))
def test_oracle_nulls_that_match_meet_once(data: st.DataObject, kind: str) -> None:
    arrow, domain = DOMAINS[kind]
    left, right = (data.draw(st.lists(st.sampled_from(domain), min_size=1, max_size=12)) for _ in range(2))
    met = _meetings(_plan(arrow, parse_predicate("left.k <=> right.k")), "hash", 4, left, right)
    assert (met <= 1).all()
    same = np.array([[repr(x) == repr(y) for y in right] for x in left])
    assert (met[same] == 1).all()
    with pytest.raises(wm.SpecificationError, match="broadcast"):  # what has no value has no bucket
        choose_routing("bucket", _plan(arrow, parse_predicate("left.k <=> right.k")), 2)


@given(left=INTEGERS, right=INTEGERS, cores=st.integers(1, 7))
def test_broadcast_pairs_meet_once(left: list[int], right: list[int], cores: int) -> None:
    assert (_meetings(_plan(pa.int64(), less("k")), "broadcast", cores, left, right) == 1).all()


@given(left=INTEGERS, right=INTEGERS, cores=st.integers(2, 7))
def test_a_right_row_is_counted_once_and_its_copies_apart(left: list[int], right: list[int], cores: int) -> None:
    plan = _plan(pa.int64(), band("k", "k", 10))
    spread = choose_routing("bucket", plan, cores)
    table = RoutingTable((first_generation(cores),))
    for side, values in (("left", left), ("right", right)):
        rows = pa.record_batch({"k": pa.array(values, pa.int64())})
        routes = spread.route(side, rows, 0, table, counts=True)
        counted = [
            (route.core, row, group) for route in routes for row, group in zip(route.rows, route.group, strict=True)
        ]  # type: ignore[arg-type]
        assert sorted(row for _, row, group in counted if group >= 0) == list(range(len(values)))
        assert all(table.newest.owners[group if group >= 0 else ~group] == (core,) for core, _, group in counted)


@pytest.mark.parametrize("width", [0.1, 0.3, 1e-3, 7.7])
def test_floats_on_the_border_of_a_bucket_meet_once(width: float) -> None:
    """Left values on and beside the borders of buckets, right ones a band away: rounding decides which match."""
    on = parse_predicate(f"ABS(left.k - right.k) <= {width}D")
    spread = np.arange(-200, 200) * (2 * width)
    left = np.concatenate([spread, np.nextafter(spread, np.inf), np.nextafter(spread, -np.inf)])
    right = np.concatenate([left + width, left - width])
    met = _meetings(_plan(pa.float64(), on), "bucket", 5, left.tolist(), right.tolist())
    near = np.abs(left[:, None] - right[None, :]) <= width
    assert (met <= 1).all()
    assert (met[near] == 1).all()
    beyond = (right[None, :] + width < left[:, None]) | (right[None, :] - width > left[:, None])
    assert (near & beyond).any(), "for some of these the band's ends, rounded, lie on the wrong side"


@pytest.mark.parametrize(("below", "above"), [(0, 0), (10, 10), (0, 7), (3, 12)])
def test_a_right_row_goes_to_the_buckets_of_its_band_and_to_no_other(below: int, above: int) -> None:
    """One copy too many would give the same pairs, and cost a row of memory on another core."""
    plan = _plan(pa.int64(), band("k", "k", below=below, above=above))
    axis = plan.axes[0]
    values = np.arange(-300, 300)
    rows = pa.record_batch({"k": pa.array(values, pa.int64())})
    for wide in (1, 2, 4):
        width = reach_of(axis)[1] - reach_of(axis)[0]
        step = max(1, int(width * wide))
        first, last = find_buckets(axis, "right", plan.schemas, rows, reach_of(axis))(width * wide)
        assert first.tolist() == ((values - below) // step).tolist()
        assert last.tolist() == ((values + above) // step).tolist()
        own, same = find_buckets(axis, "left", plan.schemas, rows, HERE)(width * wide)
        assert own.tolist() == same.tolist() == (values // step).tolist()


def test_a_float_comes_to_no_core_for_a_bucket_that_its_band_does_not_touch() -> None:
    plan = _plan(pa.float64(), band("k", "k", 1.0))
    axis = plan.axes[0]
    values = np.arange(-40, 40) + 0.5  # no end of a band lies on a border
    rows = pa.record_batch({"k": pa.array(values, pa.float64())})
    first, last = find_buckets(axis, "right", plan.schemas, rows, reach_of(axis))(Fraction(2))
    assert first.tolist() == np.floor((values - 1) / 2).tolist()
    assert last.tolist() == np.floor((values + 1) / 2).tolist()


def test_every_routing_can_be_asked_for() -> None:
    assert get_args(RoutingName) == ("auto", *(kind.name for kind in ROUTINGS))
    assert get_args(MultiRoutingName) == ("auto", *(kind.name for kind in MULTI_ROUTINGS))


def test_what_others_may_do_with_a_routing() -> None:
    """The balancer moves groups and makes buckets narrower where there are any, whatever the routing is called."""
    plan = _plan(pa.int64(), band("k", "k", 0))
    found = [choose_routing(kind.name, plan, 2) for kind in ROUTINGS]
    assert [(routing.has_groups, routing.has_buckets) for routing in found] == [
        (True, False),
        (True, True),
        (False, False),
    ]


def test_a_routing_that_does_not_fit_is_refused() -> None:
    with pytest.raises(wm.SpecificationError, match=r"(?s)hash.*allowed:.*broadcast.*next step:"):
        choose_routing("hash", _plan(pa.int64(), less("k")), 2)
    with pytest.raises(wm.SpecificationError, match="auto"):
        choose_routing("anyhow", _plan(pa.int64(), less("k")), 2)  # type: ignore[arg-type]


@pytest.mark.parametrize(("cores", "partitions"), [(1, 1), (2, 2), (4, 2), (3, 5), (16, 4)])
def test_core_ids_spread_evenly(cores: int, partitions: int) -> None:
    ids = core_ids(cores, partitions)
    assert len(set(ids)) == cores
    counts = np.bincount([partition_of(core, partitions) for core in ids], minlength=partitions)
    assert counts.max() - counts.min() <= 1


def _at_judges(
    plan: JoinPlan, routing: str, how: How, cores: int, values: dict[str, list[float]]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return of each watched side how many judges a row has, and which rows of the other side come to one of them."""
    spread = choose_routing(routing, plan, cores, how)  # type: ignore[arg-type]
    table = RoutingTable((first_generation(cores),))
    kind = plan.schemas["left"].field(0).type
    rows = {side: pa.record_batch({"k": pa.array(own, kind)}) for side, own in values.items()}
    routes = {side: {route.core: route for route in spread.route(side, rows[side], 5, table)} for side in values}
    found = {}
    for side, other in (("left", "right"), ("right", "left")):
        judges, comes = np.zeros(len(values[side]), int), np.zeros((len(values[side]), len(values[other])), bool)
        for core, route in routes[side].items():
            assert route.stored is None, "what is judged is kept"
            assert side not in watched(how) or (np.diff(route.rows) > 0).all(), "a core has no rows to sort"
            own = route.rows if route.judged is None else route.rows[route.judged]
            judges[own] += 1
            if core in routes[other]:
                comes[np.ix_(own, routes[other][core].rows)] = True
        if side in watched(how):
            found[side] = judges, comes
    return found


@pytest.mark.parametrize("how", ["left", "right", "full", "semi", "anti"])
@given(
    data=st.data(),
    cores=st.integers(1, 7),
    ends=st.sampled_from([(3, 3), (0, 10), (-50, 60), (-(2**40), 2**41), (-(2**40), 2**40 + 1)]),
)
def test_oracle_a_row_has_one_judge_who_sees_all_that_it_meets(
    how: How, data: st.DataObject, cores: int, ends: tuple[int, int]
) -> None:
    """By buckets of whole numbers and of floats, of bands around zero or far from it; and by broadcast."""
    kind, lists = data.draw(st.sampled_from([(pa.int64(), INTEGERS), (pa.float64(), FLOATS)]))
    values = {side: data.draw(lists) for side in ("left", "right")}
    if ends[0] == -(2**40):  # values near each other's other end, whose roundings differ most
        values["left"] += [value + 2**40 for value in values["right"] if abs(value) < 2**52]
    below, above = ends
    plan = _plan(kind, band("k", "k", below=below, above=above))
    for routing in ("bucket", "broadcast"):
        for side, (judges, comes) in _at_judges(plan, routing, how, cores, values).items():
            assert (judges == 1).all()
            for i, own in enumerate(values[side]):
                for j, other in enumerate(values["right" if side == "left" else "left"]):
                    x, y = (own, other) if side == "left" else (other, own)
                    both_nan = np.isnan(x) and np.isnan(y)
                    assert comes[i, j] or not (both_nan or y - below <= x <= y + above), (routing, side, x, y)
