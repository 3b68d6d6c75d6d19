"""The model of a cluster: what it promises, with sizes small enough for a test."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.experiments.cluster.communication import largest_buffer
from benchmarks.models.cluster import Cluster
from benchmarks.models.costs import Costs
from benchmarks.models.hand_over import handed_over
from benchmarks.models.keys import Keys, Load, b_model
from benchmarks.models.paper_balance import Paper, reorganised
from experiments import experiments
from watersmeet.balance.balancer import Settings
from watersmeet.balance.generation import Generation, first_generation

pytest.importorskip("matplotlib")

COSTS = Costs(probe=1e-7, store=2e-7, pair=5e-8, comparison=1e-9, message=5e-5, sent=1e-9, extract=1e-9)
WINDOW = 10


def test_b_model_gives_every_half_its_part() -> None:
    keys = b_model(0.8, 10)
    assert keys.sum() == pytest.approx(1)
    assert keys[:512].sum() == pytest.approx(0.8)
    assert keys.max() == pytest.approx(0.8**10)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_skew_drift_and_a_lost_executor_are_evened_out_within_three_epochs(seed: int) -> None:
    cluster = Cluster(64, COSTS, WINDOW, epoch=WINDOW, settings=Settings(decluster=False), seed=seed)
    keys = Keys.of(b_model(0.8, 18), cluster.generations[0])
    drifted = keys.drifted(1000 * seed)
    spread, old = [], []
    for at in range(120):
        if at == 80:
            cluster.lose_executor(7 * seed)
        step = cluster.step(Load(1e5, keys if at < 40 else drifted))
        spread.append(step.spread)
        old.append(step.old_rows)
    assert max(spread[:10]) > 5
    for begin in (0, 40, 80):
        assert max(spread[begin + 3 * WINDOW : begin + 40]) <= 1.2
    changes = [generation.first for generation in cluster.generations if generation.first]
    for first in changes:
        following = [other for other in changes if first < other < first + WINDOW]
        if not following and first + WINDOW < 120:
            assert old[first + WINDOW - 1] == 0  # a window later the old places are empty


def test_a_cluster_without_a_balancer_stays_uneven() -> None:
    cluster = Cluster(16, COSTS, WINDOW, seed=1)
    keys = Keys.of(b_model(0.8, 18), cluster.generations[0])
    assert min(cluster.step(Load(1e5, keys)).spread for _ in range(60)) > 2


def test_pairs_do_not_depend_on_the_routing() -> None:
    found = []
    for settings in (None, Settings(decluster=False), Settings()):
        cluster = Cluster(8, COSTS, WINDOW, epoch=5, settings=settings, seed=4)
        keys = Keys.of(b_model(0.7, 12), cluster.generations[0])
        found.append([cluster.step(Load(2e4, keys)).pairs.sum() for _ in range(50)])
    assert np.allclose(found[0], found[1])
    assert np.allclose(found[0], found[2])


def test_fewer_cores_are_used_for_little_load() -> None:
    cluster = Cluster(16, COSTS, WINDOW, epoch=5, settings=Settings(), seed=5)
    keys = Keys.uniform(1e6, cluster.generations[0], 5)
    steps = [cluster.step(Load(1e4, keys)) for _ in range(40)]
    assert len(steps[0].active) == 16
    assert len(steps[-1].active) == 1
    assert steps[-1].communication.sum() < steps[0].communication.sum() / 4
    burst = [cluster.step(Load(1e7, keys)) for _ in range(60)]
    assert len(burst[-1].active) == 16


@pytest.mark.parametrize("sub_groups", [2, 4, 8])
def test_sub_groups_shorten_the_wait_and_the_buffer_and_change_nothing_else(sub_groups: int) -> None:
    found = []
    for groups in (1, sub_groups):
        cluster = Cluster(16, COSTS, WINDOW, sub_groups=groups, seed=7)
        keys = Keys.uniform(1e6, cluster.generations[0], 7)
        found.append([cluster.step(Load(1e6, keys)) for _ in range(2 * WINDOW)][-1])
    one, many = found
    assert many.busy.tolist() == one.busy.tolist()
    assert many.pairs.tolist() == one.pairs.tolist()
    assert many.served.max() == pytest.approx(one.served.max() / sub_groups, rel=0.02)
    assert many.delay < one.delay
    assert many.buffered / one.buffered == pytest.approx((1 + 1 / sub_groups) / 2, rel=0.02)


def test_rows_that_are_handed_over_leave_no_row_in_old_places() -> None:
    waiting, handing = (
        Cluster(8, COSTS, WINDOW, epoch=5, settings=Settings(decluster=False), hands_over=hands_over, seed=8)
        for hands_over in (False, True)
    )
    keys = Keys.of(b_model(0.8, 16), waiting.generations[0])
    steps = [[cluster.step(Load(5e4, keys)) for _ in range(40)] for cluster in (waiting, handing)]
    assert max(step.old_rows for step in steps[0]) > 0 == max(step.old_rows for step in steps[1])
    assert sum(step.handed_over for step in steps[0]) == 0 < sum(step.handed_over for step in steps[1])
    assert max(step.live for step in steps[1]) == 1
    assert np.allclose([step.pairs.sum() for step in steps[0]], [step.pairs.sum() for step in steps[1]])
    moves = [step.spread for step in steps[1] if step.handed_over]
    assert moves[0] < 1.5 < steps[0][0].spread  # relief comes at once


def test_who_hands_over_what() -> None:
    before = Generation(0, 0, 0, ((0,), (0,), (1, 2), (1,)), (0, 1, 2))
    after = replace(before, number=1, owners=((1,), (0,), (2, 0), (1, 0)))
    left, right = np.array([10.0, 99.0, 8.0, 6.0]), np.array([1.0, 99.0, 20.0, 4.0])
    given, taken = handed_over(before, after, left, right, 3)
    # group 0 moves; of group 2 core 0 takes core 1's part, and the right rows from both owners; group 3 is cut
    assert taken.tolist() == [4 + 20 + 3 + 4, 10 + 1, 0]
    assert given.tolist() == [10 + 1, 4 + 10 + 3 + 4, 10]


def test_the_papers_supplier_yields_one_random_group_and_the_degree_follows() -> None:
    first = first_generation(3, 60)
    settings, random = Paper(), np.random.default_rng(9)
    plan = reorganised(first, np.array([0.6, 0.3, 0.0]), 7, settings, random)
    assert plan is not None
    changed = [group for group in range(60) if plan.owners[group] != first.owners[group]]
    assert [(first.owners[group], plan.owners[group]) for group in changed] == [((0,), (2,))]
    assert (plan.number, plan.first) == (1, 7)
    assert reorganised(first, np.array([0.4, 0.3, 0.02]), 7, settings, random) is None  # all are neutral
    fewer = reorganised(first, np.array([0.4, 0.3, 0.02]), 7, Paper(decluster=True), random)
    assert fewer is not None
    assert fewer.active == (0, 1)
    assert {core for some in fewer.owners for core in some} == {0, 1}
    more = reorganised(fewer, np.array([0.7, 0.3, 0.0]), 9, Paper(decluster=True), random)
    assert more is not None
    assert more.active == (0, 1, 2)


@pytest.mark.parametrize("sub_groups", [1, 4, 16])
def test_the_masters_buffer_is_the_formulas(sub_groups: int) -> None:
    formula = 50_000 * 2 / 2 * (1 + 1 / sub_groups)
    assert largest_buffer(50_000, 2.0, sub_groups, 6) == pytest.approx(formula, rel=0.05)


@pytest.mark.parametrize("name", experiments("cluster"))
def test_experiment_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "--quick", "--only", name, "--out", str(tmp_path)]) == 0
    assert f"=== {name}: " in capsys.readouterr().out
    written = json.loads((tmp_path / f"{name}.json").read_text())
    assert written["runs"]
    assert all((tmp_path / plot).is_file() for plot in written["plots"])
