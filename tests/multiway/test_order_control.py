"""Each rule that keeps a result from being missed or found twice: broken here, and found out."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.engine.multiway.block import Block
from watersmeet.engine.multiway.partial import Partials
from watersmeet.engine.multiway.ring import Ring
from watersmeet.engine.multiway.stage import Stage, Stages
from watersmeet.engine.multiway.stash import Stash
from watersmeet.engine.multiway.stashed import Stashed

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64())])
SEED = 17


def results(**options: Any) -> Counter[tuple[int, ...]]:
    """Join three streams of 600 rows in pushes of 50; return the results' ids."""
    random = np.random.default_rng(SEED)
    found: Counter[tuple[int, ...]] = Counter()
    with wm.MultiStreamJoin(
        streams={"a": SCHEMA, "b": SCHEMA, "c": SCHEMA},
        on="a.k = b.k AND b.k = c.k",
        window=wm.count_window({"a": 100, "b": 80, "c": 120}),
        **options,
    ) as join:
        for first in range(0, 600, 50):
            tables = {
                name: pa.table({"id": np.arange(first, first + 50), "k": random.integers(0, 40, 50)}, SCHEMA)
                for name in ("a", "b", "c")
            }
            table = join.push(**tables)
            found.update(zip(*(table[f"{name}_id"].to_pylist() for name in "abc"), strict=True))
    return found


EXPECTED = results(strategy="circular")
OVERWRITTEN = {"strategy": "stashed", "stash_rows": 20}


@pytest.mark.parametrize(
    "options",
    [
        {"cores": 3},
        OVERWRITTEN,
        {"strategy": "stashed", "stash_rows": 600},
        {"strategy": "stashed", "cores": 3},
        {**OVERWRITTEN, "cores": 2},
    ],
    ids=str,
)
def test_unbroken_rules_give_the_same_results(options: dict[str, Any]) -> None:
    assert EXPECTED.total() > 1_000
    assert set(EXPECTED.values()) == {1}
    assert results(**options) == EXPECTED


def test_without_refine_rows_stored_prematurely_are_found_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def held(stages: Stages, stream: str, numbers: Any, _: object) -> Any:
        return numbers >= stages.of[stream].rows.first

    monkeypatch.setattr(Stages, "_live", held)
    assert max(results(strategy="circular", cores=3).values()) > 1


def test_without_recomputation_overwritten_pairs_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stash, "missing", lambda *_: None)
    assert results(**OVERWRITTEN).total() < EXPECTED.total()


def test_without_the_border_recomputed_pairs_are_found_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stash, "missing", lambda *_: (2**62, 2**62))  # recomputes also what is in the stash
    assert max(results(strategy="stashed", stash_rows=600).values()) > 1


@pytest.mark.parametrize(("moved", "is_wrong"), [(-1, "missed"), (1, "found twice")])
def test_a_border_one_row_off_is_found_out(moved: int, is_wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Stash.missing

    def off(stash: Stash, via: str) -> tuple[int, int] | None:
        border = rule(stash, via)
        return None if border is None else (border[0] + moved, border[1] + moved)

    monkeypatch.setattr(Stash, "missing", off)
    found = results(strategy="stashed", stash_rows=200)  # the border lies within the windows
    assert found != EXPECTED
    assert (max(found.values()) > 1) == (is_wrong == "found twice")


def test_a_stash_that_is_said_to_be_complete_from_one_row_earlier_misses_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule = Stash._append

    def earlier(stash: Stash, pairs: Partials, begin: tuple[int, int], after: tuple[int, int]) -> None:
        rule(stash, pairs, (begin[0] - 1, begin[1] - 1), (after[0] - 1, after[1] - 1))

    monkeypatch.setattr(Stash, "_append", earlier)
    assert results(**OVERWRITTEN).total() < EXPECTED.total()


@pytest.mark.parametrize("stash_rows", [7, 20, 50, 200])
def test_a_stash_that_begins_in_the_middle_has_what_its_border_says(
    stash_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins anew, with those matches of stored rows that it has room for, after every block."""
    monkeypatch.setattr("watersmeet.engine.multiway.probe_order.FIRST_DECISION", 1)
    monkeypatch.setattr("watersmeet.engine.multiway.probe_order.MOST_ROWS_BETWEEN", 1)
    turn = count()

    def next_one(strategy: Stashed) -> None:
        plans = strategy._plans()
        strategy._use(plans[next(turn) % len(plans)])
        assert strategy.stash is not None
        border = next(iter(strategy.stash.indexes.values())).border
        first = tuple(strategy.stages.of[stream].rows.first for stream in strategy.stash.streams)
        begun.append(first != border)

    begun: list[bool] = []
    monkeypatch.setattr(Stashed, "decide", next_one)
    assert results(strategy="stashed", stash_rows=stash_rows) == EXPECTED
    assert any(begun)


SMALL = {"watersmeet.window.creation.SMALLEST_SEGMENT": 4, "watersmeet.engine.multiway.rows.SMALLEST_STEP": 8}


def test_recomputing_looks_only_at_segments_that_may_hold_rows_below_the_border(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in SMALL.items():
        monkeypatch.setattr(name, value)
    rule = Stage.reached
    looked_at: list[tuple[int, int]] = []

    def seen(stage: Stage, partner: str, limit: int) -> int:
        reached = rule(stage, partner, limit)
        looked_at.append((reached, len(stage.windows[partner].segments)))
        return reached

    monkeypatch.setattr(Stage, "reached", seen)
    assert results(strategy="stashed", stash_rows=300) == EXPECTED
    assert any(reached < segments for reached, segments in looked_at)


def test_one_segment_too_few_misses_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SMALL.items():
        monkeypatch.setattr(name, value)
    rule = Stage.reached
    monkeypatch.setattr(Stage, "reached", lambda *given: max(0, rule(*given) - 1))
    assert results(**OVERWRITTEN).total() < EXPECTED.total()


def test_rows_that_look_into_a_stash_before_it_is_filled_miss_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Ring._fill

    def late(ring: Ring, stash: Stash, blocks: list[Block], pairs: list[Partials]) -> list[Partials]:
        return rule(ring, stash, blocks, pairs) if len(blocks) == len("abc") else pairs

    monkeypatch.setattr(Ring, "_fill", late)
    assert results(strategy="stashed", cores=2).total() < EXPECTED.total()
