"""How a new segment is indexed, by what the one before it has shown: whether keys drift."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.spec.predicates import Predicate
from watersmeet.spec.sql import parse_predicate
from watersmeet.subwindow.choose import LARGE_BATCH
from watersmeet.window.batch import Arrival, KeyedBatch
from watersmeet.window.plan import JoinPlan, plan_join
from watersmeet.window.stream_window import StreamWindow

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64())])
FIRST = list(range(0, 1000, 20))
"""From 0 to 980: a tenth of that is 98."""
assert len(FIRST) < LARGE_BATCH


def plan_of(on: Predicate | str) -> JoinPlan:
    predicate = parse_predicate(on) if isinstance(on, str) else on
    return plan_join(SCHEMA, SCHEMA, predicate, wm.count_window(10**6), "auto")


def batch_of(plan: JoinPlan, keys: list[int]) -> KeyedBatch:
    number = np.arange(len(keys))
    return KeyedBatch(plan, "left", pa.record_batch([keys, keys], schema=SCHEMA), Arrival(number, number))


def reason_after(plan: JoinPlan, first: list[int], following: list[int]) -> str:
    window = StreamWindow(plan, "left")
    window.append(batch_of(plan, first), None)
    return window.append(batch_of(plan, following), None).choice.reason


@pytest.mark.parametrize("on", [wm.equal("k"), wm.band("k", "k", 1)], ids=["equality", "band"])
@pytest.mark.parametrize(
    ("following", "because"),
    [
        ([883, 5000], "wib_tree because batches are small (2 rows) and keys keep growing"),
        ([882, 5000], "keys do not drift"),
        ([97, -5000], "wib_tree because batches are small (2 rows) and keys keep falling"),
        ([98, -5000], "keys do not drift"),
        ([-1, 981], "keys do not drift"),
    ],
)
def test_keys_drift_if_they_lie_beyond_nearly_all_before(on: Predicate, following: list[int], because: str) -> None:
    assert because in reason_after(plan_of(on), FIRST, following)


def test_equal_keys_do_not_drift() -> None:
    assert "keys do not drift" in reason_after(plan_of(wm.equal("k")), [7], [7])


def test_keys_of_two_equalities_are_hashes_and_do_not_drift() -> None:
    assert "keys do not drift" in reason_after(plan_of(wm.equal("k") & wm.equal("x")), FIRST, FIRST)


def test_a_segment_sorted_by_two_keys_does_not_tell_how_they_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("left.k = right.k AND left.x < right.x")
    window = StreamWindow(plan, "left")
    first = window.append(batch_of(plan, FIRST), None).choice
    assert "alone sorts by two keys" in first.reason
    monkeypatch.setattr("watersmeet.window.creation.key_fractions", lambda *_, **__: 1e-6)  # now one key is enough
    following = window.append(batch_of(plan, [number + 10**6 for number in FIRST]), None)
    assert "keys do not drift" in following.choice.reason


def test_what_was_outgrown_once_is_tried_again_a_segment_later() -> None:
    plan = plan_of(wm.equal("k"))
    window = StreamWindow(plan, "left")
    first = window.append(batch_of(plan, FIRST), None)
    first.choice = replace(first.choice, structure="wib_tree", outgrown=True)
    assert "keys keep changing" in window.append(batch_of(plan, FIRST), None).choice.reason
    assert "keys do not drift" in window.append(batch_of(plan, FIRST), None).choice.reason
