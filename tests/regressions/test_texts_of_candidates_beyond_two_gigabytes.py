"""A condition on long texts was evaluated for 65,536 candidates at once, however long: beyond 2 GiB the join failed.

The limit is patched to a few kilobytes, so that the test needs no more.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.columns import values
from watersmeet.window import verify

ROWS, WIDTH, LIMIT = 30, 500, 20_000
WINDOW = wm.time_window("1 hour", ts="t", lateness="1 hour")


def rows(kind: pa.DataType) -> pa.Table:
    texts = pa.array([f"{number % 7}" * WIDTH for number in range(ROWS)]).cast(kind)
    return pa.table({"k": [0] * ROWS, "t": pa.array(range(ROWS), pa.timestamp("us")), "s": texts})


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes of text each evaluation had."""
    found: list[int] = []
    evaluate = values.is_true

    def noted(predicate: Any, gather: Any, schemas: Any, count: int) -> Any:
        nbytes = []

        def gathered(column: Any) -> pa.Array:
            array = gather(column)
            nbytes.append(array.nbytes)
            return array

        result = evaluate(predicate, gathered, schemas, count)
        found.append(sum(nbytes))
        return result

    monkeypatch.setattr(verify, "is_true", noted)
    monkeypatch.setattr(verify, "CHECKED_BYTES", LIMIT, raising=False)
    return found


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_two_streams(kind: pa.DataType, looked_at: list[int]) -> None:
    table = rows(kind)
    join = wm.StreamJoin(
        left=table.schema, right=table.schema, on="left.k = right.k AND left.s != right.s", window=WINDOW
    )
    pairs = join.push(left=table, right=table)
    digits = [number % 7 for number in range(ROWS)]
    assert pairs.num_rows == sum(one != other for one in digits for other in digits)
    assert 0 < max(looked_at) <= 2 * LIMIT


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_many_streams(kind: pa.DataType, looked_at: list[int]) -> None:
    table = rows(kind)
    plain = table.select(["k", "t"])
    join = wm.MultiStreamJoin(
        streams={"a": table.schema, "b": plain.schema, "c": table.schema},
        on="a.k = b.k AND b.k = c.k AND a.s != c.s",
        window=WINDOW,
    )
    found = join.push(a=table, b=plain.slice(0, 2), c=table)
    digits = [number % 7 for number in range(ROWS)]
    assert found.num_rows == 2 * sum(one != other for one in digits for other in digits)
    assert 0 < max(looked_at) <= 2 * LIMIT
