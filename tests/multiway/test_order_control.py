"""Each rule that keeps a result from being missed or found twice: broken here, and found out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.engine.multiway.stage import Stages
from watersmeet.engine.multiway.stash import Stash

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
    [{"cores": 3}, OVERWRITTEN, {"strategy": "stashed", "stash_rows": 600}, {**OVERWRITTEN, "cores": 2}],
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
