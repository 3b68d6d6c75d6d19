"""Every pair meets once, however the routing table changes between micro-batches: a model of the cores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from watersmeet.balance.generation import Generation, RoutingTable, first_generation
from watersmeet.balance.generation_sets import GenerationSets
from watersmeet.spark.envelope import Envelope, open_blob, seal, together
from watersmeet.spark.routing.choose import choose_routing
from watersmeet.window.plan import JoinPlan, plan_join

GROUPS = 8
CORES = 5
ROUTINGS = {"hash": wm.equal("k"), "bucket": wm.band("k", "k", 3)}
KEYS = st.one_of(st.integers(-40, 40), st.just(7), st.integers(-(2**63), 2**63 - 1))
BATCH = st.tuples(st.lists(KEYS, max_size=8), st.lists(KEYS, max_size=8))


@st.composite
def histories(draw: st.DrawFn) -> list[Generation]:
    """Draw the generations of a query: cut groups, other cores, other widths; old ones are forgotten at any time."""
    generations = [first_generation(CORES, GROUPS)]
    owners = st.lists(st.sampled_from(range(CORES)), min_size=1, max_size=3, unique=True).map(tuple)
    for number in range(1, draw(st.integers(0, 5)) + 1):
        last = generations[-1]
        generations.append(
            Generation(
                number=number,
                first=last.first + draw(st.integers(1, 2)),
                oldest=draw(st.integers(last.oldest, number)),
                owners=tuple(draw(st.lists(owners, min_size=GROUPS, max_size=GROUPS))),
                active=tuple(range(CORES)),
                width=draw(st.sampled_from([1, 4, 9])),
            )
        )
    return generations


def table_at(generations: list[Generation], micro_batch: int) -> RoutingTable:
    newest = max(generation.number for generation in generations if generation.first <= micro_batch)
    return RoutingTable(tuple(generations[generations[newest].oldest : newest + 1]))


@dataclass
class Core:
    """What a core of the join does, on numbers of rows instead of rows."""

    left: list[int] = field(default_factory=list)
    right: list[tuple[int, int]] = field(default_factory=list)
    """Rows, and the generation each was stored under."""


def meetings(
    plan: JoinPlan, routing: str, generations: list[Generation], batches: list[tuple[list[int], list[int]]]
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return how often each left row (of all batches) meets each right row."""
    spread = choose_routing(routing, plan, CORES)  # type: ignore[arg-type]
    cores = [Core() for _ in range(CORES)]
    met = np.zeros((sum(len(left) for left, _ in batches), sum(len(right) for _, right in batches)), np.int64)
    first = {"left": 0, "right": 0}
    for micro_batch, (left, right) in enumerate(batches):
        table = table_at(generations, micro_batch)
        rows = {
            side: pa.record_batch({"k": pa.array(keys, pa.int64())})
            for side, keys in zip(first, (left, right), strict=True)
        }
        for route in spread.route("right", rows["right"], first["right"], table):
            assert len(set(route.rows.tolist())) == len(route.rows)
            new = route.rows + first["right"]
            met[np.ix_(cores[route.core].left, new)] += 1
            kept = new if route.stored is None else new[route.stored]
            cores[route.core].right += [(row, table.newest.number) for row in kept.tolist()]
        for route in spread.route("left", rows["left"], first["left"], table):
            assert len(set(route.rows.tolist())) == len(route.rows)
            core = cores[route.core]
            for at, row in enumerate((route.rows + first["left"]).tolist()):
                for partner, generation in core.right:
                    back = table.newest.number - generation
                    probes = route.probed is None or bool(route.probed.have(back)[at])
                    if generation >= table.oldest and probes:
                        met[row, partner] += 1
                if route.stored is None or route.stored[at]:
                    core.left.append(row)
        first = {"left": first["left"] + len(left), "right": first["right"] + len(right)}
    return met


@pytest.mark.parametrize("routing", ROUTINGS)
@given(generations=histories(), batches=st.lists(BATCH, min_size=1, max_size=8))
def test_oracle_every_pair_meets_once(
    routing: str, generations: list[Generation], batches: list[tuple[list[int], list[int]]]
) -> None:
    schema = pa.schema([("k", pa.int64())])
    plan = plan_join(schema, schema, ROUTINGS[routing], wm.count_window(10), "auto")
    met = meetings(plan, routing, generations, batches)
    assert (met <= 1).all()
    width = 0 if routing == "hash" else 3
    lefts = [(at, key) for at, (left, _) in enumerate(batches) for key in left]
    rights = [(at, key) for at, (_, right) in enumerate(batches) for key in right]
    for i, (left_batch, x) in enumerate(lefts):
        for j, (right_batch, y) in enumerate(rights):
            stored = table_at(generations, min(left_batch, right_batch)).newest.number
            if abs(x - y) <= width and stored >= table_at(generations, max(left_batch, right_batch)).oldest:
                assert met[i, j] == 1, (x, y, left_batch, right_batch)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_oracle_every_pair_meets_once_under_hundreds_of_live_generations(routing: str) -> None:
    """Every micro-batch has a generation of its own, and all of them have rows in the window."""
    random = np.random.default_rng(17)
    generations = [first_generation(CORES, GROUPS)]
    for number in range(1, 150):
        owners = list(generations[-1].owners)
        for group in random.integers(0, GROUPS, 2).tolist():
            owners[group] = tuple(random.permutation(CORES)[: random.integers(1, 4)].tolist())
        width = int(random.choice([1, 4, 9])) if number % 40 == 0 else generations[-1].width
        generations.append(Generation(number, number, 0, tuple(owners), tuple(range(CORES)), width))
    batches = [(random.integers(-20, 20, 2).tolist(), random.integers(-20, 20, 2).tolist()) for _ in generations]
    schema = pa.schema([("k", pa.int64())])
    plan = plan_join(schema, schema, ROUTINGS[routing], wm.count_window(10), "auto")
    left, right = (np.concatenate(some) for some in zip(*batches, strict=True))
    matches = np.abs(np.subtract.outer(left, right)) <= (0 if routing == "hash" else 3)
    met = meetings(plan, routing, generations, batches)
    assert (met <= 1).all()
    assert (met[matches] == 1).all()


