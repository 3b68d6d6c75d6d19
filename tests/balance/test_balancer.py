"""What the balancer decides, from what cores report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.balance.balancer import LEAD, Plan, Settings, decide, forget
from watersmeet.balance.generation import Generation, RoutingTable, first_generation
from watersmeet.balance.loads import (
    HEAVIEST,
    CoreLoad,
    GroupLoad,
    GroupReport,
    Held,
    Observation,
    fit_costs,
    measure_work,
)

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
        cores.append(CoreLoad(core, rows, found, busy, Held(), GroupReport(tuple(named), summed)))
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


def test_a_limit_that_no_core_has_room_for_is_put_in_words() -> None:
    load = observed(FIRST, even(), even(), even())
    held = tuple(replace(core, held=Held(4e6, 2e6, 2e6)) for core in load.cores)
    full = replace(load, cores=held)
    plan = decided(FIRST, full, replace(STEADY, core_bytes=3_000_000))
    assert plan.generation is None
    (decision,) = plan.decisions
    assert decision.kind == "full"
    assert "core(s) 0, 1, 2, 3 will hold up to 4e+06 bytes and may hold 3e+06, and no core has room" in decision.reason
    assert "more cores or a higher limit would help" in decision.reason
    assert decided(FIRST, full, replace(STEADY, core_bytes=4_100_000)) == Plan(None, ())
    uneven = observed(FIRST, even() + 1000 * (np.arange(GROUPS) % CORES == 1), even(), even())
    moved = decided(
        FIRST,
        replace(uneven, cores=tuple(replace(c, held=Held(4e6, 2e6, 2e6)) for c in uneven.cores)),
        replace(STEADY, core_bytes=3_000_000),
    )
    assert moved.generation is not None
    assert "no core has room" in moved.generation.reasons[-1]  # shown by the metrics as long as it is the newest


def test_a_window_may_hold_any_number_of_generations() -> None:
    left = even() + 1000 * (np.arange(GROUPS) % CORES == 1)
    many = tuple(replace(FIRST, number=number, first=number) for number in range(200))
    plan = decide(RoutingTable(many), observed(many[-1], left, even(), even(), oldest=0), CORES, STEADY)
    assert plan.generation is not None
    assert (plan.generation.number, plan.generation.oldest) == (200, 0)


def test_old_places_are_forgotten_once_they_are_empty() -> None:
    moved = replace(FIRST, number=1, first=5, owners=((1,), *FIRST.owners[1:]))
    table = RoutingTable((FIRST, moved))
    assert forget(table, 9, oldest=0).generation is None
    plan = forget(table, 9, oldest=1)
    reason = "no rows are left of the generations before 1"
    assert plan.generation == replace(moved, number=2, first=9 + LEAD, oldest=1, reasons=(reason,))
    assert plan.generation is not None
    assert forget(RoutingTable((moved, plan.generation)), 20, oldest=2).generation is None


@pytest.mark.parametrize(
    ("width", "occupied", "replication", "expected"),
    [
        pytest.param(4, 3, 1.2, 2, id="few groups: narrower"),
        pytest.param(1, 3, 1.2, 1, id="no narrower than the band"),
        pytest.param(1, 30, 2.0, 1, id="many copies, but not groups enough"),
        pytest.param(2, 200, 1.2, 2, id="plenty of groups, but few copies"),
        pytest.param(2, 200, 1.5, 4, id="many copies and plenty of groups: wider"),
        pytest.param(16, 200, 1.5, 16, id="wide enough"),
    ],
)
def test_buckets_follow_skew_and_replication(width: int, occupied: int, replication: float, expected: int) -> None:
    plan = decided_of_buckets(width, np.where(np.arange(BUCKET_GROUPS) < occupied, 1000.0, 0.0), replication)
    assert (width if plan.generation is None else plan.generation.width) == expected


def test_buckets_become_narrower_where_a_few_have_most_rows() -> None:
    rows = np.full(BUCKET_GROUPS, 10.0)  # all groups have rows, ten of them nearly all
    rows[:10] = 10_000.0
    plan = decided_of_buckets(4, rows, 1.2)
    assert plan.generation is not None
    assert plan.generation.width == 2
    assert plan.decisions[0].reason.startswith("rows lie as in 11 even groups, for 4 cores")


def test_narrower_buckets_are_no_use_for_a_single_value() -> None:
    rows = np.full(BUCKET_GROUPS, 100.0)
    rows[0] = rows.sum()
    plan = decided_of_buckets(4, rows, 1.2)
    assert "narrow" not in {decision.kind for decision in plan.decisions}


BUCKET_GROUPS = 256


def decided_of_buckets(width: int, rows: np.ndarray, replication: float) -> Plan:
    """Return what is decided where groups have so many rows of each side, and right ones are stored so often."""
    generation = replace(first_generation(CORES, BUCKET_GROUPS), width=width)
    cores = []
    for core in range(CORES):
        own = sorted(
            (GroupLoad(g, rows[g], rows[g], 0.0) for g in range(core, BUCKET_GROUPS, CORES)), key=lambda g: -g.left
        )
        rest = GroupLoad(len(own[HEAVIEST:]), *([sum(load.left for load in own[HEAVIEST:])] * 2), 0.0)
        right = float(rows[core::CORES].sum())
        groups = GroupReport(tuple(own[:HEAVIEST]), rest, right - right / replication)
        cores.append(CoreLoad(core, 2 * right, 0.0, 2 * ROW * right, Held(), groups))
    observation = Observation(0, 1.0, 0, tuple(cores))
    assert observation.replication == pytest.approx(replication)
    return decided(generation, observation, Settings(decluster=False, cut=False, has_buckets=True))


# --- memory ---------------------------------------------------------------------------------------------------------


def holding(observation: Observation, left: list[float], right: list[float] | None = None) -> Observation:
    """Return the same observation of cores that hold so many bytes, all stored by the newest generation."""
    held = [Held(x + y, x, y) for x, y in zip(left, right or [0.0] * CORES, strict=True)]
    return replace(observation, cores=tuple(map(lambda core, some: replace(core, held=some), observation.cores, held)))


def bytes_after(plan: Plan, observation: Observation) -> np.ndarray:
    generation = FIRST if plan.generation is None else plan.generation
    return measure_work(observation, FIRST, CORES).bytes_of_cores(generation)


EVEN = observed(FIRST, even(), even(), even())


def test_a_core_beyond_its_limit_yields_groups_though_all_are_equally_busy() -> None:
    observation = holding(EVEN, [900.0, 300.0, 300.0, 300.0])
    plan = decided(FIRST, observation, Settings(decluster=False, core_bytes=600))
    assert bytes_after(plan, observation).max() <= 600
    assert {decision.kind for decision in plan.decisions} == {"move"}
    assert plan.decisions[-1].reason.startswith("core 0 is to hold 900 bytes and may hold 600")
    assert plan.generation is not None
    assert plan.generation.reasons == tuple(decision.reason for decision in plan.decisions)


def test_without_a_limit_a_core_may_hold_half_as_much_again_as_the_mean() -> None:
    assert decided(FIRST, holding(EVEN, [500.0, 300.0, 300.0, 300.0])).generation is None
    observation = holding(EVEN, [1200.0, 300.0, 300.0, 300.0])
    after = bytes_after(decided(FIRST, observation), observation)
    assert after.max() <= 1.5 * after.mean()


def test_groups_go_by_the_bytes_of_the_side_that_has_them() -> None:
    """Core 0 holds right rows: its groups with left rows alone are of no use to move."""
    left, right = even(), even()
    own = np.arange(0, GROUPS, CORES)
    left[own[:4]], right[own[:4]] = 2000.0, 0.0
    left[own[4:]], right[own[4:]] = 0.0, 2000.0
    observation = holding(observed(FIRST, left, right, even()), [0.0] * CORES, [900.0, 300.0, 300.0, 300.0])
    plan = decided(FIRST, observation, Settings(decluster=False, core_bytes=600))
    assert plan.generation is not None
    moved = {group for group in range(GROUPS) if plan.generation.owners[group] != FIRST.owners[group]}
    assert moved
    assert moved <= set(own[4:].tolist())


def test_a_group_beyond_the_limit_is_cut_where_that_makes_it_smaller() -> None:
    left = even(1.0)
    left[4] = 100.0  # of core 0, and nearly all that it holds
    observation = holding(observed(FIRST, left, even(1000.0), even()), [800.0, 10.0, 10.0, 10.0])
    plan = decided(FIRST, observation, Settings(decluster=False, core_bytes=500))
    assert plan.generation is not None
    assert len(plan.generation.owners[4]) == 2
    assert bytes_after(plan, observation).max() <= 500


def test_what_older_generations_stored_is_not_moved_twice() -> None:
    """A core has yielded groups; its old rows are still there, what it stores now is little."""
    cores = tuple(
        replace(core, held=Held(whole, newest, 0.0))
        for core, whole, newest in zip(EVEN.cores, (900.0, 300.0, 300.0, 300.0), (10.0, 10.0, 10.0, 10.0), strict=True)
    )
    assert decided(FIRST, replace(EVEN, cores=cores), Settings(decluster=False, core_bytes=600)).generation is None


def test_work_does_not_go_where_there_is_no_room() -> None:
    left = even() + 1000 * (np.arange(GROUPS) % CORES == 1)
    full = holding(observed(FIRST, left, even(), even()), [990.0, 100.0, 100.0, 100.0])
    plan = decided(FIRST, full, Settings(decluster=False, core_bytes=1000))
    assert plan.generation is not None
    assert bytes_after(plan, full)[0] <= 1000
    assert bytes_after(plan, full).max() <= 1000


def test_full_cores_are_not_left_out_and_more_are_taken_in() -> None:
    idle = observed(FIRST, even(), even(), even(), seconds=10.0)
    half_full = decided(FIRST, holding(idle, [500.0] * CORES), Settings(core_bytes=1000))
    assert half_full.generation is None
    few = decided(FIRST, idle, Settings()).generation
    assert few is not None
    assert few.active == (0,)
    full = replace(observed(few, even(), even(), even(), seconds=10.0), micro_batch=few.first)
    cores = (replace(full.cores[0], held=Held(900.0, 900.0, 0.0)), *full.cores[1:])
    plan = decided(few, replace(full, cores=cores), Settings(core_bytes=1000))
    assert plan.decisions[0].kind == "grow"


@given(
    lengths=st.tuples(st.floats(0, 100), st.floats(0, 100)),
    limit=st.none() | st.floats(0.1, 4),
    seed=st.integers(0, 1 << 16),
)
def test_balance_settles(lengths: tuple[float, float], limit: float | None, seed: int) -> None:
    """Whatever the groups cost and hold, and however tight the limit: after some epochs nothing changes any more.

    The windows of both sides have any length, and rows of some groups are up to three times as wide as others'.
    """
    random = np.random.default_rng(seed)
    left, right, pairs = (random.pareto(1.5, GROUPS) * 100 for _ in range(3))
    held = np.stack([left, right]) * random.uniform(1, 3, GROUPS) * np.array(lengths)[:, None]
    settings = Settings(decluster=False, core_bytes=None if limit is None else 1 + int(limit * held.sum() / CORES))
    generation = FIRST
    for _ in range(8):
        observation = observed(generation, left, right, pairs)
        stored = [generation.owned_by(core) for core in range(CORES)]
        plan = decided(
            generation,
            holding(
                observation,
                [float((held[0] / generation.parts)[own].sum()) for own in stored],
                [float(held[1][own].sum()) for own in stored],
            ),
            settings,
        )
        if plan.generation is None:
            return
        generation = plan.generation
    pytest.fail(f"still moving: {plan.decisions}")


def test_costs_are_those_that_explain_the_times() -> None:
    random = np.random.default_rng(1)
    cores = tuple(
        CoreLoad(core, rows, pairs, 3e-7 * rows + 5e-8 * pairs, Held(), GroupReport((), GroupLoad(0, 0, 0, 0)))
        for core, (rows, pairs) in enumerate(random.uniform(1e3, 1e6, (8, 2)).tolist())
    )
    costs = fit_costs(cores)
    assert costs.row == pytest.approx(3e-7)
    assert costs.pair == pytest.approx(5e-8)
