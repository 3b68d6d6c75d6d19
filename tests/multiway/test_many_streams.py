"""Joins of many streams against the nested loop over the full history: every shape of join graph, every strategy."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracle
import watersmeet as wm
from drawn_streams import SHAPES, Case, cases
from watersmeet.spec.streams import read_predicate
from watersmeet.spec.window import windows_of

WIRED = "cadbe"
"""The order of a ring; streams that a case does not have are left out."""
STRATEGIES: dict[str, dict[str, Any]] = {
    "circular": {"strategy": "circular"},
    "stashed": {"strategy": "stashed"},
    "auto": {"strategy": "auto"},
    "overwritten": {"strategy": "stashed", "stash_rows": 1},
    "circular on threads": {"strategy": "circular", "cores": 3},
    "overwritten on threads": {"strategy": "stashed", "stash_rows": 1, "cores": 2},
    "wired": {"strategy": "circular", "wiring": WIRED},
    "derived": {"strategy": "stashed", "stash_rows": 9},
    "partial": {"strategy": "stashed", "stash_rows": 9},
    "partial on threads": {"strategy": "stashed", "stash_rows": 9, "cores": 3},
}
"""The stash of those called overwritten is overwritten with nearly every match; one called partial has the newest."""


def disturbance(lanes: int) -> int:
    """Let threads take turns at random, and messages overtake each other."""
    time.sleep(random.random() * 1e-4)
    return random.randrange(lanes)


def run(case: Case, strategy: str) -> Counter[tuple[int, ...]]:
    """Push all of a case's tables, restarting in the middle; return the results' ids."""
    with pytest.MonkeyPatch.context() as patch:
        if case.small:  # many segments, slices, chunks and portions with a few rows already
            patch.setattr("watersmeet.window.creation.SMALLEST_SEGMENT", 4)
            patch.setattr("watersmeet.engine.intake.ROWS_PER_SLICE", 4)
            patch.setattr("watersmeet.subwindow.contract.PAIRS_AT_ONCE", 8)
            patch.setattr("watersmeet.engine.multiway.portions.PORTION", 3)
            patch.setattr("watersmeet.engine.multiway.rows.FAN_IN", 2)
            patch.setattr("watersmeet.engine.multiway.rows.SMALLEST_STEP", 2)
            patch.setattr("watersmeet.engine.multiway.probe_order.FIRST_DECISION", 5)
            patch.setattr("watersmeet.engine.multiway.probe_order.FEWEST_SEEN", 1)
            patch.setattr("watersmeet.engine.multiway.ring.PART", 2)
            patch.setattr("watersmeet.engine.multiway.ring.SMALLEST_SHARE", 1)
            patch.setattr("watersmeet.engine.multiway.ring.CAPACITY", 1)
            patch.setattr("watersmeet.engine.threads.disturbance", disturbance)
        if strategy == "derived":  # whatever they cost
            patch.setattr("watersmeet.engine.multiway.probe_order.WORTHWHILE", 1e9)
            patch.setattr("watersmeet.engine.multiway.probe_order.KEPT", 1e9)
        options = dict(STRATEGIES[strategy])
        if "wiring" in options:
            options["wiring"] = [name for name in options["wiring"] if name in case.schemas]
        join = wm.MultiStreamJoin(streams=case.schemas, on=case.on, window=case.window, **options)
        found: Counter[tuple[int, ...]] = Counter()
        for number, push in enumerate(case.pushes):
            if number == case.restart_before:
                saved = join.snapshot()
                join.close()
                join = wm.MultiStreamJoin.restore(saved)
            results = join.push(**push)
            assert results.schema == join.schema
            ids = [results[f"{name}_id"].to_pylist() for name in case.schemas]
            for name, own in zip(case.schemas, ids, strict=True):
                assert results[f"{name}_p"].to_pylist() == [f"{name}{number}" for number in own]
            found.update(zip(*ids, strict=True))
        assert join.finish().num_rows == 0
        assert join.metrics.results == found.total()
    return found


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much])
@given(data=st.data())
def test_oracle_many_streams(strategy: str, shape: str, data: st.DataObject) -> None:
    case = data.draw(cases(shape, data.draw(st.sampled_from([3, 4, 5]))))
    names = tuple(case.schemas)
    on, window = read_predicate(case.on, names), windows_of(case.window, names)
    assert run(case, strategy) == oracle.results(on, window, case.schemas, case.pushes)