def test_sets_of_generations() -> None:
    back, rows = np.array([0, 62, 63, 200, 5, 64]), np.array([0, 0, 1, 2, 2, 3])
    sets = GenerationSets.of(back, rows, 4)
    expected = {(0, 0), (62, 0), (63, 1), (200, 2), (5, 2), (64, 3)}
    assert {(at, row) for at in range(400) for row in np.flatnonzero(sets.have(at)).tolist()} == expected
    assert sets.have(back, rows).all()
    assert not sets.have(back + 1, rows).any()
    assert not sets.are_all.any()
    few = GenerationSets.of(np.array([1]), np.array([0]), 1)
    whole = GenerationSets.joined([few, None, sets.keep(np.array([2, 1]))], [1, 2, 2])
    assert whole is not None
    again = GenerationSets.from_columns(whole.columns())
    assert again is not None
    assert np.flatnonzero(again.have(200)).tolist() == [1, 2, 3]
    assert np.flatnonzero(again.have(1)).tolist() == [0, 1, 2]
    assert np.flatnonzero(again.have(1000)).tolist() == np.flatnonzero(again.are_all).tolist() == [1, 2]
    assert GenerationSets.joined([None, None], [1, 2]) is None
    assert GenerationSets.from_columns({}) is None


def test_a_cut_group_sends_left_rows_to_one_core_and_right_rows_to_all() -> None:
    schema = pa.schema([("k", pa.int64())])
    plan = plan_join(schema, schema, wm.equal("k"), wm.count_window(10), "auto")
    cut = Generation(1, 1, 1, ((0, 1, 2),) * GROUPS, (0, 1, 2))
    rows = pa.record_batch({"k": pa.array([5] * 3000, pa.int64())})
    spread = choose_routing("hash", plan, CORES)
    lefts = spread.route("left", rows, 0, RoutingTable((cut,)))
    assert sum(len(route.rows) for route in lefts) == 3000
    assert all(900 < len(route.rows) < 1100 for route in lefts)
    assert [len(route.rows) for route in spread.route("right", rows, 0, RoutingTable((cut,)))] == [3000] * 3


def test_rows_of_groups_that_did_not_move_go_to_one_core() -> None:
    schema = pa.schema([("k", pa.int64())])
    plan = plan_join(schema, schema, wm.equal("k"), wm.count_window(10), "auto")
    before = first_generation(CORES, GROUPS)
    owners = ((4,), *before.owners[1:])
    table = RoutingTable((before, Generation(1, 1, 0, owners, before.active)))
    keys = np.arange(8000)
    rows = pa.record_batch({"k": keys})
    spread = choose_routing("hash", plan, CORES)
    moved = np.count_nonzero(before.group_of(keys) == 0)
    for side in ("left", "right"):
        routes = spread.route(side, rows, 0, table)  # type: ignore[arg-type]
        assert sum(len(route.rows) for route in routes) == 8000 + moved
        assert sum(len(route.rows) if route.stored is None else route.stored.sum() for route in routes) == 8000


def test_generations_survive_as_text() -> None:
    generation = Generation(3, 17, 1, ((0,), (2, 1)), (0, 1, 2), 9)
    assert Generation.from_json(generation.to_json()) == generation
    for damaged in (
        "",
        "[]",
        "{}",
        generation.to_json()[:-5],
        generation.to_json().replace('"format":2', '"format":1'),
    ):
        with pytest.raises(wm.SnapshotError, match="next step"):
            Generation.from_json(damaged)


def test_sets_of_generations_travel_in_as_many_columns_as_they_need() -> None:
    rows = pa.record_batch({"k": np.arange(3)})
    sets = GenerationSets.of(np.array([0, 100, 1]), np.array([0, 1, 2]), 3)
    (blob,) = seal(Envelope(rows, probed=sets))
    opened = open_blob(blob.as_py(), rows.schema)
    assert opened.rows.schema == rows.schema
    assert opened.probed is not None
    assert [np.flatnonzero(opened.probed.have(at)).tolist() for at in (0, 1, 2, 100)] == [[0], [2], [], [1]]
    both = together([opened, Envelope(rows)], rows.schema).probed
    assert both is not None
    assert np.flatnonzero(both.have(100)).tolist() == [1, 3, 4, 5]
