"""Keys of all axes narrow the candidates before the residual sees them: no pair is lost, and there are far fewer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oracle
import watersmeet as wm
from watersmeet.spec.sql import parse_predicate
from watersmeet.window import batch, verify

SEED = 20
ON = (
    "left.x BETWEEN right.x - 0.3D AND right.x + 0.3D AND left.y BETWEEN right.y - 0.2D AND right.y + 0.2D"
    " AND left.word = right.word"
)
"""Three axes, none of which keys decide alone: float arithmetic twice, and a hash."""
WINDOW = wm.count_window(60)


def pushes(rows: int) -> list[tuple[pa.Table, pa.Table]]:
    """Return pushes of rows that often lie just on an edge of the bands: tenths, which floats hit or miss narrowly."""
    rng = np.random.default_rng(SEED)

    def table(number: int) -> pa.Table:
        return pa.table(
            {
                "id": rows * number + np.arange(rows),
                "x": rng.integers(0, 10, rows) / 10,
                "y": (rng.integers(0, 10, rows) / 10).astype(np.float32),
                "word": rng.choice(["one", "two"], rows),
            }
        )

    return [(table(number), table(number)) for number in range(8)]


def found(given: list[tuple[pa.Table, pa.Table]]) -> Counter[tuple[int, int]]:
    """Return the pairs of ids that a join finds."""
    schema = given[0][0].schema
    join = wm.StreamJoin(left=schema, right=schema, on=ON, window=WINDOW, structure="scan")
    tables = [join.push(left=left, right=right) for left, right in given]
    pairs = pa.concat_tables([*tables, join.finish()])
    return Counter(zip(pairs["left_id"].to_pylist(), pairs["right_id"].to_pylist(), strict=True))


@pytest.mark.parametrize("rows_per_candidate", [0, 10**9], ids=["residual alone", "keys first"])
@pytest.mark.parametrize("checked_together", [1, 1 << 16])
def test_oracle_narrowing_loses_no_pair(
    monkeypatch: pytest.MonkeyPatch, rows_per_candidate: int, checked_together: int
) -> None:
    monkeypatch.setattr(verify, "ROWS_PER_CANDIDATE", rows_per_candidate)
    monkeypatch.setattr(verify, "CHECKED_TOGETHER", checked_together)
    given = pushes(12)
    expected = oracle.pairs(
        parse_predicate(ON), WINDOW, dict.fromkeys(("left", "right"), given[0][0].schema), list(given)
    )
    assert found(given) == expected
    assert expected, "a test without pairs shows nothing"


def test_keys_leave_the_residual_little_more_than_the_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = 0

    def is_true(predicate: Any, columns: Any, schemas: Any, rows: int) -> Any:
        nonlocal checked
        checked += rows
        return truth(predicate, columns, schemas, rows)

    truth = verify.is_true
    monkeypatch.setattr(verify, "is_true", is_true)
    given = pushes(40)
    pairs = sum(found(given).values())
    assert pairs <= checked < 2 * pairs
    monkeypatch.setattr(verify, "ROWS_PER_CANDIDATE", 0)
    narrowed, checked = checked, 0
    assert sum(found(given).values()) == pairs
    assert checked > 2 * narrowed


@pytest.mark.parametrize("structure", ["hash", "bi_sort", "rap_table", "wib_tree"])
def test_equalities_whose_hashes_meet(monkeypatch: pytest.MonkeyPatch, structure: Any) -> None:
    """Several equalities are looked up by one hash; rows that share it, and nothing else, are no pairs."""
    monkeypatch.setattr(batch, "combine_keys", lambda keys: np.zeros(len(keys[0]), np.int64))
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("x", pa.int64())])
    on = wm.equal("a") & wm.equal("b") & wm.band("x", "x", 100)
    join = wm.StreamJoin(left=schema, right=schema, on=on, window=wm.count_window(99), structure=structure)
    rows = pa.table({"a": [1, 1, 2, 2], "b": [1, 2, 1, 2], "x": [1, 2, 3, 4]}, schema=schema)
    pairs = join.push(left=rows, right=rows)
    assert sorted(pairs["left_x"].to_pylist()) == sorted(pairs["right_x"].to_pylist()) == [1, 2, 3, 4]
