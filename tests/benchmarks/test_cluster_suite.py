"""The model of a cluster: what it promises, with sizes small enough for a test."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.experiments.cluster.communication import largest_buffer
from benchmarks.models.cluster import Cluster
from benchmarks.models.costs import Costs
from benchmarks.models.keys import Keys, Load, b_model
from benchmarks.suite import SUITES
from watersmeet.balance.balancer import Settings

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


@pytest.mark.parametrize("sub_groups", [1, 4, 16])
def test_the_masters_buffer_is_the_formulas(sub_groups: int) -> None:
    formula = 50_000 * 2 / 2 * (1 + 1 / sub_groups)
    assert largest_buffer(50_000, 2.0, sub_groups, 6) == pytest.approx(formula, rel=0.05)


@pytest.mark.parametrize("name", SUITES["cluster"].experiments)
def test_experiment_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "--quick", "--only", name, "--out", str(tmp_path)]) == 0
    assert f"=== {name}: " in capsys.readouterr().out
    written = json.loads((tmp_path / f"{name}.json").read_text())
    assert written["runs"]
    assert all((tmp_path / plot).is_file() for plot in written["plots"])
