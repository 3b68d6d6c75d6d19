"""Indices of 8 bits count 127 values, and rows of several pushes had more together: a push ended with ArrowInvalid."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import oracle
import watersmeet as wm
from topologies import TOPOLOGIES, ids_of_kind
from watersmeet.spec.sql import parse_predicate

WINDOW = wm.count_window(150)
PUSHES = 6


def rows_of(push: int, shift: int, kind: pa.DataType | None = None) -> pa.Table:
    """Return a hundred rows with a value each; half of the values come with the next push too."""
    values = range(50 * push + shift, 50 * push + shift + 100)
    words = pa.array([f"word {value}" for value in values])
    column = pa.DictionaryArray.from_arrays(pa.array(range(100), kind or pa.int8()), words)
    return pa.table({"id": [1000 * push + value for value in values], "n": values, "k": column})


def pushes_of(kind: pa.DataType | None = None) -> list[tuple[pa.Table, pa.Table]]:
    return [(rows_of(number, 0, kind), rows_of(number, 25, kind)) for number in range(PUSHES)]


SCHEMA = rows_of(0, 0).schema


@pytest.mark.parametrize("how", ["full", "semi"])
@pytest.mark.parametrize("on", ["left.k = right.k", "left.n = right.n"], ids=["key", "payload"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_values_of_many_pushes(topology: str, on: str, how: Any) -> None:
    pushes = pushes_of()
    pairs = oracle.pairs(parse_predicate(on), WINDOW, {"left": SCHEMA, "right": SCHEMA}, pushes)
    for order in (None, "inner"):
        options = {"how": how, "topology": topology, "cores": 2, "order": order}
        join = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on=on, window=WINDOW, **options)
        found = []
        for number, (left, right) in enumerate(pushes):
            found.append(join.push(left=left, right=right))
            if number % 2:
                saved = join.snapshot()
                join.close()
                join = wm.StreamJoin.restore(saved)
        found.append(join.finish())
        assert sorted(map(str, [ids for some in found for ids in ids_of_kind(some)])) == sorted(
            map(str, oracle.of_kind(how, pairs, WINDOW, pushes).elements())
        )
        together = pa.concat_tables(found)
        assert together.schema == join.schema
        for name in [name for name in together.column_names if name.endswith("k")]:
            values = together[name.replace("k", "n")].to_pylist()
            assert together[name].to_pylist() == [None if value is None else f"word {value}" for value in values]


@pytest.mark.parametrize("kind", [pa.uint8(), pa.int16(), pa.int64()])
def test_a_push_may_have_indices_of_another_width(kind: pa.DataType) -> None:
    """As pandas gives them: it takes the smallest that does."""
    join = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on="left.k = right.k", window=WINDOW)
    found = [join.push(left=left, right=right) for left, right in pushes_of()]
    if kind == pa.int64():
        with pytest.raises(wm.SchemaError, match="indices=int64"):
            join.push(left=rows_of(0, 0, kind))
        return
    again = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on="left.k = right.k", window=WINDOW)
    assert [again.push(left=left, right=right) for left, right in pushes_of(kind)] == found


def test_many_streams() -> None:
    found = []
    for on in ("a.k = b.k AND b.k = c.k", "a.n = b.n AND b.n = c.n"):
        join = wm.MultiStreamJoin(streams=dict.fromkeys("abc", SCHEMA), on=on, window=wm.count_window(1000))
        tables = []
        for left, right in pushes_of():
            join = wm.MultiStreamJoin.restore(join.snapshot())
            tables.append(join.push(a=left, b=right, c=left))
        found.append(pa.concat_tables(tables).select(["a_id", "b_id", "c_id", "c_k"]).to_pylist())
    assert sorted(map(str, found[0])) == sorted(map(str, found[1]))
    assert len(found[0]) > 1000


def test_a_snapshot_from_before_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr("watersmeet.window.plan.held_schema", lambda schema: schema)
        before.setattr("watersmeet.engine.intake.held_rows", lambda table: table)
        join = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on="left.k = right.k", window=WINDOW, how="left", late="keep")
        found = [join.push(left=left, right=right) for left, right in pushes_of()[:1]]
        assert join.schema.field("left_k").type.index_type == pa.int8()
        saved = join.snapshot()
    join = wm.StreamJoin.restore(saved)
    found += [join.push(left=left, right=right) for left, right in pushes_of()[1:]]
    whole = wm.StreamJoin(left=SCHEMA, right=SCHEMA, on="left.k = right.k", window=WINDOW, how="left")
    expected = [whole.push(left=left, right=right) for left, right in pushes_of()]
    assert [some.to_pylist() for some in found] == [some.to_pylist() for some in expected]
