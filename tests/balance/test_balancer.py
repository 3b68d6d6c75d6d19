"""What the balancer decides, from what cores report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from watersmeet.balance.balancer import LEAD, Plan, Settings, decide, forget
from watersmeet.balance.generation import MOST_LIVE, Generation, RoutingTable, first_generation
from watersmeet.balance.loads import HEAVIEST, CoreLoad, GroupLoad, Observation, fit_costs, measure_work

CORES = 4
GROUPS = 32
ROW, PAIR = 2e-6, 4e-7
STEADY = Settings(decluster=False)


def observed(
    generation: Generation,
    left: np.ndarray,
    right: np.ndarray,
    pairs: np.ndarray,
    *,
    slow: dict[int, float] | None = None,
    seconds: float = 1.0,
    oldest: int | None = None,
) -> Observation:
    """Return what cores report that own groups with so many rows and pairs."""
    cores = []
    for core in range(CORES):
        own = [group for group, owners in enumerate(generation.owners) if core in owners]
        loads = [
            GroupLoad(g, left[g] / len(generation.owners[g]), right[g], pairs[g] / len(generation.owners[g]))
            for g in own
        ]
        loads.sort(key=lambda load: -(load.left + load.right + load.pairs))
        named, rest = loads[:HEAVIEST], loads[HEAVIEST:]
        rows, found = sum(load.left + load.right for load in loads), sum(load.pairs for load in loads)
        busy = (ROW * rows + PAIR * found) * (slow or {}).get(core, 1.0)
        summed = GroupLoad(
            len(rest), *(sum(getattr(load, name) for load in rest) for name in ("left", "right", "pairs"))
        )
        cores.append(CoreLoad(core, rows, found, busy, 0, tuple(named), summed))
    return Observation(generation.first, seconds, generation.number if oldest is None else oldest, tuple(cores))


def even(count: float = 1000.0) -> np.ndarray:
    return np.full(GROUPS, count)


def decided(generation: Generation, observation: Observation, settings: Settings = STEADY) -> Plan:
    return decide(RoutingTable((replace(generation, oldest=generation.number),)), observation, CORES, settings)


def spread(generation: Generation, observation: Observation) -> float:
    loads = measure_work(observation, generation, CORES).of_cores(generation)[list(generation.active)]
    return float(loads.max() / loads.mean())


FIRST = first_generation(CORES, GROUPS)


def test_even_load_changes_nothing() -> None:
    plan = decided(FIRST, observed(FIRST, even(), even(), even(3000)))
    assert plan == Plan(None, ())


def test_a_supplier_yields_groups_until_it_is_near_the_mean() -> None:
    left = even() + 1000 * (np.arange(GROUPS) % CORES == 1)
    observation = observed(FIRST, left, even(), even())
    plan = decided(FIRST, observation)
    assert plan.generation is not None
    assert plan.generation.number == 1
    assert plan.generation.first == FIRST.first + LEAD
    assert plan.generation.oldest == 0
    assert spread(FIRST, observation) > 1.2
    assert spread(plan.generation, observed(plan.generation, left, even(), even())) < 1.1
    assert {decision.kind for decision in plan.decisions} == {"move"}
    assert "core 1 at 1.3" in plan.decisions[0].reason


def test_the_papers_supplier_yields_one_group() -> None:
    left = even() + 3000 * (np.arange(GROUPS) % CORES == 1)
    plan = decided(FIRST, observed(FIRST, left, even(), even()), Settings(moves=1, cut=False, decluster=False))
    assert plan.generation is not None
    changed = [g for g in range(GROUPS) if plan.generation.owners[g] != FIRST.owners[g]]
    assert len(changed) == 1
    assert FIRST.owners[changed[0]] == (1,)


def test_a_group_too_much_for_one_core_is_cut_and_mended_again() -> None:
    pairs = even()
    pairs[5] = 150_000
    plan = decided(FIRST, observed(FIRST, even(), even(), pairs))
    assert plan.generation is not None
    assert len(plan.generation.owners[5]) >= 2
    assert plan.decisions[0].kind == "cut"
    assert spread(plan.generation, observed(plan.generation, even(), even(), pairs)) < 1.2
    again = decided(plan.generation, observed(plan.generation, even(), even(), even()))
    assert again.generation is not None
    assert len(again.generation.owners[5]) == 1
    assert "mend" in {decision.kind for decision in again.decisions}


def test_cutting_is_no_use_where_all_rows_are_right_rows() -> None:
    right = even(0)
    right[5] = 50_000
    plan = decided(FIRST, observed(FIRST, even(10), right, even(0)))
    owners = FIRST.owners if plan.generation is None else plan.generation.owners
    assert len(owners[5]) == 1


def test_a_slow_core_is_relieved() -> None:
    observation = observed(FIRST, even(), even(), even(), slow={2: 2.0})
    plan = decided(FIRST, observation)
    assert plan.generation is not None
    after = observed(plan.generation, even(), even(), even(), slow={2: 2.0})
    assert spread(plan.generation, after) < 1.2 < spread(FIRST, observation)


def test_idle_cores_are_left_out_and_taken_in_again() -> None:
    low = observed(FIRST, even(), even(), even(), seconds=10.0)
    plan = decided(FIRST, low, Settings())
    assert plan.generation is not None
    assert len(plan.generation.active) == 1
    assert {core for owners in plan.generation.owners for core in owners} == set(plan.generation.active)
    assert plan.decisions[0].kind == "shrink"
    high = observed(plan.generation, even(), even(), even(), seconds=0.1)
    more = decided(plan.generation, high, Settings())
    assert more.generation is not None
    assert len(more.generation.active) == CORES
    assert more.decisions[0].kind == "grow"
    assert spread(more.generation, observed(more.generation, even(), even(), even())) < 1.2


def test_nothing_is_decided_before_the_last_decision_is_in_effect() -> None:
    left = even() + 1000 * (np.arange(GROUPS) % CORES == 1)
    late = replace(FIRST, first=7)
    observation = replace(observed(late, left, even(), even()), micro_batch=6)
    plan = decided(late, observation)
    assert plan.generation is None
    assert plan.decisions[0].kind == "wait"


def test_a_window_that_holds_too_many_generations_waits() -> None:
    left = even() + 1000 * (np.arange(GROUPS) % CORES == 1)
    many = tuple(replace(FIRST, number=number, first=number) for number in range(MOST_LIVE))
    plan = decide(RoutingTable(many), observed(many[-1], left, even(), even(), oldest=0), CORES, STEADY)
    assert plan.generation is None
    assert plan.decisions[0].kind == "wait"


def test_old_places_are_forgotten_once_they_are_empty() -> None:
    moved = replace(FIRST, number=1, first=5, owners=((1,), *FIRST.owners[1:]))
    table = RoutingTable((FIRST, moved))
    assert forget(table, 9, oldest=0).generation is None
    plan = forget(table, 9, oldest=1)
    assert plan.generation == replace(moved, number=2, first=9 + LEAD, oldest=1)
    assert plan.generation is not None
    assert forget(RoutingTable((moved, plan.generation)), 20, oldest=2).generation is None


@pytest.mark.parametrize(("width", "occupied", "expected"), [(4, 3, 2), (1, 3, 1), (1, 30, 1), (2, 200, 4)])
def test_buckets_become_narrower_while_few_have_rows(width: int, occupied: int, expected: int) -> None:
    groups = 256
    generation = replace(first_generation(CORES, groups), width=width)
    left = np.zeros(groups)
    left[:occupied] = 1000.0
    cores = []
    for core in range(CORES):
        own = [GroupLoad(g, left[g], left[g], 0.0) for g in range(core, groups, CORES) if left[g]]
        rest = GroupLoad(len(own[HEAVIEST:]), *([sum(load.left for load in own[HEAVIEST:])] * 2), 0.0)
        rows = sum(load.left + load.right for load in own)
        cores.append(CoreLoad(core, rows, 0.0, ROW * rows, 0, tuple(own[:HEAVIEST]), rest))
    observation = Observation(0, 1.0, 0, tuple(cores))
    plan = decided(generation, observation, Settings(decluster=False, cut=False, has_buckets=True))
    assert (generation if plan.generation is None else plan.generation).width == expected


def test_costs_are_those_that_explain_the_times() -> None:
    random = np.random.default_rng(1)
    cores = tuple(
        CoreLoad(core, rows, pairs, 3e-7 * rows + 5e-8 * pairs, 0, (), GroupLoad(0, 0, 0, 0))
        for core, (rows, pairs) in enumerate(random.uniform(1e3, 1e6, (8, 2)).tolist())
    )
    costs = fit_costs(cores)
    assert costs.row == pytest.approx(3e-7)
    assert costs.pair == pytest.approx(5e-8)
