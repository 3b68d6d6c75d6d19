"""Every result of many streams is found on exactly one core: the rows of it meet on one and on no other. No Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracle
import watersmeet as wm
from drawn_streams import SHAPES, cases
from watersmeet.balance.generation import Generation, RoutingTable, first_generation
from watersmeet.balance.placement import Route
from watersmeet.engine.multiway.plan import MultiPlan, plan_streams
from watersmeet.spark.envelope import joinable
from watersmeet.spark.multiway.routing import MultiBucket, choose_multi_routing
from watersmeet.spark.routing.contract import Routes
from watersmeet.spark.tables import Tables
from watersmeet.spec.streams import read_predicate
from watersmeet.spec.window import windows_of

KINDS = ("hash", "bucket", "replicate")


def _plan(on: str, kinds: dict[str, pa.DataType]) -> MultiPlan:
    schemas = {name: pa.schema([("k", kind), ("v", kind)]) for name, kind in kinds.items()}
    names = tuple(schemas)
    return plan_streams(schemas, read_predicate(on, names), windows_of(wm.count_window(9), names), "auto")


def _possible(plan: MultiPlan) -> list[str]:
    found: list[str] = []
    for kind in KINDS:
        try:
            found.append(choose_multi_routing(kind, plan, 3).name)  # type: ignore[arg-type]
        except wm.SpecificationError:
            continue
    return found


@pytest.mark.parametrize("shape", SHAPES)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much])
@given(data=st.data(), cores=st.integers(1, 5))
def test_oracle_results_meet_on_one_core(shape: str, data: st.DataObject, cores: int) -> None:
    case = data.draw(cases(shape, 3))
    names = tuple(case.schemas)
    on, window = read_predicate(case.on, names), windows_of(case.window, names)
    plan = plan_streams(case.schemas, on, window, "auto")
    truth = oracle.results(on, window, case.schemas, case.pushes)
    for kind in _possible(plan):
        routes = Routes(choose_multi_routing(kind, plan, cores, data.draw(st.sampled_from(names))), Tables(cores)).now()
        held: dict[str, dict[int, set[int]]] = {name: {core: set() for core in range(cores)} for name in names}
        for push in case.pushes:
            for name, table in push.items():
                if table is None or table.num_rows == 0:
                    continue
                rows = table.unify_dictionaries().combine_chunks().to_batches()[0]
                rows = rows.filter(pa.array(joinable(plan, name, rows)[0]))
                ids = np.array(rows.column("id"))
                for route in routes(name, rows, 0):
                    assert route.stored is None
                    assert not held[name][route.core] & set(ids[route.rows].tolist()), "a row comes to a core once"
                    held[name][route.core].update(ids[route.rows].tolist())
        for result in truth:
            met = [
                core
                for core in range(cores)
                if all(own in held[name][core] for name, own in zip(names, result, strict=True))
            ]
            assert len(met) == 1, (kind, result)


@pytest.mark.parametrize("shape", SHAPES)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much])
@given(data=st.data(), cores=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_oracle_one_core_gives_each_result_while_the_table_changes(
    shape: str, data: st.DataObject, cores: int, seed: int
) -> None:
    """Every push is routed by a generation of its own; rows of all of them are in the window."""
    case = data.draw(cases(shape, 3))
    names = tuple(case.schemas)
    on, window = read_predicate(case.on, names), windows_of(case.window, names)
    plan = plan_streams(case.schemas, on, window, "auto")
    truth = oracle.results(on, window, case.schemas, case.pushes)
    for kind in _possible(plan):
        routing = choose_multi_routing(kind, plan, cores, data.draw(st.sampled_from(names)))
        random = np.random.default_rng(seed)
        generations = [first_generation(cores)]
        came: dict[tuple[str, int], int] = {}
        homes: dict[tuple[str, int], dict[int, Callable[[int], bool]]] = {}
        for number, push in enumerate(case.pushes):
            table = RoutingTable(tuple(generations))
            for name, some in push.items():
                if some is None or some.num_rows == 0:
                    continue
                rows = some.unify_dictionaries().combine_chunks().to_batches()[0]
                rows = rows.filter(pa.array(joinable(plan, name, rows)[0]))
                ids = np.array(rows.column("id"))
                for route in routing.route(name, rows, 0, table):
                    for at, row in enumerate(ids[route.rows].tolist()):
                        came[name, row] = number
                        homes.setdefault((name, row), {})[route.core] = _is_home(route, at, table.newest.number)
            if routing.has_groups:
                generations.append(_changed(generations[-1], random))
            else:
                came = dict.fromkeys(came, 0)
        for result in truth:
            chosen = list(zip(names, result, strict=True))
            oldest = min(came[row] for row in chosen)
            centre = next(row for row in chosen if row[0] == routing.centre)
            gives = [
                core
                for core in range(cores)
                if all(core in homes[row] for row in chosen) and homes[centre][core](oldest)
            ]
            assert len(gives) == 1, (kind, result)


def _is_home(route: Route, at: int, newest: int) -> Callable[[int], bool]:
    """Return what tells under which generations a row has its home on the core of a route."""
    return lambda number: route.probed is None or bool(route.probed.have(newest - number)[at])


def _changed(last: Generation, random: np.random.Generator) -> Generation:
    """Return a next generation by which half of the groups have other owners."""
    owners = list(last.owners)
    cores = len(last.active)
    for group in np.flatnonzero(random.random(len(owners)) < 0.5).tolist():
        owners[group] = tuple(random.permutation(cores)[: random.integers(1, 4)].tolist())
    width = int(random.choice([1, last.width, 9]))
    return replace(last, number=last.number + 1, owners=tuple(owners), width=width)


def test_a_chain_of_bands_is_bucketed_around_its_middle() -> None:
    on = "a.k BETWEEN b.k - 3 AND b.k + 5 AND b.k BETWEEN c.k - 1 AND c.k + 1"
    routing = choose_multi_routing("auto", _plan(on, dict.fromkeys("abc", pa.int64())), 4)
    assert isinstance(routing, MultiBucket)
    assert (routing.name, routing.centre) == ("bucket", "b")
    reaches = {stream: tuple(map(int, spot.reach)) for stream, spot in routing.spots}
    # b = a + [-5, 3] and b = c + [-1, 1]
    assert reaches == {"a": (-5, 3), "b": (0, 0), "c": (-1, 1)}


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        ("a.k = b.k AND b.k = c.k", ["hash", "bucket", "replicate"]),
        ("a.k = b.k AND b.v = c.v", ["replicate"]),  # no column of b serves both
        ("a.k = b.k AND b.k BETWEEN c.k - 1 AND c.k + 1", ["bucket", "replicate"]),
        ("a.k < b.k AND b.k = c.k", ["replicate"]),
    ],
)
def test_which_routings_a_predicate_allows(on: str, expected: list[str]) -> None:
    assert _possible(_plan(on, dict.fromkeys("abc", pa.int64()))) == expected


def test_keys_of_different_scales_are_not_hashed_together() -> None:
    plan = _plan("a.k = b.k AND b.k = c.k", {"a": pa.int64(), "b": pa.decimal128(9, 0), "c": pa.decimal128(9, 2)})
    assert _possible(plan) == ["replicate"]


def test_rows_of_the_largest_stream_are_spread_alone() -> None:
    plan = _plan("a.k < b.k AND b.k < c.k", dict.fromkeys("abc", pa.int64()))
    routes = Routes(choose_multi_routing("auto", plan, 4, "b"), Tables(4)).now()
    rows = pa.record_batch({"k": np.arange(1000), "v": np.arange(1000)})
    copies = {name: Counter(row for route in routes(name, rows, 0) for row in route.rows.tolist()) for name in "abc"}
    assert {name: set(found.values()) for name, found in copies.items()} == {"a": {4}, "b": {1}, "c": {4}}
    assert max(len(route.rows) for route in routes("b", rows, 0)) < 400
    with pytest.raises(wm.SpecificationError, match="one of the streams: a, b, c"):
        choose_multi_routing("auto", plan, 4, "d")
