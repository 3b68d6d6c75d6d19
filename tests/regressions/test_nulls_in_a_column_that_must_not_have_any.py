"""A null in a column declared not null was pushed and saved, and then no snapshot could be restored.

Arrow does not look whether a column keeps what its field says. A push does; but a dictionary's values may always have
nulls, so a column of dictionaries may too, whatever its field says.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm

WINDOW = wm.count_window(30)


def test_a_plain_null_is_refused_and_changes_nothing() -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("c", pa.int64(), nullable=False)])
    good = pa.table({"id": [1], "c": [5]}, schema=schema)
    bad = pa.Table.from_arrays([pa.array([2, 3]), pa.array([6, None])], schema=schema)
    join = wm.StreamJoin(left=schema, right=schema, on="left.id = right.id", window=WINDOW)
    join.push(left=good)
    with pytest.raises(wm.SchemaError, match=r"column 'c' of the left table has 1 null\(s\)"):
        join.push(left=bad)
    many = wm.MultiStreamJoin(streams={"a": schema, "b": schema}, on="a.id = b.id", window=WINDOW)
    with pytest.raises(wm.SchemaError, match="null"):
        many.push(b=bad)
    assert wm.StreamJoin.restore(join.snapshot()).push(right=good).num_rows == 1


def test_a_null_among_a_dictionarys_values_goes_on() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["x", None]))
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("c", column.type, nullable=False)])
    rows = pa.Table.from_arrays([pa.array([1, 2]), column], schema=schema)
    join = wm.StreamJoin(left=schema, right=schema, on="left.id = right.id", window=WINDOW)
    join.push(left=rows)
    found = wm.StreamJoin.restore(join.snapshot()).push(right=rows)
    assert found["left_c"].to_pylist() == found["right_c"].to_pylist() == ["x", None]
